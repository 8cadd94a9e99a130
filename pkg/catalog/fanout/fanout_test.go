package fanout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/catalog/fanout"
	"github.com/portcullis-mcp/portcullis/pkg/catalog/fanout/fanouttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

var errDead = errors.New("the process is gone")

// A fleet is a gateway whose sync is distributed; each part is a process of its own each time.
type fleet struct {
	*gatewaytest.Gateway
	work, assemblies *fanouttest.Queue

	mu    sync.Mutex
	write int  // writes so far, messages included
	dies  int  // at which of them the process dies; 0: at none
	kept  bool // that write took effect
}

func newFleet(t *testing.T, servers int) *fleet {
	f := &fleet{Gateway: gatewaytest.New(t), work: new(fanouttest.Queue), assemblies: new(fanouttest.Queue)}
	for i := range servers {
		f.Serve(fmt.Sprintf("s%04d", i), "read", "write")
	}
	f.Configure(nil)
	f.Objects.OnPut = func(context.Context, string, []byte) (bool, error) { return f.onWrite() }
	f.Approvals.OnPut = func(context.Context, approval.Record) (bool, error) { return f.onWrite() }
	f.Approvals.Documents.OnPut = func(context.Context, []document.Doc) (bool, error) { return f.onWrite() }
	f.work.OnSend = func(context.Context) (bool, error) { return f.onWrite() }
	f.assemblies.OnSend = f.work.OnSend
	return f
}

// onWrite ends the process at the chosen write: nothing that it does afterwards takes effect.
func (f *fleet) onWrite() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write++
	if f.dies == 0 || f.write < f.dies {
		return false, nil
	}
	return f.kept && f.write == f.dies, errDead
}

// revive begins a process anew. It reports whether the one before died.
func (f *fleet) revive() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	died := f.dies > 0 && f.write >= f.dies
	if died {
		f.dies = 0
	}
	return died
}

func (f *fleet) syncer() *catalog.Syncer {
	return catalog.NewSyncer(f.Objects, f.Approvals, f.Servers, &catalog.SyncOptions{Now: f.Clock.Now})
}

func (f *fleet) toAssemble() fanout.Assemblies {
	return fanout.Assemblies{Queue: f.assemblies, Now: f.Clock.Now}
}

func (f *fleet) plan(all bool) (fanout.Plan, error) {
	p := fanout.Planner{Syncer: f.syncer(), Work: f.work, Assemblies: f.toAssemble()}
	return p.Plan(f.T.Context(), all)
}

// mustPlan plans a round that needs so many messages.
func (f *fleet) mustPlan(all bool, servers, messages int) fanout.Plan {
	f.T.Helper()
	p, err := f.plan(all)
	require.OK(f.T, err)
	if p.Servers != servers || p.Messages != messages {
		f.T.Errorf("planned %d servers by %d messages, want %d by %d", p.Servers, p.Messages, servers, messages)
	}
	return p
}

// workOn has a worker do what a message says.
func (f *fleet) workOn(body string) error {
	job, err := fanout.ParseJob([]byte(body))
	if err != nil {
		return err
	}
	w := fanout.Worker{Load: f.syncer().LoadServers, Assemblies: f.toAssemble()}
	_, err = w.Work(f.T.Context(), job)
	return err
}

// workOff has workers take each message that waits, once.
func (f *fleet) workOff() {
	for {
		body, done, ok := f.work.Receive()
		if !ok {
			f.work.Again()
			return
		}
		err := f.workOn(body)
		if f.revive(); err == nil {
			done()
		}
	}
}

// assemble takes each message about assemblies that waits, once, and returns the last error.
func (f *fleet) assemble() (err error) {
	f.Clock.Wait(time.Minute)
	for {
		_, done, ok := f.assemblies.Receive()
		if !ok {
			f.assemblies.Again()
			return err
		}
		if _, err = f.syncer().Assemble(f.T.Context()); !f.revive() {
			done()
		}
	}
}

