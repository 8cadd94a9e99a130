package unlock_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const payment = `{"to":"wait","amount":"5"}`

// decide sends a decision about an open request.
func (w *world) decide(id, verdict string, headers ...string) agenttest.Answer {
	w.T.Helper()
	var seen struct{ Hash, Args string }
	w.Ask(http.StatusOK, "/admin/requests/"+id, nil, &seen)
	body, err := json.Marshal(map[string]any{
		"verdict": verdict, "hash": seen.Hash, "args": seen.Args, "minutes": 1, "reason": "mine",
	})
	require.OK(w.T, err)
	return w.Send("/admin/requests/"+id+"/decide", string(body), headers...)
}

// If a person confirmed one call, and the agent sends many at the same time to different instances
// of a function, the gateway sends only one.
func TestConfirmedOnce(t *testing.T) {
	t.Parallel()
	w := openDynamo(t)
	const n, args = 12, `{"to":"ann","amount":"5"}`
	a := w.agent(w.token("once"))
	id := a.call("shop:pay", args).Lock.Confirm.Request
	if got := w.decide(id, "confirmed"); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	var ran atomic.Int64
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			switch got := a.call("shop:pay", args); {
			case got.Ran:
				ran.Add(1)
			case !strings.Contains(got.Text, "The confirmation "+id+" was used"):
				t.Errorf("the agent reads %s", got.Raw)
			}
		})
	}
	all.Wait()
	if ran.Load() != 1 {
		t.Errorf("%d of %d calls ran", ran.Load(), n)
	}
	w.wantCalls("pay", 1)
}

// The program dies during a confirmed call. The gateway never sends the call again.
func TestKilledInAConfirmedCall(t *testing.T) {
	t.Parallel()
	w, p := openProgram(t)
	a := w.agent(w.token("payer"))
	id := a.call("shop:pay", payment).Lock.Confirm.Request
	if got := w.decide(id, "confirmed"); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	gone := make(chan struct{})
	go func() { defer close(gone); a.tries("shop:pay", payment) }()
	local.Until(t, "the gateway has sent the call", func() bool { return w.calls("pay") > 0 })
	p.Kill()
	<-gone
	p.Start()
	a.wantSaid(a.call("shop:pay", payment), "The confirmation "+id+" was used")
	w.wantCalls("pay", 1)
}

// An agent cannot decide with its own credentials, even if they have an approver's role.
func TestOnlyPeopleDecide(t *testing.T) {
	t.Parallel()
	w := openBolt(t)
	chief := w.issuer.Token(audience, map[string]any{
		"sub": kim.subject, "client_id": "ide", "groups": kim.groups, "scope": "portcullis:destructive",
	})
	_, id := w.agent(w.actsFor(sam)).wants("shop:drop", "to do my work")
	_, own := w.agent(chief).wants("shop:ship", "to do my work")
	for name, bearer := range map[string]string{
		"a token": w.token("decider"), "a JWT": w.actsFor(sam), "a JWT of an approver": chief, "nothing": "",
	} {
		for _, id := range []string{id, own} {
			for _, verdict := range []string{"approved", "allowed", "declined"} {
				got := w.decide(id, verdict, "Authorization: Bearer "+bearer)
				if got.Status != http.StatusForbidden && got.Status != http.StatusUnauthorized {
					t.Errorf("%s: %s: %d %s", name, verdict, got.Status, got.Body)
				}
			}
		}
	}
	for _, id := range []string{id, own} {
		var seen struct{ State string }
		w.Ask(http.StatusOK, "/admin/requests/"+id, nil, &seen)
		if seen.State != "open" {
			t.Errorf("the request is %s", seen.State)
		}
	}
}
