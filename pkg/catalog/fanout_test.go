package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/catalog/queuetest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

var errDead = errors.New("the process is gone")

// A fanout is a gateway with a distributed sync; each part runs in a new process each time.
type fanout struct {
	*gatewaytest.Gateway
	work, assemblies *queuetest.Queue

	mu    sync.Mutex
	write int  // writes so far, including messages
	dies  int  // number of the write at which the process dies; 0: none
	kept  bool // that write took effect
}

func newFanout(t *testing.T, servers int) *fanout {
	f := &fanout{Gateway: gatewaytest.New(t), work: new(queuetest.Queue), assemblies: new(queuetest.Queue)}
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

// onWrite ends the process at the selected write: later writes have no effect.
func (f *fanout) onWrite() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write++
	if f.dies == 0 || f.write < f.dies {
		return false, nil
	}
	return f.kept && f.write == f.dies, errDead
}

// revive starts a new process. It reports whether the previous process died.
func (f *fanout) revive() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	died := f.dies > 0 && f.write >= f.dies
	if died {
		f.dies = 0
	}
	return died
}

func (f *fanout) syncer() *catalog.Syncer {
	return catalog.NewSyncer(f.Objects, f.Approvals, f.Servers, &catalog.SyncOptions{Now: f.Clock.Now})
}

func (f *fanout) queues() catalog.Queues { return catalog.Queues{Work: f.work, Assemble: f.assemblies} }

func (f *fanout) plan(all bool) (catalog.Plan, error) {
	return f.syncer().Plan(f.T.Context(), f.queues(), all)
}

// mustPlan plans a round that must need the given number of messages.
func (f *fanout) mustPlan(all bool, servers, messages int) catalog.Plan {
	f.T.Helper()
	p, err := f.plan(all)
	require.OK(f.T, err)
	if p.Servers != servers || p.Messages != messages {
		f.T.Errorf("planned %d servers by %d messages, want %d by %d", p.Servers, p.Messages, servers, messages)
	}
	return p
}

// workOn has a worker handle a message.
func (f *fanout) workOn(body string) error {
	job, err := catalog.ParseJob([]byte(body))
	if err != nil {
		return err
	}
	_, err = f.syncer().Work(f.T.Context(), f.queues(), job)
	return err
}

