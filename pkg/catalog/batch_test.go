package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// batching is a store that takes many writes in one call.
type batching struct {
	*approvaltest.Mem
	mu     sync.Mutex
	sizes  []int  // of the calls
	before func() // called before the first call
	err    error  // of each call
}

func (b *batching) PutAll(ctx context.Context, all []approval.Write) ([]approval.Written, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
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

// A sync writes in batches if the store supports batches. Its result is the same as without
// batches.
func TestBatches(t *testing.T) {
	names := make([]string, 300)
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
		"all are written":                 {sizes: []int{128, 128, 44}},
		"another writer is first":         {other: true, sizes: []int{128, 128, 44}},
		"the wrapped store is no batcher": {err: errors.ErrUnsupported, sizes: []int{128, 128, 44}},
		"nothing can be written":          {err: gone, sizes: []int{128}, want: gone},
		"a store without batches":         {single: true},
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
			wantEqual(t, "records a call", c.sizes, store.sizes)
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

// If one record of a batch cannot be written, the report still counts the others, so that people
// get notified.
func TestOneOfABatchFails(t *testing.T) {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"git": `,"approval":"manual"`})
	w.Serve("git", "add", "log", "push")
	gone := errors.New("the disk is gone")
	w.Approvals.OnPut = func(_ context.Context, r approval.Record) (bool, error) {
		if r.Tool == "add" {
			return false, gone
		}
		return false, nil
	}
	rep, err := catalog.NewSyncer(w.Objects, &batching{Mem: w.Approvals}, w.Upstream, &catalog.SyncOptions{Now: w.Clock.Now}).Sync(t.Context())
	if !errors.Is(err, gone) || rep.New != 2 || len(rep.Servers[0].News) != 2 {
		t.Errorf("Sync = %v; two tools are stored, but %d counted as new, with the news %v", err, rep.New, rep.Servers[0].News)
	}
}

// The sync writes the new records of several servers in one call, and then their baselines. A
// server whose records cannot be read is left out.
func TestServersAreWrittenTogether(t *testing.T) {
	const servers = 40
	gone := errors.New("cannot be read")
	for name, broken := range map[string]bool{"all": false, "one cannot be read": true} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			urls := map[string]string{}
			for i := range servers {
				name := fmt.Sprintf("s%02d", i)
				urls[name] = ""
				w.Serve(name, "x")
			}
			w.ConfigureOnly(urls)
			if broken {
				w.Approvals.OnRecords = func(_ context.Context, server string) error {
					if server == "s03" {
						return gone
					}
					return nil
				}
			}
			var baselines atomic.Int64
			w.Approvals.Documents.OnPut = func(context.Context, []document.Doc) (bool, error) { baselines.Add(1); return false, nil }
			store := &batching{Mem: w.Approvals}
			rep, err := catalog.NewSyncer(w.Objects, store, w.Upstream, &catalog.SyncOptions{Now: w.Clock.Now}).Sync(t.Context())
			if broken != errors.Is(err, gone) {
				t.Fatalf("Sync = %v", err)
			}
			if len(store.sizes) > 4 || !broken && slices.Max(store.sizes) < 10 { // a failure ends the other units early
				t.Errorf("records written in each call = %v", store.sizes)
			}
			if _, err := w.Approvals.Get(t.Context(), tool.ID{Server: "s03", Name: "x"}); broken != errors.Is(err, approval.ErrNotFound) {
				t.Errorf("the record of s03: %v", err)
			}
			if !broken && (rep.New != servers || baselines.Load() != servers) {
				t.Errorf("%d tools are new, and %d baselines were written; want %d of each", rep.New, baselines.Load(), servers)
			}
		})
	}
}
