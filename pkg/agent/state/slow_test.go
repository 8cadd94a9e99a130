package state_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

// publishShards stores a catalog of n shards, all of which differ from the shards of a catalog with
// another text.
func (h *fixture) publishShards(n int, text string) {
	h.T.Helper()
	in := catalog.Input{ShardTools: 1}
	for i := range n {
		in.Servers = append(in.Servers, catalog.ServerInput{
			Name: fmt.Sprintf("s%02d", i), Enabled: true, Tools: []catalog.ToolInput{{Definition: definition("read", text)}},
		})
	}
	snap, err := catalog.Build(in)
	if err != nil {
		h.T.Fatal(err)
	}
	if _, err := catalog.Save(h.T.Context(), h.Objects, snap, catalog.Current{StartedAt: h.Clock.Now(), SyncedAt: h.Clock.Now()}, ""); err != nil {
		h.T.Fatal(err)
	}
}

// slowly makes each read of a shard take the given time, or less if its context ends before. The
// result counts the started reads.
func (h *fixture) slowly(takes time.Duration) *atomic.Int64 {
	var n atomic.Int64
	h.Objects.OnGet = func(ctx context.Context, key string) error {
		if !strings.HasSuffix(key, ".snap") {
			return nil
		}
		n.Add(1)
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return &n
}

func text(s *state.State) string { return s.Catalog.Tool(0).Definition.Description }

// took returns the state of one request, and the time that the request waited.
func took(t *testing.T, l *state.Loader) (*state.State, time.Duration) {
	began := time.Now()
	return l.Load(t.Context()), time.Since(began)
}

// While one request slowly reads a new catalog, other requests use the old catalog and do not
// wait for that read. The reading request itself waits at most 2 s.
func TestLoaderSlowCatalog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t)
		h.configure("s00")
		h.publishShards(3, "old")
		l := state.New(h.Objects, h.Approvals, &state.Options{Now: h.Clock.Now})
		l.Load(t.Context())
		h.publishShards(3, "new")
		h.slowly(time.Hour)
		h.Clock.Wait(30 * time.Second)

		reader := make(chan time.Duration)
		go func() {
			s, waited := took(t, l)
			if text(s) != "old" || !s.Health.Catalog.Stale {
				t.Errorf("after an unfinished read: %q, stale %v", text(s), s.Health.Catalog.Stale)
			}
			reader <- waited
		}()
		synctest.Wait()
		for range 3 {
			if s, waited := took(t, l); text(s) != "old" || waited > 0 {
				t.Errorf("another request has %q after %v", text(s), waited)
			}
		}
		began := time.Now()
		if l.Refresh(t.Context()); time.Since(began) < 2*time.Second {
			t.Errorf("Refresh returned after %v, want at least 2 s", time.Since(began))
		}
		if waited := <-reader; waited != 2*time.Second {
			t.Errorf("the reading request waited %v, want 2 s", waited)
		}

		// The attempt loaded no shard. So one next attempt has five times as long, 10 s.
		h.slowly(7 * time.Second)
		h.Clock.Wait(5 * time.Second)
		if s, waited := took(t, l); text(s) != "new" || waited != 7*time.Second || s.Health.Catalog.Stale {
			t.Errorf("the next attempt has %q after %v", text(s), waited)
		}
		h.publishShards(3, "newer")
		h.Clock.Wait(30 * time.Second)
		if s, waited := took(t, l); text(s) != "new" || waited != 2*time.Second {
			t.Errorf("after a third catalog, a request has %q after %v", text(s), waited)
		}
	})
}

// A request reuses the shards that earlier requests have read.
func TestLoaderSlowCatalogGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t)
		h.configure("s00")
		h.publishShards(20, "old")
		l := state.New(h.Objects, h.Approvals, &state.Options{Now: h.Clock.Now})
		l.Load(t.Context())
		h.publishShards(20, "new")
		reads := h.slowly(1500 * time.Millisecond)
		for attempt := range 3 {
			h.Clock.Wait(30 * time.Second)
			s, waited := took(t, l)
			if want := []string{"old", "old", "new"}[attempt]; text(s) != want || waited > 2*time.Second {
				t.Errorf("attempt %d has %q after %v, want %q", attempt, text(s), waited, want)
			}
		}
		if n := reads.Load(); n > 20+2*8 { // 8 concurrent reads were interrupted twice
			t.Errorf("%d reads of 20 shards", n)
		}
	})
}

// Before the first catalog, a request can only wait.
func TestLoaderSlowFirstCatalog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t)
		h.configure("s00")
		h.publishShards(3, "first")
		l := state.New(h.Objects, h.Approvals, &state.Options{Now: h.Clock.Now})
		h.slowly(9 * time.Second)
		go l.Load(t.Context())
		synctest.Wait()
		if s, waited := took(t, l); s.Catalog == nil || text(s) != "first" || waited != 9*time.Second {
			t.Errorf("a second request has %+v after %v", s.Catalog, waited)
		}
	})
}
