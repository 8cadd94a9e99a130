package decide_test

import (
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// grants returns the ids of the requests with a grant for the agent, and why grants are paused.
func (f *fixture) grants() (ids, paused []string) {
	f.T.Helper()
	list, err := f.service.GrantsOf(f.ctx, jwt)
	require.OK(f.T, err)
	for _, g := range list {
		ids = append(ids, g.Request)
		if g.Paused != "" {
			paused = append(paused, g.Paused)
		}
	}
	return ids, paused
}

func TestGrantsOf(t *testing.T) {
	f := withRequests(t)
	allowed := f.after("mail:send", "", request.Allowed)
	f.Clock.Wait(time.Second)
	confirmed := f.after("pay:send_money", "{}", request.Confirmed)
	f.Clock.Wait(time.Second)
	f.after("mail:wipe", "", request.Declined)
	f.asks(jwt, "mail:read_drafts", "")
	if _, err := f.decides(f.asks(agentNamed("b"), "mail:read_drafts", ""), request.Allowed); err == nil {
		t.Error("a grant unlocks a tool that a policy denies")
	}
	if ids, _ := f.grants(); strings.Join(ids, " ") != allowed+" "+confirmed {
		t.Errorf("grants are %q, want %s and %s", ids, allowed, confirmed)
	}
	_, err := f.Requests().Use(f.T.Context(), confirmed, f.Clock.Now(), f.Clock.Now().Add(time.Hour))
	require.OK(t, err)
	if ids, _ := f.grants(); strings.Join(ids, " ") != allowed {
		t.Errorf("after the call, grants are %q", ids)
	}
	if _, err := f.decides(allowed, request.Revoked); err != nil {
		t.Error(err)
	}
	if ids, _ := f.grants(); len(ids) != 0 {
		t.Errorf("after the revocation, grants are %q", ids)
	}
}

// A grant for an earlier definition remains a grant, because the server can return to that
// definition.
func TestGrantsOfPaused(t *testing.T) {
	f := withRequests(t)
	id := f.after("mail:send", "", request.Allowed)
	list := func(tools ...string) {
		f.Serve("mail", tools...)
		f.Sync()
	}
	list(`{"name":"send","description":"Sends."}`)
	if ids, paused := f.grants(); len(ids) != 1 || strings.Join(paused, "") != "its definition has changed" {
		t.Errorf("after a change, grants are %q, paused because %q", ids, paused)
	}
	list(`{"name":"send"}`)
	if r := f.request(id); r.State != decide.RequestAllowed {
		t.Errorf("after the old definition is back, the request is %s", r.State)
	}
	list(`{"name":"send","description":"Sends."}`)
	if r, err := f.decides(id, request.Revoked); err != nil || r.State != decide.RequestRevoked {
		t.Errorf("revoked while it is paused: %s, %v", r.State, err)
	}
	list(`{"name":"send"}`)
	if ids, _ := f.grants(); len(ids) != 0 {
		t.Errorf("after the revocation, grants are %q", ids)
	}
}
