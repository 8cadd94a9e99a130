package unlock_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

const note = "to do my work"

// A seen is a request as the API shows it.
type seen struct {
	ID, State, Hash, Args, Tool string
	Alike                       []string
	Agent                       struct{ ID string }
}

// see returns a request as the API shows it.
func (w *world) see(id string) (s seen) {
	w.T.Helper()
	w.Ask(http.StatusOK, "/admin/requests/"+id, nil, &s)
	return s
}

// listed returns the requests in a state, or all requests.
func (w *world) listed(state string) (list []seen) {
	w.T.Helper()
	var page struct{ Requests []seen }
	w.Ask(http.StatusOK, "/admin/requests?state="+state, nil, &page)
	return page.Requests
}

// decide sends a decision about a request in its seen state.
func (w *world) decide(s seen, v verdict) agenttest.Answer {
	w.T.Helper()
	body, err := json.Marshal(map[string]any{"verdict": v.value, "hash": s.Hash, "args": s.Args, "reason": v.reason, "minutes": v.minutes})
	require.OK(w.T, err)
	return w.Send("/admin/requests/"+s.ID+"/decide", string(body))
}

// atOnce runs the functions at the same time, but at most w.width of them.
func (w *world) atOnce(all ...func()) {
	var wg sync.WaitGroup
	start, turn := make(chan struct{}), make(chan struct{}, w.width)
	for _, f := range all {
		wg.Go(func() {
			<-start
			turn <- struct{}{}
			f()
			<-turn
		})
	}
	close(start)
	wg.Wait()
}

// more adds the pending tools t0, t1, … to the shop.
func (w *world) more(n int) {
	w.T.Helper()
	w.shop.SetTools(append(tools("does its work"), numbered(n)...))
	w.place.sync(w.T)
}

func numbered(n int) (out []json.RawMessage) {
	for i := range n {
		out = append(out, upstreamtest.Tool(fmt.Sprintf("t%d", i), "Does it.", ""))
	}
	return out
}

// If two people decide at the same time, one decision counts, and the agent gets this decision.
func twoApprovers(t *testing.T, w *world) {
	const rounds = 16
	w.more(rounds)
	a := w.agent(eras[0], w.token("racer"))
	yes := []verdict{{value: "approved", reason: "yes"}, {value: "allowed", reason: "yes", minutes: 60}}
	no := verdict{value: "declined", reason: "use staging"}
	won := map[string]int{}
	for n := range rounds {
		if n%8 == 0 && n > 0 { // at most 10 requests are open; declined requests are closed
			a = w.agent(eras[0], w.token(fmt.Sprintf("racer-%d", n)))
		}
		name := fmt.Sprintf("shop:t%d", n)
		_, id := a.wants(name, note)
		s, open := w.see(id), yes[n%2]
		var one, two agenttest.Answer
		w.atOnce(func() { one = w.decide(s, open) }, func() { two = w.decide(s, no) })
		if (one.Status == http.StatusOK) == (two.Status == http.StatusOK) {
			t.Fatalf("%s and declined at the same time: %d %s and %d %s", open.value, one.Status, one.Body, two.Status, two.Body)
		}
		for _, lost := range []agenttest.Answer{one, two} {
			if lost.Status != http.StatusOK && (lost.Status != http.StatusConflict || !strings.Contains(lost.Body, "nothing was decided")) {
				t.Errorf("answer to the losing decision: %d %s", lost.Status, lost.Body)
			}
		}
		got := a.call(name, `{}`)
		if winner := w.see(id).State; one.Status == http.StatusOK {
			won[open.value]++
			if a.wantRan(got); winner != open.value {
				t.Errorf("the agent got the decision %s, but the request is %s", open.value, winner)
			}
		} else {
			won["declined"]++
			if a.wantSaid(got, " declined access request "+id+`. Reason: "use staging".`); winner != "declined" {
				t.Errorf("the agent got the decision declined, but the request is %s", winner)
			}
		}
	}
	if ran := len(w.shop.Calls()); ran != won["approved"]+won["allowed"] {
		t.Errorf("%d calls reached the server, %v", ran, won)
	}
	t.Logf("decisions that counted: %v", won)
}

