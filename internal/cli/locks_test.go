package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// realTools is the gateway in front of 70 live servers with 527 real tools.
type realTools struct {
	*program
	servers servers
}

func newReal(t testing.TB, settings string) *realTools {
	t.Helper()
	w := &realTools{servers: upstreamtest.Fleet(t, local.Tools(t), upstreamtest.Options{Forget: true})}
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, w.config(settings))
	w.program = start(t, dir)
	return w
}

// config gives every server the same settings.
func (w *realTools) config(settings string) string { return w.servers.config(each(settings), "") }

// A toolSummary is one line of GET /admin/tools.
type toolSummary struct{ ID, Server, Name, Status, Hash string }

// tools reads every page of the list.
func (w *realTools) tools() []toolSummary {
	w.T.Helper()
	return agenttest.Pages[toolSummary](&w.Client, "tools", "tools", "")
}

func (w *realTools) policy(text string) {
	w.T.Helper()
	programtest.WritePolicy(w.T, w.dir, text)
	w.Ask(http.StatusOK, "/admin/sync", `{}`, nil)
}

// Each reason applies in turn to every real tool: through the config, the policy, the admin API and
// the approval mode. The test checks what an agent sees over HTTP.
func TestReasonsOfRealTools(t *testing.T) {
	w := newReal(t, `, "approval": "manual"`)
	if n := len(w.tools()); n != 527 {
		t.Fatalf("%d tools, want 527", n)
	}
	w.allLocked("pending_approval")

	byServer := map[string][]map[string]string{}
	for _, x := range w.tools() {
		byServer[x.Server] = append(byServer[x.Server], map[string]string{"id": x.ID, "hash": x.Hash})
	}
	for _, items := range byServer {
		w.Ask(http.StatusOK, "/admin/tools", map[string]any{"action": "approve", "items": items, "note": "as they were listed"}, nil)
	}
	if locked := w.statuses(); locked[""] != 527 {
		t.Fatalf("after the bulk approval: %v", locked)
	}

	w.policy(`@id("broken") forbid (principal, action, resource) when { principal.level > 1 };`)
	w.allLocked("disabled_unknown")
	w.policy("")

	for _, x := range w.tools() {
		w.Ask(http.StatusOK, "/admin/tools/"+x.Server+"/"+x.Name+"/disable", `{}`, nil)
	}
	w.allLocked("disabled_by_user")

	w.configure(w.config(`, "approval": "manual", "disabled_tools": ["*"]`))
	w.allLocked("disabled_by_config")
	x := w.tools()[0]
	w.Ask(http.StatusConflict, "/admin/tools/"+x.Server+"/"+x.Name+"/enable", `{}`, nil)

	w.configure(w.config(`, "approval": "manual", "disabled_tools": ["*"], "enabled": false`))
	w.allLocked("server_disabled")
}

// statuses counts all tools by their status in describe_tools; "" is callable.
func (w *realTools) statuses() map[string]int {
	w.T.Helper()
	out := map[string]int{}
	var names []string
	ask := func() {
		var a struct{ Tools []struct{ Status string } }
		w.CallJSON("describe_tools", map[string]any{"names": names}, &a)
		if len(a.Tools) != len(names) {
			w.T.Fatalf("describe %v: %+v", names, a)
		}
		for _, x := range a.Tools {
			out[x.Status]++
		}
		names = nil
	}
	for _, x := range w.tools() {
		if names = append(names, x.ID); len(names) == 10 {
			ask()
		}
	}
	if len(names) > 0 {
		ask()
	}
	return out
}

// allLocked checks that all tools are locked for this one reason in every answer of the gateway.
func (w *realTools) allLocked(status string) {
	w.T.Helper()
	if got := w.statuses(); got[status] != 527 {
		w.T.Errorf("%s: the statuses in describe_tools are %v", status, got)
	}
	counted := 0
	for args := (map[string]any{"operation": "list"}); args != nil; {
		var list struct {
			Servers []struct{ Tools map[string]int }
			Next    string
		}
		w.CallJSON("upstream_servers", args, &list)
		for _, s := range list.Servers {
			counted += s.Tools[status]
		}
		if args["after"] = list.Next; list.Next == "" {
			args = nil
		}
	}
	if counted != 527 {
		w.T.Errorf("%s: upstream_servers counts %d tools, want 527", status, counted)
	}
	for _, query := range []string{"weather forecast", "search papers", "create an issue", "convert a document", "stock price of a company"} {
		var open, shown struct {
			Tools       []json.RawMessage
			Total       int
			Notice      string
			Disabled    []struct{ Status string }
			Remediation map[string]string
		}
		w.CallJSON("retrieve_tools", map[string]any{"query": query}, &open)
		if open.Total != 0 || open.Notice == "" || open.Disabled != nil {
			w.T.Errorf("%s, %q without the flag: %+v", status, query, open)
		}
		w.CallJSON("retrieve_tools", map[string]any{"query": query, "include_disabled": true}, &shown)
		if len(shown.Disabled) == 0 || len(shown.Remediation) != 1 || shown.Remediation[status] == "" {
			w.T.Errorf("%s, %q with the flag: %+v", status, query, shown)
		}
		for _, d := range shown.Disabled {
			if d.Status != status {
				w.T.Errorf("%s, %q: one is %s", status, query, d.Status)
			}
		}
	}
	x := w.tools()[0]
	blocked := w.Call("call_tool_read", map[string]any{"name": x.ID})
	if !blocked.IsError || !strings.Contains(blocked.Text, status) {
		w.T.Errorf("%s: a call of %s answers %s", status, x.ID, blocked.Raw)
	}
}
