package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/catalog/queuetest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// worker returns a Syncer as in a new process: it has nothing in memory.
func (w *fixture) worker() *catalog.Syncer {
	return catalog.NewSyncer(w.Objects, w.Approvals, w.Servers, &catalog.SyncOptions{Now: w.Clock.Now})
}

// work loads the servers of a message in a new process.
func (w *fixture) work(round catalog.Round, names []string) (catalog.LoadReport, error) {
	q := catalog.Queues{Assemble: new(queuetest.Queue)}
	return w.worker().Work(w.T.Context(), q, catalog.Job{Round: round, Servers: names})
}

func (w *fixture) mustWork(round catalog.Round, names []string) {
	w.T.Helper()
	if _, err := w.work(round, names); err != nil {
		w.T.Error(err)
	}
}

// mustAssemble assembles the catalog in a new process.
func (w *fixture) mustAssemble() {
	w.T.Helper()
	if _, err := w.worker().Assemble(w.T.Context()); err != nil {
		w.T.Error(err)
	}
}

// due returns the servers of a round. The round fails after the first message, so no server is
// noted as sent.
func (w *fixture) due(all bool) (catalog.Round, []string, error) {
	lost := errors.New("the servers are not noted as sent")
	q := &queuetest.Queue{OnSend: func(context.Context) (bool, error) { return true, lost }}
	round, names, err := w.plan(q, all)
	if errors.Is(err, lost) {
		err = nil
	}
	return round, names, err
}

// plan plans a round, and returns the servers that the round sent to workers.
func (w *fixture) plan(q *queuetest.Queue, all bool) (round catalog.Round, names []string, err error) {
	plan, err := w.Syncer.Plan(w.T.Context(), catalog.Queues{Work: q, Assemble: new(queuetest.Queue)}, all)
	for body, done, ok := q.Receive(); ok; body, done, ok = q.Receive() {
		done()
		job, bad := catalog.ParseJob([]byte(body))
		require.OK(w.T, bad)
		names = append(names, job.Servers...)
	}
	return plan.Round, names, err
}

// share runs a distributed sync: a new process loads each server, the last one first, and each
// message comes twice. The report is the assembly's report with the counts of the loads.
func (w *fixture) share(all bool) (catalog.Report, error) {
	round, names, err := w.plan(new(queuetest.Queue), all)
	if err != nil {
		return catalog.Report{}, err
	}
	var loaded []catalog.LoadReport
	for _, name := range slices.Backward(names) {
		for range 2 {
			rep, err := w.work(round, []string{name})
			if err != nil {
				return catalog.Report{}, err
			}
			loaded = append(loaded, rep)
		}
	}
	rep, err := w.Syncer.Assemble(w.T.Context())
	for _, l := range loaded {
		rep.Recovered += l.Recovered
		for _, s := range l.Servers {
			rep.New += s.New
			rep.Changed += s.Changed
			rep.NewItems += s.NewItems
			rep.ChangedItems += s.ChangedItems
			if at := slices.IndexFunc(rep.Servers, func(r catalog.ServerReport) bool { return r.Name == s.Name }); at >= 0 {
				r := &rep.Servers[at]
				r.New, r.Changed, r.NewItems, r.ChangedItems = r.New+s.New, r.Changed+s.Changed, r.NewItems+s.NewItems, r.ChangedItems+s.ChangedItems
				r.News = append(r.News, s.News...)
			}
		}
	}
	return rep, err
}

// shared returns a fixture after a distributed sync of all servers.
func shared(t *testing.T) *fixture {
	w := newFixture(t)
	w.place(map[string]string{"a": here, "b": "https://b.example/mcp", "c": "https://c.example/mcp"})
	w.serve(map[string][]string{"a": {"x", "y"}, "b": {"z"}, "c": {"u"}})
	w.mustShare(true)
	return w
}

func (w *fixture) mustShare(all bool) catalog.Report {
	w.T.Helper()
	rep, err := w.share(all)
	require.OK(w.T, err)
	return rep
}

// A single sync and a distributed sync make the same catalog, in either order.
func TestSharedAndSingle(t *testing.T) {
	w := shared(t)
	w.Decide("a:x", "disable")
	w.Decide("b:z", "block")
	w.Server("a").Tools = []string{"x", `{"name":"y","title":"changed"}`}
	for _, step := range []struct {
		name string
		do   func() catalog.Report
	}{
		{"shared", func() catalog.Report { return w.mustShare(true) }},
		{"single", w.sync},
		{"shared again", func() catalog.Report { return w.mustShare(true) }},
	} {
		for _, tools := range [][]string{{"u"}, {"u", "v"}} {
			w.Server("c").Tools = tools
			rep := step.do()
			other := w.with(t, w.Objects.Copy())
			other.remove(catalog.CurrentKey)
			if all := other.sync(); all.Snapshot != rep.Snapshot || rep.Tools != 3+len(tools) {
				t.Errorf("%s: catalog %s of %d tools; a sync without an earlier catalog makes %s of %d", step.name, rep.Snapshot, rep.Tools, all.Snapshot, all.Tools)
			}
			if got := w.load().Current(); !got.StartedAt.Equal(rep.StartedAt) || len(got.Outcomes) != 3 || len(got.Baselines) != 3 {
				t.Errorf("%s: current.json of %v has %d outcomes, %d baselines", step.name, got.StartedAt, len(got.Outcomes), len(got.Baselines))
			}
		}
	}
}

