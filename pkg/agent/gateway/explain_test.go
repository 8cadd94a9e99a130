package gateway_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// tried returns a gateway in which each check of an explanation fails for one tool.
func tried(t *testing.T) *fixture {
	gw := newFixture(t)
	const reads = `"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}`
	gw.Serve("fs", def("file_read", "Read a file.", reads), def("file_gone", "Remove a file.", ""), def("file_waits", "Copy a file.", reads),
		def("file_off", "Move a file.", reads), def("file_listed", "List a file.", reads),
		def("file_ruled", "Link a file.", reads),
		def("file_apart", "Stat a file.", reads),
		def("file_page", "Turn a file.", visible(`["app"]`)))
	gw.Serve("dark", def("file_dark", "Burn a file.", reads))
	gw.Serve("other", def("file_other", "Fax a file.", reads))
	gw.Serve("unoffered", def("file_unoffered", "Post a file.", reads))
	gw.Configure(map[string]string{"fs": `"approval": "manual"`, "dark": `"enabled": true`},
		`"tools": {"toolsets": ["fs", "dark", "other"], "disabled": ["fs:file_listed"]}`)
	gw.Forbid(`@id("no-links") @reason("links leave the house") forbid(principal, action, resource == Tool::"fs:file_ruled");`)
	gw.Sync()
	for _, name := range []string{"read", "gone", "off", "listed", "ruled", "apart", "page"} {
		gw.Decide("fs:file_"+name, "approve")
	}
	gw.Decide("fs:file_off", "disable")
	gw.Configure(map[string]string{"fs": `"approval": "manual"`, "dark": `"enabled": false`},
		`"tools": {"toolsets": ["fs", "dark", "other"], "disabled": ["fs:file_listed"]}`)
	gw.Sync()
	gw.Agent.Servers = []string{"fs", "dark", "unoffered"}
	gw.Agent.Tiers = []tool.Tier{tool.Read}
	gw.Header = http.Header{"X-Mcp-Exclude-Tools": {"fs:file_apart"}}
	return gw
}

func TestTrialSaysWhy(t *testing.T) {
	gw := tried(t)
	trial, err := gw.MCP.ExplainSearch(t.Context(), gw.Caller, "file", false, 20)
	require.OK(t, err)
	got := map[string]string{}
	for _, g := range trial.Groups {
		if g.Total != len(g.Tools) {
			t.Errorf("%s: got %d tools, total %d", g.Name, len(g.Tools), g.Total)
		}
		for n, x := range g.Tools {
			if x.Rank != n+1 || x.Lexical <= 0 {
				t.Errorf("%v: rank %d, words %v", x.ID, x.Rank, x.Lexical)
			}
			got[x.ID.Name] = g.Name + failed(x)
		}
	}
	for name, want := range map[string]string{
		"file_read": "callable", "file_gone": "callable tier(destructive)", "file_waits": "locked approval", "file_off": "locked person",
		"file_listed": "locked lists(tools.disabled[0])", "file_ruled": "locked policy(policy.cedar:1 no-links)", "file_dark": "locked server",
		"file_page":  "hidden models",
		"file_apart": "hidden selected", "file_other": "hidden scope", "file_unoffered": "hidden offered",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if want := gw.Call("retrieve_tools", `{"query":"file","limit":20}`); !strings.Contains(string(trial.Answer), fmt.Sprintf("%q", want.Text)) {
		t.Errorf("answer = %s\nwant the agent's answer %s", trial.Answer, want.Text)
	}
	for _, hidden := range []string{"file_other", "file_apart", "file_unoffered", "file_page"} {
		if strings.Contains(string(trial.Answer)+string(trial.Menu), hidden) {
			t.Errorf("the answer has %s", hidden)
		}
	}
	if len(gw.Sent()) > 0 {
		t.Error("the explanation called a server")
	}
}

// failed returns the checks that a tool did not pass.
func failed(x gateway.ExplainedTool) (out string) {
	for _, c := range x.Checks {
		switch {
		case c.Passed == lock.Yes:
		case c.Detail != "":
			out += " " + c.Name + "(" + c.Detail + ")"
		default:
			out += " " + c.Name
		}
	}
	return out
}

// The explanation of a tool agrees with the result of its call.
func TestTrialAgreesWithCalls(t *testing.T) {
	gw := tried(t)
	trial, err := gw.MCP.ExplainSearch(t.Context(), gw.Caller, "file", true, 20)
	require.OK(t, err)
	for _, g := range trial.Groups {
		for _, x := range g.Tools {
			passed := !slices.ContainsFunc(x.Checks, func(c gateway.Check) bool { return c.Passed != lock.Yes })
			raw, err := gw.Try(fmt.Sprintf(`{"name":"call_tool_%v","arguments":{"name":%q}}`, x.Tier, x.ID))
			called := err == nil && !strings.Contains(string(raw), `"isError":true`)
			if called != passed {
				t.Errorf("%v: failed checks %q, but the call returned %s, %v",
					x.ID, failed(x), raw, err)
			}
			hidden := strings.Contains(string(raw), "was not found") ||
				strings.Contains(string(raw), "is not for models")
			if hidden != (g.Name == "hidden") {
				t.Errorf("%v is in group %s, but the call returned %s", x.ID, g.Name, raw)
			}
			if g.Name == "locked" && !strings.Contains(string(raw), "is locked: "+string(x.Status)) {
				t.Errorf("%v is %s, but the call returned %s", x.ID, x.Status, raw)
			}
		}
	}
}

func TestTrialOfARefusedRequest(t *testing.T) {
	gw := tried(t)
	gw.Path = "/x/nowhere"
	trial, err := gw.MCP.ExplainSearch(t.Context(), gw.Caller, "file", false, 20)
	require.OK(t, err)
	if !strings.Contains(trial.Refused, "nowhere") || trial.Groups != nil {
		t.Errorf("%+v", trial)
	}
}
