package unlock_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// An era is one generation of MCP.
type era struct{ modern bool }

var stateless, handshake = era{modern: true}, era{modern: false} // 2026-07-28 and 2025-11-25

// An agent is a client with credentials. It can open pages for its user if the gateway requests it.
type agent struct {
	*agenttest.Client
	t       *testing.T
	era     era
	bearer  string
	session string // id of the session from the handshake
	sent    atomic.Int64
}

// A callResult is an agent's view of the answer to a call.
type callResult struct {
	Raw, Text string
	Ran       bool   // the tool ran
	Link      string // page that the client should open; "": none
	State     string // request state for the retry; "": none
	Lock      struct {
		Status  string
		Request struct{ ID, State string }
		Confirm struct{ Request string }
	}
}

// agent returns an agent with credentials. With the handshake protocol, it has a session.
func (w *world) agent(bearer string) *agent {
	w.T.Helper()
	a := &agent{Client: &agenttest.Client{T: w.T, URL: w.URL}, t: w.T, era: w.era, bearer: bearer}
	if w.era.modern {
		return a
	}
	opened := a.post("initialize", map[string]any{
		"protocolVersion": mcp.VersionLegacy, "capabilities": capabilities, "clientInfo": map[string]any{"name": "unlock", "version": "1"},
	})
	if a.session = opened.Header.Get(mcp.HeaderSession); a.session == "" {
		w.T.Fatalf("the handshake opens no session: %d %s", opened.Status, opened.Body)
	}
	return a
}

// capabilities say that the client shows forms and opens pages.
var capabilities = map[string]any{"elicitation": map[string]any{"form": map[string]any{}, "url": map[string]any{}}}

func (a *agent) post(method string, params map[string]any) agenttest.Answer {
	a.t.Helper()
	body, h := a.request(method, params)
	return a.Do(http.MethodPost, "/mcp", body, h)
}

// request returns the body and the headers of a request.
func (a *agent) request(method string, params map[string]any) (body string, h http.Header) {
	a.t.Helper()
	h = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + a.bearer}}
	params = maps.Clone(params)
	switch {
	case a.era.modern:
		params["_meta"] = map[string]any{
			mcp.MetaVersion: mcp.VersionModern, mcp.MetaClientCapabilities: capabilities, mcp.MetaClientInfo: map[string]any{"name": "unlock", "version": "1"},
		}
		h.Set(mcp.HeaderVersion, mcp.VersionModern)
		h.Set(mcp.HeaderMethod, method)
		if name, ok := params["name"].(string); ok {
			h.Set(mcp.HeaderName, name)
		}
	case a.session != "":
		h.Set(mcp.HeaderSession, a.session)
		h.Set(mcp.HeaderVersion, mcp.VersionLegacy)
	}

	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": a.sent.Add(1), "method": method, "params": params})
	require.OK(a.t, err)
	return string(data), h
}

// call calls a tool of a server. args is sent without changes.
func (a *agent) call(name, args string) callResult { a.t.Helper(); return a.retry(name, args, "") }

// tries calls a tool of a server, and ignores errors, because the gateway may be killed.
func (a *agent) tries(name, args string) {
	a.t.Helper()
	body, h := a.request("tools/call", destructive(name, args))
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.URL+"/mcp", strings.NewReader(body))
	require.OK(a.t, err)
	r.Header = h
	if answer, err := http.DefaultTransport.RoundTrip(r); err == nil {
		_ = answer.Body.Close()
	}
}

// destructive returns the parameters of a call of a server's tool.
func destructive(name, args string) map[string]any {
	return map[string]any{"name": "call_tool_destructive", "arguments": json.RawMessage(fmt.Sprintf(`{"name":%q,"args":%s}`, name, args))}
}

// retry calls a tool with the request state of an earlier answer.
func (a *agent) retry(name, args, state string) callResult {
	a.t.Helper()
	params := destructive(name, args)
	if state != "" {
		params["requestState"], params["inputResponses"] = state, json.RawMessage(`{"unlock":{"action":"accept"}}`)
	}
	return a.read(a.post("tools/call", params))
}

// wants requests a tool with request_access, and returns the state and the id of the request.
func (a *agent) wants(name, note string) (state, id string) {
	a.t.Helper()
	got := a.read(a.post("tools/call", map[string]any{"name": "request_access", "arguments": map[string]any{"names": []string{name}, "note": note}}))
	if !got.Ran {
		return got.Text, ""
	}
	out := require.JSON[struct {
		Requests []struct{ State, Request string }
	}](a.t, got.Text)
	if len(out.Requests) != 1 {
		return "not found", ""
	}
	return out.Requests[0].State, out.Requests[0].Request
}

// read reads the answer to a call, of either protocol.
func (a *agent) read(got agenttest.Answer) (out callResult) {
	a.t.Helper()
	m := require.JSON[struct {
		Result struct {
			Content       []struct{ Text string }
			IsError       bool
			ResultType    string
			RequestState  string
			InputRequests map[string]struct {
				Params struct{ URL, Message, Mode string }
			}
			Meta map[string]json.RawMessage `json:"_meta"`
		}
		Error *struct {
			Code    int
			Message string
			Data    struct{ Elicitations []struct{ URL string } }
		}
	}](a.t, lastOf(got.Body))
	out.Raw = got.Body
	switch e := m.Error; {
	case e != nil:
		out.Text = e.Message
		if e.Code == mcp.CodeURLElicitation && len(e.Data.Elicitations) == 1 {
			out.Link = e.Data.Elicitations[0].URL
		}
		return out
	case m.Result.ResultType == "input_required":
		asked := m.Result.InputRequests["unlock"].Params
		out.Text, out.Link, out.State = asked.Message, asked.URL, m.Result.RequestState
		return out
	case len(m.Result.Content) != 1:
		a.t.Fatalf("%d %s is no answer to a call", got.Status, got.Body)
	}
	out.Text, out.Ran = m.Result.Content[0].Text, !m.Result.IsError
	if raw := m.Result.Meta["dev.portcullis/lock"]; raw != nil {
		require.OK(a.t, json.Unmarshal(raw, &out.Lock))
	}
	return out
}

// lastOf returns the last message of an answer, which may be a stream of events.
func lastOf(body string) string {
	last := body
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			last = data
		}
	}
	return last
}

// wantAsked checks that the gateway requests the client to open a page, in the form of its
// protocol.
func (a *agent) wantAsked(got callResult) {
	a.t.Helper()
	if !strings.HasPrefix(got.Link, a.URL+"/admin/ask/") || (got.State != "") != a.era.modern || !strings.Contains(got.Text, "pending_approval") {
		a.t.Fatalf("the answer does not request to open a page: %s", got.Raw)
	}
}

// wantSaid checks that the tool did not run, and that the agent's text contains the texts.
func (a *agent) wantSaid(got callResult, texts ...string) {
	a.t.Helper()
	if got.Ran {
		a.t.Fatalf("the call ran: %s", got.Raw)
	}
	for _, text := range texts {
		if !strings.Contains(got.Text, text) {
			a.t.Errorf("the agent reads %q without %q", got.Text, text)
		}
	}
}

// wantRan checks that the tool ran.
func (a *agent) wantRan(got callResult) {
	a.t.Helper()
	if !got.Ran {
		a.t.Fatalf("the call did not run: %s", got.Raw)
	}
}