// workOff passes each waiting message to a worker once.
func (f *fanout) workOff() {
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

// assemble handles each waiting message about assemblies once, and returns the last error.
func (f *fanout) assemble() (err error) {
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
func (f *fanout) wantTools(want int) {
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

// Each part dies at each of its writes in turn, with or without effect, and the next process
// continues from there.
func TestKilledAtEachWrite(t *testing.T) {
	for _, kept := range []bool{false, true} {
		n := 1
		for ; killedAt(t, n, kept); n++ {
		}
		// Two messages and the plan, 22 records, eleven baselines and finds, then the catalog: a
		// shard and current.json.
		if n < 60 {
			t.Errorf("kept %v: only %d writes were interrupted", kept, n-1)
		}
	}
}

// killedAt kills a process at write n, and reports whether there is such a write.
func killedAt(t *testing.T, n int, kept bool) (died bool) {
	t.Run(fmt.Sprintf("%d kept %v", n, kept), func(t *testing.T) {
		f := newFanout(t, 11)
		f.dies, f.kept = n, kept
		for range 2 {
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
		f.wantTools(22)
		f.dies = 0
		for i := range 11 {
			f.Serve(fmt.Sprintf("s%04d", i), "read", "late")
		}
		_, err := f.plan(true)
		require.OK(t, err)
		f.workOff()
		require.OK(t, f.assemble())
		if r := f.Record("s0010:late"); r.State != approval.Pending || f.Record("s0010:read").State != approval.Approved {
			t.Errorf("a tool after an interrupted first list is %s", r.State)
		}
		if len(f.work.Dead())+len(f.assemblies.Dead()) > 0 {
			t.Errorf("dead messages: %q, %q", f.work.Dead(), f.assemblies.Dead())
		}
	})
	return died
}

// Messages that come twice, late or to two workers have no effect.
func TestMessageTwice(t *testing.T) {
	f := newFanout(t, 25)
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

// A schedule with one plan a minute loads a failing server every five minutes, and confirms the
// catalog every four minutes.
func TestEachMinute(t *testing.T) {
	f := newFanout(t, 2)
	f.Server("s0001").Outcome = outcome.Outcome{Status: outcome.Permanent, Reason: "http_500", Error: "HTTP 500"}
	loads, moved := 0, 0
	for range 21 {
		p, err := f.plan(false)
		require.OK(t, err)
		loads += p.Servers
		f.workOff()
		before := f.current()
		require.OK(t, f.assemble()) // a minute passes
		if f.current() != before {
			moved++
		}
	}
	// Both servers load at 0, 5, 10, 15 and 20 minutes.
	if loads < 8 || loads > 10 {
		t.Errorf("servers were loaded %d times in 21 minutes, want 8 to 10", loads)
	}
	if moved < 5 || moved > 7 {
		t.Errorf("the catalog was moved %d times in 21 minutes", moved)
	}
}

func (f *fanout) current() string {
	o, err := f.Objects.Get(f.T.Context(), catalog.CurrentKey, "")
	if err != nil {
		return ""
	}
	return string(o.Data)
}

// A server that leaves the config leaves the catalog, although no server is loaded. If a round
// cannot be planned, an assembly reports why.
func TestPlanWithoutServers(t *testing.T) {
	f := newFanout(t, 3)
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

	f.Objects.OnGet = func(_ context.Context, key string) error {
		if strings.HasPrefix(key, "catalog/") {
			return errDead
		}
		return nil
	}
	before := f.assemblies.Taken()
	if p, err := f.plan(false); !errors.Is(err, errDead) || !p.Confirm || f.assemblies.Taken() != before+1 {
		t.Errorf("Plan = %+v, %v; %d assemblies were requested", p, err, f.assemblies.Taken()-before)
	}
	f.Objects.OnGet = nil
	require.OK(t, f.assemble())
	f.wantTools(4)
}

// A message comes again if time ran out before all its servers were loaded, or if a store failed.
// An assembly includes everything stored until then.
func TestWorkInPart(t *testing.T) {
	for name, c := range map[string]struct {
		slow, fails string // the server that hangs, and the one whose result cannot be stored
		want        error
		put, asks   int
	}{
		"all":           {"", "", nil, 3, 1},
		"time for two":  {"s0002", "", catalog.ErrUnasked, 2, 1},
		"no time":       {"s0000", "", catalog.ErrUnasked, 0, 0},
		"a store fails": {"", "s0001", errDead, 2, 1},
		"time for none": {"s0000", "s0000", catalog.ErrUnasked, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFanout(t, 3)
				f.Slow = func(ctx context.Context, server string) {
					if server == c.slow {
						<-ctx.Done()
					}
				}
				f.Objects.OnPut = func(_ context.Context, key string, _ []byte) (bool, error) {
					if c.fails != "" && strings.HasSuffix(key, "/"+c.fails+".found") {
						time.Sleep(time.Second) // until the other results are stored
						return false, errDead
					}
					return false, nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				job := catalog.Job{Round: catalog.Round{Began: f.Clock.Now()}, Servers: []string{"s0000", "s0001", "s0002"}}
				report, err := f.syncer().Work(ctx, f.queues(), job)
				if !errors.Is(err, c.want) || report.Put != c.put || f.assemblies.Taken() != c.asks {
					t.Errorf("Work = %+v, %v; %d assemblies requested", report, err, f.assemblies.Taken())
				}
			})
		})
	}
	f := newFanout(t, 1)
	if _, err := f.syncer().Work(t.Context(), f.queues(), catalog.Job{}); !errors.Is(err, catalog.ErrJob) {
		t.Errorf("without servers: %v", err)
	}
}

func TestQueueInMemory(t *testing.T) {
	queuetest.Run(t, func(*testing.T, bool) (catalog.Queue, func() []string) {
		q := new(queuetest.Queue)
		return q, func() (out []string) {
			for body, done, ok := q.Receive(); ok; body, done, ok = q.Receive() {
				done()
				out = append(out, body)
			}
			return out
		}
	})
}