// If a message comes twice or late, the worker loads and stores nothing.
func TestSharedMessageTwice(t *testing.T) {
	w := shared(t)
	run, names, err := w.due(true)
	if err != nil || len(names) != 3 {
		t.Fatalf("due = %v, %v", names, err)
	}
	for i, want := range []struct{ loads, put, skipped int }{{3, 3, 0}, {0, 0, 3}, {0, 0, 3}} {
		rep, err := w.work(run, names)
		if err != nil || len(rep.Servers) != want.loads || rep.Put != want.put || len(rep.Skipped) != want.skipped {
			t.Errorf("message %d: %d loaded, %d stored, %d skipped, %v; want %+v", i, len(rep.Servers), rep.Put, len(rep.Skipped), err, want)
		}
		if i == 1 {
			w.mustShare(true) // the third message belongs to an earlier round
		}
	}
	if rep, err := w.work(run, []string{"gone"}); err != nil || len(rep.Skipped) != 1 {
		t.Errorf("a server that is not configured: %+v, %v", rep, err)
	}
}

// Before there is a catalog, a worker reads only the data of its own servers.
func TestSharedFirstRound(t *testing.T) {
	w := newFixture(t)
	w.place(map[string]string{"a": here, "b": "https://b.example/mcp", "c": "https://c.example/mcp"})
	var old []string // servers whose baselines of an earlier version are read
	w.Approvals.OnDocs = func(_ context.Context, keys []document.Key) error {
		for _, key := range keys {
			if key.ID == "BASELINE" {
				old = append(old, key.Part)
			}
		}
		return nil
	}
	w.mustWork(catalog.Round{Began: w.Clock.Now()}, []string{"b"})
	wantEqual(t, "baselines of an earlier version were read of", []string{"SRV#b"}, old)
}

// Without new results and decisions, a sync writes nothing. A decision makes a new catalog, even
// without new results.
func TestSharedWithoutNews(t *testing.T) {
	w := shared(t)
	w.Restart()
	w.puts = map[string]int{}
	w.Objects.OnPut = func(_ context.Context, key string, _ []byte) (bool, error) { w.puts[key]++; return false, nil }
	rep, err := w.Syncer.Assemble(t.Context())
	if err != nil || rep.Built || rep.Stored || rep.Tools != 4 || w.puts[catalog.CurrentKey] != 0 {
		t.Errorf("report %+v, %v; written: %v", rep, err, w.puts)
	}
	w.Decide("a:x", "disable")
	if rep, err := w.Syncer.Assemble(t.Context()); err != nil || !rep.Built {
		t.Errorf("after a decision: %+v, %v", rep, err)
	}
	s := w.load()
	if i, _ := s.Find(w.Record("a:x").ID()); !s.Tool(i).Approval.Disabled {
		t.Error("the catalog does not have the decision")
	}
}

// If a person decides while a worker loads a server, the first catalog after the load has the
// decision. This is true even if other catalogs are made before the load ends.
func TestSharedDecisionDuringALoad(t *testing.T) {
	for _, assembled := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(assembled, " catalogs in between"), func(t *testing.T) {
			w := shared(t)
			run, _, err := w.due(true)
			require.OK(t, err)
			w.Objects.OnPut = func(_ context.Context, key string, _ []byte) (bool, error) {
				if !strings.HasSuffix(key, "/a.found") {
					return false, nil
				}
				w.Objects.OnPut = nil // the worker has read the records, and now stores its result
				w.Decide("a:x", "block")
				for range assembled {
					w.Clock.Wait(time.Minute)
					w.mustWork(catalog.Round{Began: w.Clock.Now()}, []string{"b"})
					w.mustAssemble()
				}
				return false, nil
			}
			w.mustWork(run, []string{"a"})
			w.Clock.Wait(time.Hour)
			w.mustAssemble()
			s := w.load()
			if i, _ := s.Find(w.Record("a:x").ID()); s.Tool(i).Approval.State != approval.Blocked {
				t.Errorf("the catalog has the record at revision %d, %s", s.Tool(i).Approval.Rev, s.Tool(i).Approval.State)
			}
		})
	}
}

