package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A town is the gateway in front of 70 live servers with 527 real tools.
type town struct {
	*program
	servers map[string]*upstreamtest.Server
}

func newTown(t testing.TB, settings string) *town {
	t.Helper()
	dir := t.TempDir()
	w := &town{servers: upstreamtest.Fleet(t, local.Tools(t), upstreamtest.Options{Forget: true})}
	writeConfig(t, dir, w.config(settings))
	w.program = start(t, dir)
	return w
}

// config gives every server the same settings.
func (w *town) config(settings string) string {
	var parts []string
	for name, s := range w.servers {
		parts = append(parts, fmt.Sprintf(`%q: {"url": %q%s}`, name, s.URL, settings))
	}
	return `{"mcpServers": {` + strings.Join(parts, ",") + `}}`
}

// A toolSummary is one line of GET /admin/tools.
type toolSummary struct{ ID, Server, Name, Status, Hash string }

// tools reads every page of the list.
func (w *town) tools() (all []toolSummary) {
	w.t.Helper()
	after := ""
	for {
		var out struct {
			Tools []toolSummary
			Next  string
		}
		w.json(http.MethodGet, "/admin/tools?limit=200&after="+after, nil, http.StatusOK, &out)
		if all = append(all, out.Tools...); out.Next == "" {
			return all
		}
		after = out.Next
	}
}

func (w *town) policy(text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "config", "policy.cedar"), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.json(http.MethodPost, "/admin/sync", map[string]any{}, http.StatusOK, nil)
}

// Each reason in turn on every real tool, through the config, the policy, the
// admin API and the approval mode, as an agent sees it over HTTP.
func TestEveryReasonOnEveryRealToolOverHTTP(t *testing.T) {
	w := newTown(t, `, "approval": "manual"`)
	if n := len(w.tools()); n != 527 {
		t.Fatalf("%d tools, want 527", n)
	}
	w.allLocked("pending_approval")

	byServer := map[string][]map[string]string{}
	for _, x := range w.tools() {
		byServer[x.Server] = append(byServer[x.Server], map[string]string{"name": x.Name, "hash": x.Hash})
	}
	for server, tools := range byServer {
		w.json(http.MethodPost, "/admin/servers/"+server+"/approve", map[string]any{"tools": tools}, http.StatusOK, nil)
	}
	if locked := w.statuses(); locked[""] != 527 {
		t.Fatalf("after the bulk approval: %v", locked)
	}

	w.policy(`@id("broken") forbid (principal, action, resource) when { principal.level > 1 };`)
	w.allLocked("disabled_unknown")
	w.policy("")

	for _, x := range w.tools() {
		w.json(http.MethodPost, "/admin/tools/"+x.Server+"/"+x.Name+"/disable", map[string]any{}, http.StatusOK, nil)
	}
	w.allLocked("disabled_by_user")

	w.configure(w.config(`, "approval": "manual", "disabled_tools": ["*"]`))
	w.allLocked("disabled_by_config")
	x := w.tools()[0]
	w.json(http.MethodPost, "/admin/tools/"+x.Server+"/"+x.Name+"/enable", map[string]any{}, http.StatusConflict, nil)

	w.configure(w.config(`, "approval": "manual", "disabled_tools": ["*"], "enabled": false`))
	w.allLocked("server_disabled")
}

// statuses counts all tools by what describe_tools says of them; "" is callable.
func (w *town) statuses() map[string]int {
	w.t.Helper()
	out := map[string]int{}
	var names []string
	ask := func() {
		var a struct{ Tools []struct{ Status string } }
		r := w.call("describe_tools", map[string]any{"names": names})
		if err := json.Unmarshal([]byte(r.Text), &a); err != nil || len(a.Tools) != len(names) {
			w.t.Fatalf("describe %v: %v: %s", names, err, r.Text)
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

// allLocked holds every answer of the gateway to all tools being locked for one reason.
func (w *town) allLocked(status string) {
	w.t.Helper()
	if got := w.statuses(); got[status] != 527 {
		w.t.Errorf("%s: describe_tools says %v", status, got)
	}
	counted := 0
	for args := (map[string]any{"operation": "list"}); args != nil; {
		var list struct {
			Servers []struct{ Tools map[string]int }
			Next    string
		}
		if err := json.Unmarshal([]byte(w.call("upstream_servers", args).Text), &list); err != nil {
			w.t.Fatal(err)
		}
		for _, s := range list.Servers {
			counted += s.Tools[status]
		}
		if args["after"] = list.Next; list.Next == "" {
			args = nil
		}
	}
	if counted != 527 {
		w.t.Errorf("%s: upstream_servers counts %d tools, want 527", status, counted)
	}
	for _, query := range []string{"weather forecast", "search papers", "create an issue", "convert a document", "stock price of a company"} {
		var open, shown struct {
			Tools       []json.RawMessage
			Total       int
			Notice      string
			Disabled    []struct{ Status string }
			Remediation map[string]string
		}
		if err := json.Unmarshal([]byte(w.call("retrieve_tools", map[string]any{"query": query}).Text), &open); err != nil {
			w.t.Fatal(err)
		}
		if open.Total != 0 || open.Notice == "" || open.Disabled != nil {
			w.t.Errorf("%s, %q without the flag: %+v", status, query, open)
		}
		if err := json.Unmarshal([]byte(w.call("retrieve_tools", map[string]any{"query": query, "include_disabled": true}).Text), &shown); err != nil {
			w.t.Fatal(err)
		}
		if len(shown.Disabled) == 0 || len(shown.Remediation) != 1 || shown.Remediation[status] == "" {
			w.t.Errorf("%s, %q with the flag: %+v", status, query, shown)
		}
		for _, d := range shown.Disabled {
			if d.Status != status {
				w.t.Errorf("%s, %q: one is %s", status, query, d.Status)
			}
		}
	}
	x := w.tools()[0]
	blocked := w.call("call_tool_read", map[string]any{"name": x.ID})
	if !blocked.IsError || !strings.Contains(blocked.Text, status) {
		w.t.Errorf("%s: a call of %s answers %s", status, x.ID, blocked.Raw)
	}
}
