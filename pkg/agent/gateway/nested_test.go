package gateway_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// nested returns the definition of a tool with the given number of nesting levels.
func nested(name string, levels int) string {
	levels -= 2 // the definition and its schema
	return def(name, "It is deep.", `"inputSchema":{"type":"object","x":`+strings.Repeat("[", levels)+strings.Repeat("]", levels)+`},"annotations":{"readOnlyHint":true}`)
}

// If an approved tool gets a definition that is nested too deeply, the tool waits for approval, in
// each approval mode. If a new tool has such a definition, the sync refuses the tool. When the
// approved definition is back, the tool is callable again.
func TestNestedDefinition(t *testing.T) {
	for _, mode := range []string{`"approval": "on_change"`, `"approval": "manual"`, `"approval": "off"`} {
		t.Run(mode, func(t *testing.T) {
			gw := serving(t, mode, "", def("known", "", readOnly), nested("edge", tool.MaxDepth))
			if gw.Record("s:known").State != approval.Approved {
				gw.Decide("s:known", "approve")
			}
			gw.Server("s").Tools = []string{nested("known", tool.MaxDepth+1), nested("new", 9_400), nested("edge", tool.MaxDepth)}
			gw.Sync()
			check := func() {
				t.Helper()
				_, locked := gw.search(`{"query": "deep known new", "include_disabled": true}`).names()
				if locked["s:known"] != "pending_approval" || locked["s:new"] != "" {
					t.Errorf("locked = %v, want s:known as pending and not s:new", locked)
				}
				for _, name := range []string{"known", "new"} {
					if r := gw.Call("call_tool_read", `{"name": "s:`+name+`"}`); !r.IsError {
						t.Errorf("%s answers %s", name, r.Text)
					}
				}
				gw.sentNothing()
			}
			check()
			r, ann := gw.Record("s:known"), approval.Author{Actor: "ann", Subject: "a"}
			_, _, one := approval.Approve(r, r.CurrentHash, ann, gw.Clock.Now())
			_, _, two := approval.ApproveFourEyes(r, r.CurrentHash, ann, gw.Clock.Now())
			if !errors.Is(one, tool.ErrNested) || !errors.Is(two, tool.ErrNested) {
				t.Errorf("Approve: %v, ApproveFourEyes: %v, want tool.ErrNested from both", one, two)
			}
			gw.Restart() // the last sync's results are lost
			gw.Sync()
			check()
			gw.Server("s").Tools[0] = def("known", "", readOnly)
			gw.Sync()
			if r := gw.Call("call_tool_read", `{"name": "s:known"}`); r.IsError {
				t.Errorf("with the earlier definition, the call returned %s", r.Text)
			}
		})
	}
}

// If an earlier version of the gateway approved a definition that is nested too deeply, the tool
// waits after the next sync. Its record still says approved.
func TestNestedDefinitionApprovedBefore(t *testing.T) {
	gw := serving(t, `"approval": "manual"`, "", def("known", "", readOnly))
	d, err := tool.ParseItem(tool.Tool, []byte(nested("known", 300)))
	require.OK(t, err)
	r := gw.Record("s:known")
	r.CurrentHash, r.Current, r.ApprovedHash, r.Approved, r.State = d.Hash, d.Raw, d.Hash, d.Raw, approval.Approved
	_, err = gw.Approvals.Put(t.Context(), r, nil)
	require.OK(t, err)
	gw.Serve("s", string(d.Raw))
	gw.Sync()
	if _, locked := gw.search(`{"query": "known", "include_disabled": true}`).names(); locked["s:known"] != "pending_approval" {
		t.Errorf("locked = %v", locked)
	}
	if r := gw.Call("call_tool_read", `{"name": "s:known"}`); !r.IsError {
		t.Errorf("the call returned %s", r.Text)
	}
	gw.sentNothing()
	v, now := gw.States.Load(t.Context()).View(gw.Agent), gw.Clock.Now()
	i, _ := v.Find(r.ID())
	grant := request.Granted{Agent: request.Agent{Way: "token", ID: gw.Agent.ID}, List: []request.Decision{{
		Request: request.NewID(), Verdict: request.Allowed, Server: "s", Tool: "known", Hash: d.Hash, By: "kim", At: now, Ends: now.Add(time.Hour),
		Against: v.Record(i).DecidedAt, URL: r.URL,
	}}}
	if s := v.With(grant, now).Status(i); s != lock.PendingApproval {
		t.Errorf("status with a grant = %q", s)
	}
}

// Prompts, resources and templates that are nested too deeply are like tools: known ones wait for
// approval, and the sync refuses new ones.
func TestNestedItems(t *testing.T) {
	deep := `,"x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`
	gw := newFixture(t)
	s := gw.Serve("s")
	s.Prompts = []string{`{"name":"known"}`}
	s.Resources = []string{gatewaytest.Resource("x://known", ""), gatewaytest.Resource("x://known/{a}", "")}
	gw.load(nil)
	for i, raw := range s.Resources {
		s.Resources[i] = strings.TrimSuffix(raw, "}") + deep
	}
	s.Prompts = []string{`{"name":"known"` + deep, `{"name":"new"` + deep}
	s.Resources = append(s.Resources, `{"uri":"x://new","name":"n"`+deep, `{"uriTemplate":"x://new/{a}","name":"n"`+deep)
	report := gw.Sync()
	if got := report.Servers[0]; got.Items != 3 || len(got.Outcome.Refused) != 6 || got.ChangedItems != 3 {
		t.Errorf("%d items, %d changed, refused %v", got.Items, got.ChangedItems, got.Outcome.Refused)
	}
	v := gw.States.Load(t.Context()).View(gw.Agent)
	for _, id := range []string{"s:prompt:known", "s:resource:x://known", "s:resource:x://known/{a}"} {
		if i, ok := v.Find(gatewaytest.ID(t, id)); !ok || v.Status(i) != "pending_approval" {
			t.Errorf("%s: found = %v, want found and pending", id, ok)
		}
	}
}
