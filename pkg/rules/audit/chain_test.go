package audit_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// chain returns the check of some days.
func (f *folder) chain(since, until time.Time) audit.Chain {
	f.t.Helper()
	s, err := f.Snapshot(since, until)
	require.OK(f.t, err)
	c, err := s.Check(f.t.Context())
	require.OK(f.t, err)
	return c
}

// threeDays returns a folder with two lines on each of the days 4, 5 and 6, of which the last is
// still open.
func threeDays(t *testing.T) *folder {
	f := newFolder(t)
	for n := 4; n <= 6; n++ {
		f.clock.set(day(n))
		f.write(fmt.Sprintf("a:%d", 2*n), fmt.Sprintf("a:%d\x1b[2J'; \"=1+1", 2*n+1))
	}
	return f
}

func midnight(n int) time.Time { return time.Date(2026, 3, n, 0, 0, 0, 0, time.UTC) }

func TestCheckOfSomeDays(t *testing.T) {
	cut := func(raw []byte) []byte { return raw[:bytes.IndexByte(raw, '\n')+1] }
	for name, test := range map[string]struct {
		since, until int
		do           func(f *folder)
		days         string
		fault        string
	}{
		"all":                          {0, 0, nil, "2026-03-04 2026-03-05 2026-03-06", ""},
		"one day":                      {5, 6, nil, "2026-03-05", ""},
		"no day":                       {1, 3, nil, "", ""},
		"the day before was changed":   {5, 0, func(f *folder) { f.change(4, cut) }, "2026-03-05 2026-03-06", "2026-03-05.jsonl, line 1: it does not follow"},
		"the end of a day was removed": {4, 6, func(f *folder) { f.change(5, cut) }, "2026-03-04 2026-03-05", "2026-03-05.jsonl: lines are missing at its end"},
		"the last line of today":       {6, 0, func(f *folder) { f.change(6, cut) }, "2026-03-06", "2026-03-06.jsonl: lines are missing at its end"},
		"today's last line was changed": {6, 0, func(f *folder) {
			f.change(6, func(raw []byte) []byte { return bytes.Replace(raw, []byte("a:13"), []byte("a:31"), 1) })
		}, "2026-03-06", "2026-03-06.jsonl: lines are missing at its end, or its last line was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := threeDays(t)
			if test.do != nil {
				test.do(f)
			}
			var since, until time.Time
			if test.since > 0 {
				since = midnight(test.since)
			}
			if test.until > 0 {
				until = midnight(test.until)
			}
			c := f.chain(since, until)
			var days []string
			for _, d := range c.Days {
				days = append(days, d.Day)
			}
			if got := strings.Join(days, " "); got != test.days ||
				(c.Count > 0) != (test.fault != "") ||
				c.Partial {
				t.Errorf("%s, %+v", got, c)
			}
			if test.fault != "" && !strings.HasPrefix(c.Faults[0], test.fault) {
				t.Errorf("%q", c.Faults)
			}
		})
	}
}

// A snapshot excludes lines that are written after it.
func TestCheckWhileLinesAreWritten(t *testing.T) {
	f := threeDays(t)
	s, err := f.Snapshot(midnight(6), time.Time{})
	require.OK(t, err)
	f.write("a:14", "a:15")
	c, err := s.Check(t.Context())
	if err != nil || c.Lines() != 2 || c.Count != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if c := f.chain(midnight(6), time.Time{}); c.Lines() != 4 || c.Count != 0 {
		t.Errorf("later: %+v", c)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := s.Check(ended); err != nil || !c.Partial {
		t.Errorf("without time: %+v, %v", c, err)
	}
}

// evidence writes the archive of all days and unpacks it.
func (f *folder) evidence() (dir string) {
	f.t.Helper()
	s, err := f.Snapshot(time.Time{}, time.Time{})
	require.OK(f.t, err)
	var b bytes.Buffer
	require.OK(
		f.t,
		s.WriteEvidence(
			f.t.Context(),
			&b,
			audit.Evidence{Made: day(6), By: "kim", Gateway: "https://gate.example.com"},
		),
	)
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.OK(f.t, err)
	dir = f.t.TempDir()
	require.OK(f.t, os.CopyFS(dir, z))
	return dir
}

func TestEvidence(t *testing.T) {
	const today = "audit/2026-03-06.jsonl"
	replace := func(name, old, by string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			raw, err := os.ReadFile(filepath.Join(dir, name))
			require.OK(t, err)
			if changed := bytes.Replace(raw, []byte(old), []byte(by), 1); !bytes.Equal(
				raw,
				changed,
			) {
				require.OK(t, os.Chmod(filepath.Join(dir, name), 0o600))
				require.OK(t, os.WriteFile(filepath.Join(dir, name), changed, 0o600))
				return
			}
			t.Fatalf("%s has no %q", name, old)
		}
	}
	for name, test := range map[string]struct {
		do   func(t *testing.T, dir string)
		says string // "": no fault
	}{
		"whole":           {nil, ""},
		"a changed line":  {replace(today, "a:12", "a:21"), "2026-03-06.jsonl:2 follows "},
		"the last line":   {replace(today, "a:13", "a:31"), "2026-03-06.jsonl is not the file that manifest.json describes"},
		"another day":     {func(t *testing.T, dir string) { require.OK(t, os.Remove(filepath.Join(dir, today))) }, "'2026-03-06' is in manifest.json, and its file is missing"},
		"an unlisted day": {replace("manifest.json", `"day": "2026-03-04"`, `"day": "2026-03-03\u001b[2J"`), `'2026-03-03\x1b[2J' is in manifest.json`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := threeDays(t).evidence()
			if test.do != nil {
				test.do(t, dir)
			}
			said, ok := runPython(t, filepath.Join(dir, "verify.py"))
			if ok != (test.says == "") || !strings.Contains(said, test.says) ||
				strings.Contains(said, "\x1b") {
				t.Errorf("%v: %s", ok, said)
			}
		})
	}
}

// If a reader leaves, the archive has no end.
func TestEvidenceForAReaderThatLeaves(t *testing.T) {
	f := threeDays(t)
	s, err := f.Snapshot(time.Time{}, time.Time{})
	require.OK(t, err)
	gone := errors.New("gone")
	if err := s.WriteEvidence(t.Context(), failing{gone}, audit.Evidence{}); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var b bytes.Buffer
	if err := s.WriteEvidence(ended, &b, audit.Evidence{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len())); err == nil {
		t.Error("the archive can be opened")
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// The memory for the check and for the archive does not depend on the number of lines.
func BenchmarkEvidence(b *testing.B) {
	path := filepath.Join(b.TempDir(), "audit")
	d, err := audit.OpenDir(path, nil)
	require.OK(b, err)
	defer func() { require.OK(b, d.Close()) }()
	lines := make([]audit.Line, 1000)
	for i := range lines {
		lines[i] = audit.Line{
			V: 1, Kind: audit.KindCall, Agent: "token:ci", Method: "tools/call", Tool: "github:create_issue", Decision: audit.Allowed,
			Definition: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", Path: "/mcp", Outcome: "available", Source: "192.0.2.1",
		}
	}
	for range 1000 {
		require.OK(b, d.WriteAll(b.Context(), lines))
	}
	s, err := d.Snapshot(time.Time{}, time.Time{})
	require.OK(b, err)
	b.ReportAllocs()
	b.ResetTimer()
	for name, do := range map[string]func() error{
		"check": func() error { _, err := s.Check(b.Context()); return err },
		"zip":   func() error { return s.WriteEvidence(b.Context(), io.Discard, audit.Evidence{}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				require.OK(b, do())
			}
		})
	}
}