// If two assemblies run at the same time, the assembly that ends last continues from the other
// assembly's catalog.
func TestSharedTwoAssemblies(t *testing.T) {
	w := shared(t)
	w.Server("a").Tools = []string{"x", "y", "new"}
	run := catalog.Round{Began: w.Clock.Now()}
	w.mustWork(run, []string{"a"})
	w.Objects.OnPut = func(_ context.Context, key string, _ []byte) (bool, error) {
		if key != catalog.CurrentKey {
			return false, nil
		}
		w.Objects.OnPut = nil
		w.Server("b").Tools = []string{"z", "newer"}
		w.mustWork(run, []string{"b"})
		w.mustAssemble()
		return false, nil
	}
	if _, err := w.Syncer.Assemble(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantState(t, w, "a:new: pending", "a:x: approved", "a:y: approved", "b:newer: pending", "b:z: approved", "c:u: approved")
}

// If a stored result is unreadable, a sync loads the server again. If the result has a newer
// format, Work returns an error.
func TestSharedDamage(t *testing.T) {
	w := shared(t)
	const key = "catalog/servers/a.found"
	for _, data := range []string{"", "oops", "{}\nPCAT", `{"format":1,"name":"b"}` + "\n"} {
		w.Put(key, data)
		w.Server("a").Tools = append(w.Server("a").Tools, fmt.Sprint("more", len(data)))
		if _, err := w.worker().Assemble(t.Context()); err != nil {
			t.Errorf("%q: %v", data, err)
		}
		if rep := w.mustShare(true); rep.Tools != 2+len(w.Server("a").Tools) {
			t.Errorf("%q: %d tools", data, rep.Tools)
		}
	}
	w.Put(key, `{"format":2,"name":"a"}`+"\n")
	if _, err := w.work(catalog.Round{Began: w.Clock.Now()}, []string{"a"}); !errors.Is(err, catalog.ErrNewer) {
		t.Errorf("Work = %v, want ErrNewer", err)
	}
}

// If a server leaves the config, only its records remain. A server that could not be loaded keeps
// its items.
func TestSharedServerLeaves(t *testing.T) {
	w := shared(t)
	w.Server("b").Outcome = transient()
	w.place(map[string]string{"a": here, "b": "https://b.example/mcp"})
	lost := w.Approvals
	w.lose(&approvaltest.Mem{Now: w.Clock.Now})
	w.mustShare(true)
	wantState(t, w, "a:x: approved", "a:y: approved", "b:z: approved")
	if r := w.Record("c:u"); r.Loss == nil || lost == w.Approvals {
		t.Errorf("record of the server that left = %+v, want it restored in the new store", r)
	}
	if w.exists("catalog/servers/c.found") {
		t.Error("the load result of the server that left is still stored")
	}
	if b := w.load().Current().Outcomes[1]; b.ServerID != "b" || b.Status != outcome.Transient {
		t.Errorf("outcome of the server that failed: %+v", b)
	}
}

// A server is due some time after its last load. The longer it has not changed, the longer is that
// time. A server that was sent to a worker is not due again immediately.
func TestDue(t *testing.T) {
	w := shared(t)
	due := func(all bool) []string {
		t.Helper()
		_, names, err := w.due(all)
		require.OK(t, err)
		return names
	}
	w.Clock.Set(day(1).Add(time.Hour), 0)
	w.mustShare(true)
	w.Clock.Wait(12 * time.Hour)
	w.mustShare(false)
	w.Clock.Wait(59 * time.Minute)
	if got := due(false); len(got) > 0 {
		t.Errorf("due less than an hour after the last load of unchanged servers = %v", got)
	}
	w.Server("b").Tools = []string{"z", "new"}
	w.Clock.Wait(time.Hour)
	w.mustShare(false)
	w.Clock.Wait(5 * time.Minute)
	wantEqual(t, "due after b has changed", []string{"b"}, due(false))
	if got := due(true); len(got) != 3 {
		t.Errorf("due of all servers = %v, want 3", got)
	}
	if _, names, err := w.plan(new(queuetest.Queue), false); err != nil {
		t.Fatal(names, err)
	}
	w.Clock.Wait(10 * time.Minute)
	if got := due(false); slices.Contains(got, "b") {
		t.Errorf("due = %v, want no b while a worker loads b", got)
	}
	w.Clock.Wait(6 * time.Minute)
	if got := due(false); !slices.Contains(got, "b") {
		t.Errorf("due = %v, want b, because no worker stored a result", got)
	}
	w.place(map[string]string{"a": here, "b": "https://b.example/mcp", "c": "https://c.example/mcp", "d": "https://d.example/mcp"})
	if got := due(false); !slices.Contains(got, "d") || !slices.Contains(got, "a") {
		t.Errorf("due after another config = %v, want a and d", got)
	}
}

// A load that begins before an assembly and ends after it is in the next assembly. This is true
// even if no earlier assembly knew the server.
func TestSharedLoadDuringAnAssembly(t *testing.T) {
	for name, begin := range map[string]func(*fixture){
		"the first round":     func(*fixture) {},
		"after a single sync": func(w *fixture) { w.sync() },
		"after a round":       func(w *fixture) { w.mustShare(true) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.place(map[string]string{"a": here, "b": "https://b.example/mcp"})
			w.serve(map[string][]string{"a": {"x"}, "b": {"y"}})
			begin(w)
			w.serve(map[string][]string{"a": {"x", "x2"}, "b": {"y", "y2"}})
			run, names, err := w.due(true)
			require.OK(t, err)
			w.once(func(context.Context) { w.mustAssemble() })
			w.mustWork(run, names)
			rep, err := w.worker().Assemble(t.Context())
			if err != nil || rep.Tools != 4 {
				t.Errorf("the catalog has %d tools, %v; want 4", rep.Tools, err)
			}
		})
	}
}