// A hundred agents request the same tool during the decision. Each request gets an answer, and each
// agent's next call gets the final decision.
func manyJoin(t *testing.T, w *world) {
	const n = 100
	agents := make([]*agent, n)
	for i := range agents {
		agents[i] = w.agent(eras[0], w.token(fmt.Sprintf("joins-%d", i)))
	}
	ask := func(name string, ids []string) (all []func()) {
		for i, a := range agents {
			all = append(all, func() {
				state, id := a.wants(name, note)
				if ids[i] = id; state != "open" && state != "callable" && state != "declined" {
					t.Errorf("agent %d: %s", i, state)
				}
			})
		}
		return all
	}

	ids := make([]string, n)
	w.atOnce(ask("shop:drop", ids)...)
	open := w.listed("open")
	if distinct := len(slices.Compact(slices.Sorted(slices.Values(ids)))); distinct != n || len(open) != n || len(open[0].Alike) != n-1 {
		t.Fatalf("%d requests, %d open, %d joined", distinct, len(open), len(open[0].Alike))
	}
	began := time.Now()
	if got := w.decide(open[n/2], verdict{value: "declined", reason: "use staging"}); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	t.Logf("%d joined requests are declined in %v", n, time.Since(began))
	for i, a := range agents {
		a.wantSaid(a.call("shop:drop", `{}`), " declined access request "+ids[i]+".")
	}

	// Now the person decides while the agents request access.
	clear(ids)
	first := w.agent(eras[0], w.token("joins-first"))
	_, id := first.wants("shop:ship", note)
	s := w.see(id)
	var answer agenttest.Answer
	w.atOnce(append(ask("shop:ship", ids), func() { answer = w.decide(s, verdict{value: "approved", reason: "yes"}) })...)
	if answer.Status != http.StatusOK {
		t.Fatalf("%d %s", answer.Status, answer.Body)
	}
	for _, a := range append(agents, first) {
		a.wantRan(a.call("shop:ship", `{}`))
	}
	if left := w.listed("open"); len(left) > 0 {
		t.Errorf("%d requests are open, but every agent can call the tool: %+v", len(left), left[0])
	}
	w.wantCalls("ship", n+1)
	w.wantCalls("drop", 0)
}

// People decide about the definition that they saw, while the server changes the definition and
// back. The gateway sends no call while the server lists the other definition.
func decisionsAgainstAChange(t *testing.T, w *world) {
	const rounds = 12
	agents := []*agent{w.agent(eras[0], w.token("one")), w.agent(eras[1], w.token("two"))}
	_, id := agents[0].wants("shop:ship", note)
	seenHash := w.see(id).Hash

	var turn sync.RWMutex // locked during a change of the list
	var ended atomic.Bool
	other := false
	var ran, refused, decided, round atomic.Int64
	var wg sync.WaitGroup
	for _, a := range agents {
		wg.Go(func() {
			for !ended.Load() {
				turn.RLock()
				is := other
				got := a.call("shop:ship", `{}`)
				turn.RUnlock()
				switch {
				case got.Ran && is:
					t.Errorf("the gateway sent a call of another definition: %s", got.Raw)
				case got.Ran:
					ran.Add(1)
				default:
					refused.Add(1)
					a.wants("shop:ship", note)
				}
			}
		})
	}
	for i := range 2 {
		wg.Go(func() {
			for !ended.Load() {
				for _, s := range w.listed("all") {
					v := verdict{value: "allowed", minutes: 1}
					switch {
					case i == 0 && round.Load() >= rounds-2:
						v = verdict{value: "approved", reason: "yes"}
					case i == 1:
						v = verdict{value: "revoked"}
					}
					if mine := map[string]string{"open": "allowed approved", "allowed": "revoked"}[s.State]; !strings.Contains(mine, v.value) {
						continue
					}
					s.Hash = seenHash // the version that this person saw
					if w.decide(s, v).Status == http.StatusOK {
						decided.Add(1)
					}
				}
			}
		})
	}
	for n := range rounds {
		round.Store(int64(n))
		list := tools("does its work")
		if n%2 == 0 {
			list = tools("does something else")
		}
		w.shop.SetTools(list)
		w.place.sync(t)
		turn.Lock()
		other = n%2 == 0
		turn.Unlock()
		before := refused.Load() + ran.Load()
		local.Until(t, "the agents call", func() bool { return refused.Load()+ran.Load() > before+4 })
		turn.Lock() // wait until all checks of this definition have ended before the next change
		other = false
		turn.Unlock()
	}
	ended.Store(true)
	wg.Wait()
	t.Logf("%d calls ran, %d were refused, %d decisions were accepted", ran.Load(), refused.Load(), decided.Load())
	if ran.Load() == 0 || refused.Load() == 0 || decided.Load() == 0 {
		t.Error("the test had no allowed call, no refused call or no decision")
	}
	w.wantCalls("ship", int(ran.Load()))
}

