package gateway_test

import (
	"errors"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// scoped returns a gateway whose issuer grants tiers by scopes with a prefix, and an agent that may
// only read.
func scoped(t *testing.T) *unlocking {
	u := unlock(t)
	u.Options.Scope = func(tier tool.Tier) string { return "gate/" + tier.String() }
	u.Agent.Tiers = []tool.Tier{tool.Read}
	u.Restart()
	return u
}

// allTiers gives the agent every tier.
func (u *unlocking) allTiers() {
	u.Agent.Tiers = []tool.Tier{tool.Read, tool.Write, tool.Destructive}
}

func TestRequestAccessOutOfTier(t *testing.T) {
	u := scoped(t)
	const want = "Approval will not help: this agent lacks the scope gate/destructive."
	const unhelpful = " Nothing was requested. Tell your user and continue without it."
	for _, name := range []string{"s:push", "s:pay"} { // locked, and with a confirmation of each call
		state, id, message := u.want(name)
		if state != "refused" || id != "" || message != want+unhelpful {
			t.Errorf("%s: %s %q %s", name, state, id, message)
		}
	}
	if u.asked().Rev != 0 || len(u.told) != 0 {
		t.Errorf("stored requests = %+v, reported = %+v", u.asked(), u.told)
	}
	if state, _, _ := u.want("s:read"); state != "callable" {
		t.Errorf("a tool of the agent's tier: %s", state)
	}
}

// The text of a lock offers only actions that request_access supports.
func TestLockOutOfTier(t *testing.T) {
	u := scoped(t)
	text, ran := u.push()
	u.holds("the call", text, "pending_approval",
		"Approval will not help: this agent lacks the scope gate/destructive.")
	if u.lacks("the call", text, "request_access", "/admin/"); ran {
		t.Error("a locked tool ran")
	}
}

// If an agent loses the tier after its request, the request shows the missing tier until the agent
// has the tier again.
func TestRequestNotesLostTier(t *testing.T) {
	pay := func(u *unlocking) {
		_, _ = u.Try(`{"name":"call_tool_destructive","arguments":{"name":"s:pay","args":{"n":1}}}`)
	}
	for name, try := range map[string]func(*unlocking){
		"the call of a locked tool": func(u *unlocking) { u.push() },
		"request_access":            func(u *unlocking) { u.want("s:push") },
		"a call to confirm":         pay,
	} {
		t.Run(name, func(t *testing.T) {
			u := scoped(t)
			u.allTiers()
			u.want("s:push")
			pay(u)
			u.Agent.Tiers = []tool.Tier{tool.Read}
			try(u)
			noted := u.asked()
			n := 0
			for _, r := range noted.List {
				if r.Lacks == "the scope gate/destructive" {
					n++
				}
			}
			if len(noted.List) != 2 || n != 1 {
				t.Errorf("requests after the loss = %+v, want the missing tier in one of two",
					noted.List)
			}
			if try(u); u.asked().Rev != noted.Rev {
				t.Error("an unchanged request was written again")
			}
			u.allTiers()
			try(u)
			for _, r := range u.asked().List {
				if r.Lacks != "" {
					t.Errorf("with the tier again: %+v", r)
				}
			}
		})
	}
}

// If no scope of the issuer grants a tier, a refusal names no scope.
func TestTierWithoutScope(t *testing.T) {
	u := scoped(t)
	u.Options.Scope = func(tool.Tier) string { return "" }
	u.Restart()
	_, err := u.Try(`{"name":"call_tool_destructive","arguments":{"name":"s:pay","args":{}}}`)
	e, ok := errors.AsType[*mcp.Error](err)
	const want = `This agent may not call destructive tools, and "s:pay" is one. ` +
		`It needs the tier destructive.`
	if !ok || e.Status != 403 || e.Message != want {
		t.Errorf("got %v, want %q", err, want)
	}
	if scope, asks := errors.AsType[*identity.Error](err); asks {
		t.Errorf("the refusal names the scopes %q, want none", scope.Scopes)
	}
	_, _, message := u.want("s:push")
	u.holds("request_access", message, "this agent lacks the tier destructive.")
}

// A lock that only an operator can end offers no request, because it would not help.
func TestLockOffersNoUselessRequest(t *testing.T) {
	u := unlock(t)
	for status, settings := range map[string]string{
		"disabled_by_config": `"approval":"manual","disabled_tools":["push"]`, "server_disabled": `"enabled":false`,
	} {
		u.reconfigure(
			map[string]string{"s": settings, "out": `"approval":"manual"`},
			`"gateway":{"requests":true}`,
		)
		text, ran := u.push()
		if u.holds(status, text, status); ran {
			t.Errorf("%s: the call ran", status)
		}
		u.lacks(status, text, "request_access", "request it here")
	}
}
