package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A world is a Syncer over working stores, and servers that say what a test
// tells them to.
type world struct {
	t         testing.TB
	objects   *objecttest.Mem
	approvals *approvaltest.Mem
	servers   *servers
	clock     *clock
	syncer    *catalog.Syncer
	puts      map[string]int // objects written, by key; snapshots as "snapshot"
}

// A clock shows the time that a test sets, and goes on by a second a look.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) look() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Second)
	return c.now
}

func (c *clock) skip(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{
		t:       t,
		clock:   &clock{now: day(1)},
		servers: &servers{lists: map[string][]string{}, faults: map[string]outcome.Outcome{}},
		puts:    map[string]int{},
	}
	w.approvals = &approvaltest.Mem{Now: w.clock.look}
	w.objects = &objecttest.Mem{OnPut: func(_ context.Context, key string, _ []byte) (bool, error) {
		if strings.HasSuffix(key, ".snap") {
			key = "snapshot"
		}
		w.puts[key]++
		return false, nil
	}}
	w.restart()
	return w
}

// restart gives the world a Syncer that remembers nothing.
func (w *world) restart() {
	w.syncer = catalog.NewSyncer(w.objects, w.approvals, w.servers, &catalog.SyncOptions{Now: w.clock.look})
}

// configure stores a config with these servers: name → its other keys.
func (w *world) configure(servers map[string]string) {
	w.t.Helper()
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		parts = append(parts, fmt.Sprintf(`%q: {"url": "https://%s.example.com/mcp"%s}`, name, name, servers[name]))
	}
	w.put(config.Key, `{"mcpServers": {`+strings.Join(parts, ",")+`}}`)
}

func (w *world) put(key, data string) {
	w.t.Helper()
	if _, err := w.objects.Put(w.t.Context(), key, []byte(data), ""); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(key string) {
	w.t.Helper()
	if err := w.objects.Delete(w.t.Context(), key); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) sync() catalog.Report {
	w.t.Helper()
	rep, err := w.syncer.Sync(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return rep
}

func (w *world) load() *catalog.Snapshot {
	w.t.Helper()
	s, err := catalog.Load(w.t.Context(), w.objects, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// state is "id: state" of each tool in the catalog, and "none" without a record.
func (w *world) state() []string {
	w.t.Helper()
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

func (w *world) record(id string) approval.Record {
	w.t.Helper()
	r, err := w.approvals.Get(w.t.Context(), parseID(w.t, id))
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// approve approves the tool as it is, as a person would.
func (w *world) approve(id string) {
	w.t.Helper()
	r := w.record(id)
	next, e, err := approval.Approve(r, r.CurrentHash, "ann", "", w.clock.look())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.approvals.Put(w.t.Context(), next, &e); err != nil {
		w.t.Fatal(err)
	}
}

func parseID(t testing.TB, s string) tool.ID {
	t.Helper()
	id, err := tool.ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// servers answer from lists, unless faults has something for them.
type servers struct {
	lists  map[string][]string               // definitions; a bare word is a name
	faults map[string]outcome.Outcome        // without ServerID
	during func(ctx context.Context)         // runs while they load; nil: nothing
	takes  func(server string) time.Duration // how long one takes, one after the other; nil: no time
	now    func() time.Time                  // nil: outcomes have no time
	asked  []string                          // by the load that ran last
	once   int                               // of those, with one attempt
}

func (s *servers) LoadAll(ctx context.Context, targets []upstream.Target, each func(outcome.Outcome)) []outcome.Outcome {
	s.asked, s.once = nil, 0
	var out []outcome.Outcome
	for _, target := range targets {
		if s.takes != nil {
			select {
			case <-time.After(s.takes(target.ID)):
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			out = append(out, outcome.Outcome{ServerID: target.ID})
			continue
		}
		s.asked = append(s.asked, target.ID)
		if target.Once {
			s.once++
		}
		o, broken := s.faults[target.ID]
		if !broken {
			o = outcome.Outcome{Status: outcome.Available, HTTPStatus: 200}
			for _, raw := range s.lists[target.ID] {
				if !strings.HasPrefix(raw, "{") {
					raw = fmt.Sprintf(`{"name":%q}`, raw)
				}
				d, err := tool.ParseDefinition([]byte(raw))
				if err != nil {
					o.Refused = append(o.Refused, outcome.Refusal{Name: raw, Reason: err.Error()})
					continue
				}
				o.Tools = append(o.Tools, d)
			}
		}
		o.ServerID, o.Attempts = target.ID, 1
		if s.now != nil {
			o.CheckedAt = s.now()
		}
		each(o)
		out = append(out, o)
	}
	if s.during != nil {
		s.during(ctx)
	}
	return out
}

// transient is what a server that is starting answers.
func transient() outcome.Outcome {
	return outcome.Outcome{Status: outcome.Transient, Reason: "timeout", Error: "no answer in 5s"}
}

// exists reports whether an object is stored.
func (w *world) exists(key string) bool {
	w.t.Helper()
	_, err := w.objects.Get(w.t.Context(), key, "")
	if err != nil && !errors.Is(err, object.ErrNotFound) {
		w.t.Fatal(err)
	}
	return err == nil
}
