package decide_test

import (
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The store remembers a stop after it was undone, alone or with all others, so earlier grants do
// not become valid again. A repeated stop and an undo without a stop change nothing.
func TestUndoneStopsAreKnown(t *testing.T) {
	for name, undo := range map[string]func(*fixture) error{
		"one by one": func(f *fixture) error {
			for _, target := range []stop.Target{{Server: "git"}, {Agent: "token:ci"}, {All: true}} {
				if _, err := f.service.UndoStop(f.ctx, target); err != nil {
					return err
				}
			}
			return nil
		},
		"all at once": func(f *fixture) error { _, err := f.service.UndoStops(f.ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			f := newQueue(t)
			for _, target := range []stop.Target{{Server: "git"}, {Agent: "token:ci"}, {All: true}, {Server: "git"}} {
				_, err := f.service.Stop(f.ctx, target, "key leaked")
				require.OK(t, err)
			}
			held, err := stop.Read(f.ctx, f.Approvals)
			require.OK(t, err)
			require.OK(t, undo(f))
			after, err := stop.Read(f.ctx, f.Approvals)
			require.OK(t, err)
			if len(after.List) != 0 || len(after.Ended) != 3 {
				t.Errorf("%+v are active, %+v are stored as ended", after.List, after.Ended)
			}
			for _, s := range held.List {
				if !slices.ContainsFunc(after.Ended, func(e stop.Ended) bool { return e.Target == s.Target && e.At.Equal(s.At) }) {
					t.Errorf("stop of %s at %v not in Ended: %+v", s.Target, s.At, after.Ended)
				}
			}
			if _, err := f.service.UndoStops(f.ctx); err != nil {
				t.Error(err)
			}
			if again, err := stop.Read(f.ctx, f.Approvals); err != nil || len(again.Ended) != 3 {
				t.Errorf("after another undo: %+v, %v", again, err)
			}
		})
	}
}