// wantTools checks that the catalog has each tool, and that each record was written once.
func (f *fleet) wantTools(want int) {
	f.T.Helper()
	s, err := catalog.Load(f.T.Context(), f.Objects, nil)
	require.OK(f.T, err)
	if s.Len() != want {
		f.T.Errorf("the catalog has %d tools, want %d", s.Len(), want)
	}
	for i := range s.Len() {
		if r, err := f.Approvals.Get(f.T.Context(), s.ID(i)); err != nil || r.Rev != 1 {
			f.T.Errorf("%s: revision %d, %v", s.ID(i), r.Rev, err)
		}
	}
}

// A thousand servers, two workers that die in the middle: every tool is there, and nothing twice.
func TestThousandServers(t *testing.T) {
	f := newFleet(t, 1000)
	f.mustPlan(false, 1000, 100)
	for _, at := range []int{40, 700} {
		f.dies, f.write = at, 0
		for f.dies > 0 {
			body, done, _ := f.work.Receive()
			if err := f.workOn(body); !f.revive() {
				require.OK(t, err)
				done()
			}
		}
	}
	f.workOff() // what is not with the dead
	f.workOff() // and what was
	require.OK(t, f.assemble())
	f.wantTools(2000)
	if n := len(f.work.Dead()); n > 0 || f.work.Taken() != 100 || f.assemblies.Taken() > 2 {
		t.Errorf("%d messages for workers, %d put aside, %d for assemblies", f.work.Taken(), n, f.assemblies.Taken())
	}
	f.Clock.Wait(time.Minute)
	if p := f.mustPlan(false, 0, 0); p.Confirm {
		t.Error("a catalog of two minutes is to be confirmed")
	}
}

// Each part dies at each of its writes in turn, kept or not: what comes next goes on from there.
func TestKilledAtEachWrite(t *testing.T) {
	for _, kept := range []bool{false, true} {
		n := 1
		for ; killedAt(t, n, kept); n++ {
		}
		// Two messages and the plan, twelve records, baselines and finds, then the catalog: a shard and current.json.
		if n < 60 {
			t.Errorf("kept %v: only %d writes were broken off", kept, n-1)
		}
	}
}

// killedAt reports whether there is such a write.
func killedAt(t *testing.T, n int, kept bool) (died bool) {
	t.Run(fmt.Sprintf("%d kept %v", n, kept), func(t *testing.T) {
		f := newFleet(t, 12)
		f.dies, f.kept = n, kept
		for range 4 {
			_, err := f.plan(true)
			if f.revive() {
				died = true
			} else {
				require.OK(t, err)
			}
			before := f.dies
			for range 3 {
				f.workOff()
			}
			for range 2 {
				_ = f.assemble()
			}
			died = died || before > 0 && f.dies == 0
			f.Clock.Wait(20 * time.Minute)
		}
		f.wantTools(24)
		if len(f.work.Dead())+len(f.assemblies.Dead()) > 0 {
			t.Errorf("put aside: %q, %q", f.work.Dead(), f.assemblies.Dead())
		}
	})
	return died
}

