package audit_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// events writes one event for each action, and the line of a call before each event.
func (f *folder) events(actions ...string) {
	f.t.Helper()
	for _, action := range actions {
		for _, l := range []audit.Line{
			{V: audit.Version, Time: f.clock.Now(), Kind: audit.KindCall, Agent: `"deed"`, Tool: "s:t"},
			{V: audit.Version, Time: f.clock.Now(), Kind: audit.KindEvent, Actor: "ann", Action: action, Tool: "s:t"},
		} {
			require.OK(f.t, f.Write(f.t.Context(), l))
		}
	}
}

// trail returns the events as "action stretch", with "?" after an unsure event, and the faults.
func (f *folder) trail() (events, faults []string) {
	f.t.Helper()
	got, err := audit.Folder(f.path).Trail(f.t.Context(), func(l audit.Line) bool { return l.Action != "sync" })
	require.OK(f.t, err)
	for _, d := range got.Events {
		s := fmt.Sprint(d.Action, " ", d.Stretch)
		if !d.Sure {
			s += "?"
		}
		events = append(events, s)
	}
	return events, got.Faults
}

// edit changes the file of the day as lines; the last one ends with a line end.
func (f *folder) edit(change func(all []string) []string) {
	f.t.Helper()
	data, err := os.ReadFile(f.file(4))
	require.OK(f.t, err)
	all := strings.SplitAfter(string(bytes.TrimRight(data, "\x00")), "\n")
	require.OK(f.t, os.WriteFile(f.file(4), []byte(strings.Join(change(all[:len(all)-1]), "")), 0o600))
}

// A damaged, missing or inserted line starts a new stretch: a run of lines whose hash chain is
// whole. The line just before it is unsure. All other lines stay sure.
func TestTrail(t *testing.T) {
	const made = `{"v":1,"time":"2026-03-04T23:59:00Z","kind":"deed","actor":"eve","action":"made","tool":"s:t"}` + "\n"
	for name, test := range map[string]struct {
		change         func(all []string) []string
		events, faults []string
	}{
		"nothing":            {func(all []string) []string { return all }, []string{"one 0", "two 0", "three 0"}, nil},
		"the end is cut off": {func(all []string) []string { return all[:4] }, []string{"one 0", "two 0"}, nil},
		"a line is cut off": {func(all []string) []string { return append(all[:3], all[3][:50]) }, []string{"one 0"},
			[]string{"2026-03-04.jsonl, line 4: it cannot be read"}},
		"a line is changed": {func(all []string) []string {
			all[3] = strings.Replace(all[3], "two", "six", 1)
			return all
		}, []string{"one 0", "six 0?", "three 1"}, []string{"2026-03-04.jsonl, line 5: it does not follow the line before it"}},
		"a line is removed": {func(all []string) []string { return append(all[:3:3], all[4:]...) }, []string{"one 0", "three 1"},
			[]string{"2026-03-04.jsonl, line 4: it does not follow the line before it"}},
		"a line is inserted": {func(all []string) []string { return append(all[:4:4], append([]string{made}, all[4:]...)...) },
			[]string{"one 0", "two 0?", "made 1?", "three 2"},
			[]string{"2026-03-04.jsonl, line 5: it cannot be read", "2026-03-04.jsonl, line 6: it does not follow the line before it"}},
		"an inserted line continues the chain": {func(all []string) []string {
			forged := strings.Replace(all[4], `"kind":"call"`, `"kind":"deed","action":"forged"`, 1)
			return append(all[:4:4], append([]string{forged}, all[4:]...)...)
		}, []string{"one 0", "two 0", "forged 0?", "three 1"}, []string{"2026-03-04.jsonl, line 6: it does not follow the line before it"}},
		"a line is too long": {func(all []string) []string {
			all[3] = strings.Replace(all[3], `"actor":"`, `"actor":"`+strings.Repeat("x", 70_000), 1)
			return all
		}, []string{"one 0", "three 2"},
			[]string{"2026-03-04.jsonl, line 4: it cannot be read", "2026-03-04.jsonl, line 5: it does not follow the line before it"}},
		"a newer program wrote a line": {func(all []string) []string {
			all[5] = strings.Replace(all[5], `"v":1`, `"v":2`, 1)
			return all
		}, []string{"one 0", "two 0"}, []string{"2026-03-04.jsonl, line 6: it cannot be read"}},
		"bytes": {func([]string) []string { return []string{"\x00\n", "\n", "{}\n", `,"prev":"` + "\n", "x"} }, nil, []string{
			"2026-03-04.jsonl, line 1: it cannot be read", "2026-03-04.jsonl, line 2: it cannot be read", "2026-03-04.jsonl, line 3: it cannot be read",
			"2026-03-04.jsonl, line 4: it cannot be read", "2026-03-04.jsonl, line 5: it cannot be read",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			f.events("one", "two", "three")
			require.OK(t, f.Close())
			f.edit(test.change)
			events, faults := f.trail()
			if diff := cmp.Diff(test.events, events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.faults, faults); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// Files of several days are one trail. A file of another folder is not part of it; a missing day
// breaks it.
func TestTrailOfDays(t *testing.T) {
	f, other := newFolder(t), newFolder(t)
	f.events("one")
	for n, action := range []string{"two", "three"} {
		for _, x := range []*folder{f, other} {
			x.clock.set(day(5 + n))
			x.events(action, "sync")
		}
	}
	if events, faults := f.trail(); len(faults) > 0 || !cmp.Equal(events, []string{"one 0", "two 0", "three 0"}) {
		t.Errorf("%v, %v", events, faults)
	}
	foreign, err := os.ReadFile(filepath.Join(other.path, "2026-03-06.jsonl"))
	require.OK(t, err)
	name := filepath.Join(f.path, "2026-03-06.jsonl")
	require.OK(t, os.WriteFile(name, bytes.TrimRight(foreign, "\x00"), 0o600))
	broken := []string{"2026-03-06.jsonl, line 1: it does not follow the line before it"}
	if events, faults := f.trail(); !cmp.Equal(faults, broken) || !cmp.Equal(events, []string{"one 0", "two 0", "three 1"}) {
		t.Errorf("with a file of another folder: %v, %v", events, faults)
	}
	require.OK(t, os.Remove(filepath.Join(f.path, "2026-03-05.jsonl")))
	if events, faults := f.trail(); !cmp.Equal(faults, broken) || !cmp.Equal(events, []string{"one 0?", "three 1"}) {
		t.Errorf("without a day: %v, %v", events, faults)
	}
	if got, err := audit.Folder(filepath.Join(f.path, "none")).Trail(t.Context(), nil); err != nil || got.Count > 0 {
		t.Errorf("for a missing folder: %+v, %v", got, err)
	}
}