// If a person confirmed one call, and the agent sends many at the same time, the gateway sends only
// one.
func confirmedOnce(t *testing.T, w *world) {
	const n, args = 12, `{"to":"ann","amount":"5"}`
	bearer := w.token("once")
	id := w.agent(eras[0], bearer).call("shop:pay", args).Lock.Confirm.Request
	if got := w.decide(w.see(id), verdict{value: "confirmed"}); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	var ran atomic.Int64
	var all []func()
	for i := range n {
		a := w.agent(eras[i%2], bearer)
		all = append(all, func() {
			switch got := a.call("shop:pay", args); {
			case got.Ran:
				ran.Add(1)
			case !strings.Contains(got.Text, "The confirmation "+id+" was used"):
				t.Errorf("the agent reads %s", got.Raw)
			}
		})
	}
	w.atOnce(all...)
	if ran.Load() != 1 {
		t.Errorf("%d of %d calls ran", ran.Load(), n)
	}
	w.wantCalls("pay", 1)
}

// The program dies at a random moment of a confirmed call. The gateway never sends the call twice.
func TestKilledInAConfirmedCall(t *testing.T) {
	t.Parallel()
	w := openBolt(t)
	p := w.place.(program)
	sent := func(to string) (n int) {
		for _, c := range w.shop.Calls() {
			if c.Tool == "pay" && strings.Contains(string(c.Params), to) {
				n++
			}
		}
		return n
	}
	outcomes := map[string]int{}
	for n := range 12 {
		to := fmt.Sprintf("payee-%d", n)
		args := fmt.Sprintf(`{"to":%q,"amount":"5"}`, to)
		a := w.agent(eras[n%2], w.token(to))
		id := a.call("shop:pay", args).Lock.Confirm.Request
		if got := w.decide(w.see(id), verdict{value: "confirmed"}); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		gone := make(chan struct{})
		go func() { defer close(gone); a.tries("shop:pay", args) }()
		if n == 0 {
			local.Until(t, "the gateway has sent the call", func() bool { return sent(to) > 0 })
		} else {
			<-time.After(time.Duration(n) * time.Millisecond)
		}
		p.Kill()
		<-gone
		p.Start()
		before := sent(to)
		got := a.call("shop:pay", args)
		switch after := sent(to); {
		case after > 1, after > before && !got.Ran, after == before && got.Ran:
			t.Errorf("the gateway sent the call %d times, %d before it died: %s", after, before, got.Raw)
		case got.Ran:
			outcomes["died before the use"]++
		case strings.Contains(got.Text, "The confirmation "+id+" was used"):
			outcomes[fmt.Sprintf("died after the use, %d sent", before)]++
		default:
			t.Errorf("the agent reads %s", got.Raw)
		}
		if again := a.call("shop:pay", args); again.Ran || sent(to) > 1 {
			t.Errorf("the gateway sent the call %d times: %s", sent(to), again.Raw)
		}
	}
	t.Logf("%v", outcomes)
}
