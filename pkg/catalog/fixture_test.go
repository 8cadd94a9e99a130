package catalog_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// A fixture is a Syncer over working stores, with a clock that advances by a second at each call.
type fixture struct {
	*gatewaytest.Gateway
	puts   map[string]int // objects written, by key; snapshots as "snapshot"
	shared bool           // many processes share each sync
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	w := &fixture{Gateway: gatewaytest.New(t), puts: map[string]int{}}
	w.Clock.Set(day(1), time.Second)
	var mu sync.Mutex
	w.Objects.OnPut = func(_ context.Context, key string, _ []byte) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasSuffix(key, ".snap") {
			key = "snapshot"
		}
		w.puts[key]++
		return false, nil
	}
	return w
}

// wantEqual fails the test if got differs from want.
func wantEqual(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// serving returns a fixture whose only server is fs, with these tools.
func serving(t testing.TB, tools ...string) *fixture {
	t.Helper()
	return servers(t, map[string][]string{"fs": tools})
}

// servers returns a fixture with these servers and their tools.
func servers(t testing.TB, lists map[string][]string) *fixture {
	t.Helper()
	w := newFixture(t)
	for name, tools := range lists {
		w.Serve(name, tools...)
	}
	w.Configure(nil)
	return w
}

// bothWays runs the test with syncs in one process, and with distributed syncs. Use it to test how
// [catalog.Syncer.Assemble] builds a catalog from stored load results.
func bothWays(t *testing.T, test func(w *fixture)) {
	for name, shared := range map[string]bool{"one process": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.shared = shared
			test(w)
		})
	}
}

// with returns the fixture for a subtest, with other objects.
func (w *fixture) with(t testing.TB, objects *objecttest.Mem) *fixture {
	gw := *w.Gateway
	gw.T, gw.Objects = t, objects
	gw.Restart()
	return &fixture{Gateway: &gw, puts: map[string]int{}}
}

// serve makes these servers list these tools. All other servers list none.
func (w *fixture) serve(lists map[string][]string) {
	for _, s := range w.ByName {
		s.Tools = nil
	}
	for name, tools := range lists {
		w.Serve(name, tools...)
	}
}

// listing returns servers that list these tools.
func listing(lists map[string][]string) *gatewaytest.Servers {
	s := &gatewaytest.Servers{}
	for name, tools := range lists {
		s.Serve(name, tools...)
	}
	return s
}

// loads returns the servers that the last sync loaded.
func (w *fixture) loads() (ids []string) {
	for _, target := range w.Loaded {
		ids = append(ids, target.ID)
	}
	return ids
}

// remove deletes an object.
func (w *fixture) remove(key string) {
	w.T.Helper()
	require.OK(w.T, w.Objects.Delete(w.T.Context(), key))
}

// trySync runs a sync.
func (w *fixture) trySync() (catalog.Report, error) {
	if w.shared {
		return w.share(true)
	}
	return w.Syncer.Sync(w.T.Context())
}

// sync runs a sync that must succeed.
func (w *fixture) sync() catalog.Report {
	w.T.Helper()
	rep, err := w.trySync()
	require.OK(w.T, err)
	return rep
}

func (w *fixture) load() *catalog.Snapshot {
	w.T.Helper()
	s, err := catalog.Load(w.T.Context(), w.Objects, nil)
	require.OK(w.T, err)
	return s
}

// state returns "id: state" for each tool in the catalog, with "none" without a record.
func (w *fixture) state() []string {
	w.T.Helper()
	s := w.load()
	var out []string
	for i := range s.Len() {
		x := s.Tool(i)
		state := "none"
		if x.Approval != nil {
			state = string(x.Approval.State)
		}
		out = append(out, x.ID.String()+": "+state)
	}
	return out
}

// transient is the outcome of a server that is starting.
func transient() outcome.Outcome {
	return outcome.Outcome{Status: outcome.Transient, Reason: "timeout", Error: "no answer in 5s"}
}

// exists reports whether an object is stored.
func (w *fixture) exists(key string) bool {
	w.T.Helper()
	_, err := w.Objects.Get(w.T.Context(), key, "")
	if err != nil && !errors.Is(err, object.ErrNotFound) {
		w.T.Fatal(err)
	}
	return err == nil
}
