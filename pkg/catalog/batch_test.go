package catalog_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// batching is a store that takes many writes at once.
type batching struct {
	*approvaltest.Mem
	sizes  []int  // of the calls
	before func() // called before the first of them
	err    error  // of each
}

func (b *batching) PutAll(ctx context.Context, all []approval.Write) ([]approval.Written, error) {
	b.sizes = append(b.sizes, len(all))
	if b.before != nil {
		b.before()
		b.before = nil
	}
	if b.err != nil {
		return nil, b.err
	}
	var out []approval.Written
	for _, w := range all {
		r, err := b.Put(ctx, w.Record, w.Entry)
		out = append(out, approval.Written{Record: r, Err: err})
	}
	return out, nil
}

// A store that takes many writes at once gets them so, and ends as any other does.
func TestBatches(t *testing.T) {
	names := make([]string, 70)
	for i := range names {
		names[i] = string(rune('A'+i%26)) + string(rune('a'+i/26))
	}
	slices.Sort(names)
	gone := errors.New("the disk is gone")
	id := tool.ID{Server: "git", Name: names[3]}
	for name, c := range map[string]struct {
		err    error
		other  bool // another writer disables one of the tools first
		single bool
		sizes  []int
		want   error
	}{
		"all are written":                 {sizes: []int{32, 32, 6}},
		"another writer is first":         {other: true, sizes: []int{32, 32, 6}},
		"what is behind it is no batcher": {err: errors.ErrUnsupported, sizes: []int{32, 32, 6}},
		"nothing can be written":          {err: gone, sizes: []int{32}, want: gone},
		"one that takes one write a call": {single: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.Serve("git", names...)
			w.Configure(nil)
			store := &batching{Mem: w.Approvals, err: c.err}
			if c.other {
				store.before = func() {
					e := &approval.Entry{Server: id.Server, Tool: id.Name, Actor: "kim", Action: approval.ActionDisable}
					if _, err := w.Approvals.Put(t.Context(), approval.Record{Server: id.Server, Tool: id.Name, Disabled: true, State: approval.Pending}, e); err != nil {
						t.Fatal(err)
					}
				}
			}
			var approvals catalog.Approvals = store
			if c.single {
				approvals = w.Approvals
			}
			rep, err := catalog.NewSyncer(w.Objects, approvals, w.Upstream, &catalog.SyncOptions{Now: w.Clock.Now}).Sync(t.Context())
			if d := cmp.Diff(c.sizes, store.sizes); d != "" {
				t.Errorf("records a call (-want +got):\n%s", d)
			}
			if !errors.Is(err, c.want) {
				t.Fatalf("Sync = %v, want %v", err, c.want)
			}
			if c.want != nil {
				return
			}
			fresh := len(names)
			if c.other {
				fresh--
			}
			if rep.New != fresh {
				t.Errorf("%d tools are new, want %d", rep.New, fresh)
			}
			for _, name := range names {
				r, err := w.Approvals.Get(t.Context(), tool.ID{Server: "git", Name: name})
				if err != nil || r.CurrentHash == "" || r.Disabled != (c.other && name == id.Name) {
					t.Errorf("%s has the record %+v, %v", name, r, err)
				}
			}
		})
	}
}
