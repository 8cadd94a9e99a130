package decide_test

import (
	"context"
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage/usagetest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// counted lets the fixture count calls. kim, an agent with a JWT, has called.
func (f *fixture) counted() {
	f.T.Helper()
	known := func(context.Context, tool.ID) (tool.Tier, bool) { return tool.Read, true }
	c := usage.NewCounter(&usagetest.Mem{}, known, &usage.Options{Now: f.Clock.Now})
	for _, agent := range []string{"kim", "token:gone"} {
		require.OK(f.T, c.Write(f.ctx, audit.Line{Kind: audit.KindCall, Time: f.Clock.Now(), Agent: agent, Tool: "mail:send", Decision: audit.Locked}))
	}
	f.Decide.Usage = c
}

// filesWith returns audit files with a call of an agent.
func filesWith(f *fixture, agent string) *calls {
	c := &calls{}
	c.add(f.Clock.Now(), agent, "mail:send")
	return c
}

// The stop of an agent has a warning only if no agent with this id was ever seen. If calls cannot
// be read here, as on AWS, only agents that requested access count as seen. For other agents, the
// answer says where to look for their calls.
func TestStopOfAnAgentThatWasSeen(t *testing.T) {
	jwt := identity.Names{Claims: &identity.ClaimMap{}}
	for name, tt := range map[string]struct {
		set       func(f *fixture)
		agent     string
		unlisted  bool
		unchecked string
	}{
		"never seen":               {(*fixture).counted, "kim2", true, ""},
		"counted calls":            {(*fixture).counted, "kim", false, ""},
		"calls, removed token":     {(*fixture).counted, "token:gone", false, ""},
		"in the files of audit":    {func(f *fixture) { f.counted(); f.Decide.Calls = filesWith(f, "old") }, "old", false, ""},
		"not in the files":         {func(f *fixture) { f.counted(); f.Decide.Calls = filesWith(f, "old") }, "older", true, ""},
		"a request":                {func(f *fixture) { f.Decide.Agents = jwt; f.asks(agentNamed("kim"), "mail:send", "") }, "kim", false, ""},
		"calls are elsewhere":      {func(f *fixture) { f.Decide.Agents, f.Decide.CallStore = jwt, "the log" }, "kim", false, "the log"},
		"a token, calls elsewhere": {func(f *fixture) { f.Decide.Agents, f.Decide.CallStore = jwt, "the log" }, "token:ci", true, ""},
		"tokens alone":             {func(f *fixture) { f.Decide.CallStore = "the log" }, "kim", true, ""},
	} {
		f := withRequests(t)
		tt.set(f)
		f.Open()
		target := stop.Target{Agent: tt.agent}
		r, err := f.Console.Service.Reach(f.ctx, target, "loops")
		require.OK(t, err)
		done, err := f.Console.Service.Stop(f.ctx, target, "loops")
		require.OK(t, err)
		if r.Unlisted != tt.unlisted || r.Unchecked != tt.unchecked || done.Unlisted != tt.unlisted {
			t.Errorf("%s: reach %+v, Unlisted after the stop is %v", name, r, done.Unlisted)
		}
	}
}

// A person can try a search as an agent with a JWT by its id, with every server and tier by
// default.
func TestTryAsAnAgentThatWasSeen(t *testing.T) {
	f := withRequests(t)
	f.counted()
	f.Decide.Agents = identity.Names{Claims: &identity.ClaimMap{}}
	f.Open()
	ids, err := f.Console.Service.Callers(f.ctx)
	require.OK(t, err)
	if want := []string{"kim"}; !slices.Equal(ids, want) {
		t.Errorf("agents %q, want %q", ids, want)
	}
	every := []tool.Tier{tool.Read, tool.Write, tool.Destructive}
	for agent, id := range map[string]string{"": decide.HypotheticalAgent, "kim": "kim"} {
		got, err := f.Console.Service.ExplainSearch(f.ctx, decide.SearchQuery{Agent: agent, Query: "send"})
		require.OK(t, err)
		if got.Agent.ID != id || !slices.Equal(got.Agent.Servers, []string{"*"}) || !slices.Equal(got.Agent.Tiers, every) {
			t.Errorf("as %q: %+v", agent, got.Agent)
		}
	}
	for _, agent := range []string{"kim2", "token:gone"} {
		if got, err := f.Console.Service.ExplainSearch(f.ctx, decide.SearchQuery{Agent: agent, Query: "send"}); err == nil {
			t.Errorf("as %q: %+v", agent, got.Agent)
		}
	}
}