// Messages that come twice, late or to two at once change nothing.
func TestMessageTwice(t *testing.T) {
	f := newFleet(t, 25)
	f.mustPlan(true, 25, 3)
	var bodies []string
	for body, _, ok := f.work.Receive(); ok; body, _, ok = f.work.Receive() {
		bodies = append(bodies, body)
	}
	for range 2 {
		var wg sync.WaitGroup
		for _, body := range slices.Concat(bodies, bodies) {
			wg.Go(func() {
				if err := f.workOn(body); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for range 2 {
			wg.Go(func() {
				if _, err := f.syncer().Assemble(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		f.wantTools(50)
	}
}

// Who plans each minute asks a server that fails every five, and has a catalog confirmed every four.
func TestEachMinute(t *testing.T) {
	f := newFleet(t, 2)
	f.Server("s0001").Outcome = outcome.Outcome{Status: outcome.Permanent, Reason: "http_500", Error: "HTTP 500"}
	asked, moved := 0, 0
	for range 21 {
		p, err := f.plan(false)
		require.OK(t, err)
		asked += p.Servers
		f.workOff()
		before := f.current()
		require.OK(t, f.assemble()) // a minute passes
		if f.current() != before {
			moved++
		}
	}
	// The healthy one at 0, 5, 10, 15 and 20 minutes, and so the other.
	if asked < 8 || asked > 10 {
		t.Errorf("servers were asked %d times in 21 minutes", asked)
	}
	if moved < 5 || moved > 7 {
		t.Errorf("the catalog was moved %d times in 21 minutes", moved)
	}
}

func (f *fleet) current() string {
	o, err := f.Objects.Get(f.T.Context(), catalog.CurrentKey, "")
	if err != nil {
		return ""
	}
	return string(o.Data)
}

// A server that leaves the config leaves the catalog, though nobody is asked.
func TestServerLeaves(t *testing.T) {
	f := newFleet(t, 3)
	f.mustPlan(true, 3, 1)
	f.workOff()
	require.OK(t, f.assemble())
	f.wantTools(6)
	f.ConfigureOnly(map[string]string{"s0000": "", "s0001": ""})
	if p, err := f.plan(false); err != nil || !p.Confirm {
		t.Errorf("Plan = %+v, %v", p, err)
	}
	require.OK(t, f.assemble())
	f.wantTools(4)
}

// A round that cannot be planned is assembled, and that tells why.
func TestNoConfig(t *testing.T) {
	f := newFleet(t, 1)
	f.mustPlan(true, 1, 1)
	f.workOff()
	require.OK(t, f.assemble())
	f.Objects.OnGet = func(_ context.Context, key string) error {
		if strings.HasPrefix(key, "catalog/") {
			return errDead
		}
		return nil
	}
	if p, err := f.plan(false); !errors.Is(err, errDead) || !p.Confirm {
		t.Errorf("Plan = %+v, %v", p, err)
	}
	f.Objects.OnGet = nil
	if n := f.assemblies.Taken(); n != 2 {
		t.Errorf("%d assemblies were asked for", n)
	}
	require.OK(t, f.assemble())
	f.wantTools(2)
}

// A worker that has no time for all has its message come again, and what it found assembled.
func TestUnasked(t *testing.T) {
	q := new(fanouttest.Queue)
	for _, c := range []struct {
		report catalog.LoadReport
		err    error
		want   error
		asks   int
	}{
		{catalog.LoadReport{}, nil, nil, 1},
		{catalog.LoadReport{Put: 2, Unasked: 1}, nil, fanout.ErrUnasked, 1},
		{catalog.LoadReport{Unasked: 3}, nil, fanout.ErrUnasked, 0},
		{catalog.LoadReport{Put: 1}, errDead, errDead, 1},
		{catalog.LoadReport{}, errDead, errDead, 0},
	} {
		before := q.Taken()
		began := time.Now().Add(time.Duration(before) * time.Second)
		w := fanout.Worker{Assemblies: fanout.Assemblies{Queue: q}, Load: func(context.Context, catalog.Run, []string) (catalog.LoadReport, error) { return c.report, c.err }}
		_, err := w.Work(t.Context(), fanout.Job{Run: catalog.Run{Began: began}, Servers: []string{"a", "b", "c"}})
		if !errors.Is(err, c.want) || q.Taken()-before != c.asks {
			t.Errorf("%+v, %v: Work = %v, %d assemblies asked for", c.report, c.err, err, q.Taken()-before)
		}
	}
	if _, err := new(fanout.Worker).Work(t.Context(), fanout.Job{}); !errors.Is(err, fanout.ErrJob) {
		t.Errorf("without servers: %v", err)
	}
}

func TestQueueInMemory(t *testing.T) {
	fanouttest.Run(t, func(*testing.T, bool) (fanout.Queue, func() []string) {
		q := new(fanouttest.Queue)
		return q, func() (out []string) {
			for body, done, ok := q.Receive(); ok; body, done, ok = q.Receive() {
				done()
				out = append(out, body)
			}
			return out
		}
	})
}
