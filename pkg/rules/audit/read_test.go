package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestRead(t *testing.T) {
	f := newFolder(t)
	for n := 1; n <= 3; n++ {
		f.clock.set(day(n + 3))
		for i := range 5 {
			l := audit.Line{V: 1, Time: f.clock.Now(), Kind: audit.KindCall, Agent: fmt.Sprintf("agent-%d", i), Tool: fmt.Sprintf("s%d:t%d", n, i)}
			if i == 4 {
				l = audit.Line{V: 1, Time: f.clock.Now(), Kind: audit.KindEvent, Actor: "Zoë <z>", Action: "stop", Subject: "git"}
			}
			require.OK(t, f.Write(t.Context(), l))
		}
	}
	for _, test := range []struct {
		name string
		f    audit.Filter
		want int
	}{
		{"all", audit.Filter{}, 15},
		{"an agent", audit.Filter{Actor: "agent-2"}, 3},
		{"an actor whose name is not plain", audit.Filter{Actor: "Zoë <z>"}, 3},
		{"part of a name", audit.Filter{Actor: "agent"}, 0},
		{"a server", audit.Filter{Server: "s2"}, 4},
		{"a tool", audit.Filter{Tool: "s2:t1"}, 1},
		{"a kind", audit.Filter{Kind: audit.KindEvent}, 3},
		{"an action", audit.Filter{Action: "stop"}, 3},
		{"since", audit.Filter{Since: day(5)}, 10},
		{"until", audit.Filter{Until: day(5)}, 5},
		{"between", audit.Filter{Since: day(5), Until: day(6)}, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			var all []audit.Line
			for next := audit.Cursor(""); ; {
				lines, more, err := f.Read(t.Context(), test.f, next, 2)
				require.OK(t, err)
				all = append(all, lines...)
				if next = more; more == "" {
					break
				}
				if len(lines) != 2 {
					t.Fatalf("a page that is not the last has %d lines, want 2", len(lines))
				}
			}
			newestFirst := slices.IsSortedFunc(all, func(a, b audit.Line) int { return b.Time.Compare(a.Time) })
			if len(all) != test.want || !newestFirst {
				t.Errorf("%d lines, the newest first: %v", len(all), newestFirst)
			}
		})
	}
	t.Run("an invalid cursor", func(t *testing.T) {
		for _, c := range []audit.Cursor{"x", "2026-03-04", "2026-03-04.-1", "2026-03-04.x", "../../etc.0"} {
			if _, _, err := f.Read(t.Context(), audit.Filter{}, c, 2); err == nil {
				t.Errorf("Read accepts the cursor %q", c)
			}
		}
		if lines, _, err := f.Read(t.Context(), audit.Filter{}, "2026-03-04.99999999", 100); err != nil || len(lines) != 5 {
			t.Errorf("after the end: %d lines, %v", len(lines), err)
		}
	})
	t.Run("a canceled context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := f.Read(ctx, audit.Filter{}, "", 2); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("no folder", func(t *testing.T) {
		if lines, next, err := audit.Folder(filepath.Join(t.TempDir(), "none")).Read(t.Context(), audit.Filter{}, "", 2); lines != nil || next != "" || err != nil {
			t.Errorf("%v %q %v", lines, next, err)
		}
	})
}

func TestReadDamaged(t *testing.T) {
	f := newFolder(t)
	f.write("a:1")
	f.change(4, func(raw []byte) []byte {
		return slices.Concat([]byte("<script>\x00\xff\n\n[1]\n{}\n"), bytes.Repeat([]byte("long"), 100_000), []byte("\n"), raw)
	})
	lines, _, err := f.Read(t.Context(), audit.Filter{}, "", 100)
	require.OK(t, err)
	if len(lines) != 6 || lines[0].Tool != "a:1" {
		t.Fatalf("%d lines: %+v", len(lines), lines)
	}
	for _, l := range lines[1:] {
		if l.Kind != audit.KindDamaged || len(l.Note) > 1000 || !l.Time.Equal(day(4)) || strings.ContainsAny(l.Note, "\x00\n") {
			t.Errorf("%+v", l)
		}
	}
	if lines, _, err := f.Read(t.Context(), audit.Filter{Kind: audit.KindDamaged}, "", 100); err != nil || len(lines) != 5 {
		t.Errorf("by their kind: %d, %v", len(lines), err)
	}
	if lines, _, err := f.Read(t.Context(), audit.Filter{Actor: "ci"}, "", 100); err != nil || len(lines) != 1 {
		t.Errorf("lines of an agent: %d, %v", len(lines), err)
	}
}

// For every content of a file, Read comes to an end and returns no long text. The pages have each
// line once, for any size of a page.
func FuzzRead(f *testing.F) {
	f.Add([]byte("{\"v\":1,\"time\":\"2026-03-04T00:00:00Z\",\"kind\":\"call\"}\n"), 1)
	f.Add([]byte("\n\n\x00\n{\"time\":\"\""), 3)
	f.Fuzz(func(t *testing.T, raw []byte, limit int) {
		path := t.TempDir()
		require.OK(t, os.WriteFile(filepath.Join(path, "2026-03-04.jsonl"), raw, 0o600))
		want := bytes.Count(raw, []byte("\n"))
		if len(raw) > 0 && raw[len(raw)-1] != '\n' {
			want++
		}
		got := 0
		for next := audit.Cursor(""); ; {
			lines, more, err := audit.Folder(path).Read(t.Context(), audit.Filter{}, next, 1+limit&7)
			require.OK(t, err)
			for _, l := range lines {
				if l.Kind == "" || l.Kind == audit.KindDamaged && len(l.Note) > 1000 {
					t.Errorf("%+v", l)
				}
			}
			got += len(lines)
			if next = more; more == "" {
				break
			}
		}
		if got != want {
			t.Errorf("read %d lines, want %d", got, want)
		}
	})
}

// The first table of the docs has the members of the struct, each once and in order.
func TestDocsHaveTheSchema(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/audit.md")
	require.OK(t, err)
	schema, _, _ := strings.Cut(string(docs), "\n## On one machine")
	var documented, members []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z_`, ]+`) \\|").FindAllStringSubmatch(schema, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			documented = append(documented, strings.Trim(name, "`"))
		}
	}
	for i := range reflect.TypeFor[audit.Line]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[audit.Line]().Field(i).Tag.Get("json"), ",")
		if name != "-" {
			members = append(members, name)
		}
	}
	slices.Sort(documented)
	slices.Sort(members)
	if !slices.Equal(documented, members) {
		t.Errorf("documented %v\nthe line has %v", documented, members)
	}
}
