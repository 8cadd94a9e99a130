package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

const note = "stopped by kim: key leaked. An operator undoes it at " + gatewaytest.BaseURL + "/admin/stop"

// An attempt is one way to use a server's items.
type attempt struct {
	name string
	do   func(gw *fixture) (string, error)
}

// attempts are all ways to use the server "open" of everyItem.
var attempts = []attempt{
	{"a tool", func(gw *fixture) (string, error) {
		raw, err := gw.Try(`{"name":"call_tool_read","arguments":{"name":"open:act"}}`)
		return string(raw), err
	}},
	{"a prompt", func(gw *fixture) (string, error) {
		return gw.ask(mcp.MethodGetPrompt, `{"name":"open__ask"}`)
	}},
	{"a resource", func(gw *fixture) (string, error) {
		return gw.ask(mcp.MethodReadResource, `{"uri":"open:///it"}`)
	}},
	{"a resource of a template", func(gw *fixture) (string, error) {
		return gw.ask(mcp.MethodReadResource, `{"uri":"open:///t/1"}`)
	}},
	{"a completion", func(gw *fixture) (string, error) {
		return gw.ask(mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"open__ask"},"argument":{"name":"about","value":"x"}}`)
	}},
	{"read_resource", func(gw *fixture) (string, error) {
		raw, err := gw.Try(`{"name":"read_resource","arguments":{"server":"open","uri":"open:///it"}}`)
		return string(raw), err
	}},
}

// said makes the attempt and returns the answer's text. refused is nil if the answer is a result.
func (a attempt) said(gw *fixture) (text string, refused *mcp.Error) {
	text, err := a.do(gw)
	refused, ok := errors.AsType[*mcp.Error](err)
	if err != nil && !ok {
		gw.T.Fatalf("%s: %v", a.name, err)
	}
	if ok {
		text += refused.Message + string(refused.Data)
	}
	return text, refused
}

// In every process, the gateway refuses the next request for any item of a stopped server, and
// serves it after an undo. A search shows both changes within 2 s.
func TestStoppedServer(t *testing.T) {
	gw := everyItem(t)
	other := &fixture{gatewaytest.New(t)}
	other.Objects, other.Approvals, other.Upstream = gw.Objects, gw.Approvals, gw.Upstream
	other.Clock.Set(gw.Clock.Now(), 0)
	other.Restart()
	for _, g := range []*fixture{gw, other} {
		for _, a := range attempts {
			if text, refused := a.said(g); refused != nil || strings.Contains(text, "locked") {
				t.Fatalf("%s before: %s, %v", a.name, text, refused)
			}
		}
	}
	gw.Sent()
	for _, one := range []stop.Stop{stoptest.Server("open"), stoptest.All()} {
		stoptest.Put(t, gw.Approvals, one)
		for _, g := range []*fixture{gw, other} {
			for _, a := range attempts {
				if text, _ := a.said(g); !strings.Contains(text, "server_disabled") || !strings.Contains(text, note) || !strings.Contains(text, "is disabled") {
					t.Errorf("%s: %s", a.name, text)
				}
			}
		}
		gw.sentNothing()
		stoptest.Put(t, gw.Approvals)
		for _, a := range attempts {
			if text, refused := a.said(other); refused != nil || strings.Contains(text, "locked") {
				t.Errorf("%s after the undo: %s, %v", a.name, text, refused)
			}
		}
		gw.Sent()
	}
}

func TestStoppedServerIsFound(t *testing.T) {
	gw := everyItem(t)
	find := func() (found, string) {
		gw.Clock.Wait(2 * time.Second)
		return gw.search(`{"query":"act","include_disabled":true}`), gw.Call("upstream_servers", `{"operation":"get","name":"open"}`).Text
	}
	before, _ := find()
	stoptest.Put(t, gw.Approvals, stoptest.Server("open"))
	f, server := find()
	_, locked := f.names()
	if locked["open:act"] != "server_disabled" || locked["off:act"] != "server_disabled" || !strings.Contains(f.Remediation["server_disabled"], "disabled or stopped") {
		t.Errorf("locked = %v, remediation = %v", locked, f.Remediation)
	}
	for _, d := range f.Disabled {
		if want := map[string]string{"open:act": note, "off:act": ""}[d.Name]; d.Status == "server_disabled" && (d.Note != want || d.Description != "Act.") {
			t.Errorf("%s: note %q, description %q", d.Name, d.Note, d.Description)
		}
	}
	if !strings.Contains(server, `"enabled":false,"status":"disabled","message":"`+note+`"`) ||
		strings.Count(server, note) != 4 {
		t.Errorf("upstream_servers: %s", server)
	}
	stoptest.Put(t, gw.Approvals)
	if after, _ := find(); after.Raw != before.Raw {
		t.Errorf("after the undo: %s\nbefore the stop: %s", after.Raw, before.Raw)
	}
}

// The gateway refuses an agent as soon as the agent's stop is in the store. It serves other agents.
func TestStoppedAgent(t *testing.T) {
	gw := everyItem(t)
	gw.Agent.ID = "token:ci"
	stoptest.Put(t, gw.Approvals, stoptest.Agent("token:ci"), stoptest.Agent("token:c"), stoptest.Agent("*x"))
	for _, a := range attempts {
		text, refused := a.said(gw)
		if refused == nil || refused.Status != http.StatusForbidden || refused.Code != http.StatusForbidden ||
			!strings.Contains(text, `The agent "token:ci" is `+note) || !strings.Contains(text, "Nothing was called") {
			t.Errorf("%s: %s, %v", a.name, text, refused)
		}
	}
	gw.sentNothing()
	gw.Agent.ID = "token:ci2"
	for _, a := range attempts {
		if text, refused := a.said(gw); refused != nil {
			t.Errorf("another agent, %s: %s", a.name, text)
		}
	}
}

// If the stops cannot be read, nothing is called, and the text says so.
func TestStopsUnread(t *testing.T) {
	gw := everyItem(t, `"gateway": {"mode": "search"}`)
	down := errors.New("arn:aws:dynamodb:table")
	gw.Approvals.OnDocs = func(context.Context, []document.Key) error { return down }
	for _, a := range attempts {
		text, _ := a.said(gw)
		if !strings.Contains(text, "disabled_unknown") || !strings.Contains(text, "Nothing was called") || strings.Contains(text, "arn:") {
			t.Errorf("%s: %s", a.name, text)
		}
	}
	gw.sentNothing()
	if !strings.Contains(gw.Log.String(), "arn:aws:dynamodb:table") {
		t.Error("the log lacks the cause")
	}
}

// The text of the config's stop names no page, because only a change of the file undoes the stop.
func TestStoppedInTheConfig(t *testing.T) {
	gw := everyItem(t, `"stop": {"servers": ["open"], "reason": "moved to another team."}`)
	text, _ := attempts[0].said(gw)
	const want = "stopped in mcp_config.json: moved to another team. The operator undoes it in that file."
	if !strings.Contains(text, want) || strings.Contains(text, "/admin/stop") {
		t.Error(text)
	}
}

// A call reads the tool's approval record once, and the stops once. If no decision can make the
// tool callable, the call reads neither.
func TestCallReads(t *testing.T) {
	gw := everyItem(t)
	var records, stops int
	gw.Approvals.OnGet = func(context.Context, tool.ID) error { records++; return nil }
	gw.Approvals.OnDocs = func(context.Context, []document.Key) error { stops++; return nil }
	for call, want := range map[string]int{
		`{"name":"call_tool_read","arguments":{"name":"open:act"}}`:   1,
		`{"name":"call_tool_read","arguments":{"name":"user:act"}}`:   1,
		`{"name":"call_tool_read","arguments":{"name":"off:act"}}`:    0,
		`{"name":"call_tool_read","arguments":{"name":"denied:act"}}`: 0,
		`{"name":"retrieve_tools","arguments":{"query":"act"}}`:       0,
	} {
		records, stops = 0, 0
		if _, err := gw.Try(call); err != nil {
			t.Fatal(err)
		}
		if records != want || stops != want {
			t.Errorf("%s: %d reads of records, %d of stops; want %d", call, records, stops, want)
		}
	}
}

// slow returns a function that answers a call only when the call is cancelled.
func slow(began *sync.WaitGroup) func(context.Context, upstream.Target, upstream.Call) (json.RawMessage, error) {
	return func(ctx context.Context, t upstream.Target, _ upstream.Call) (json.RawMessage, error) {
		began.Done()
		<-ctx.Done()
		return nil, &outcome.CallError{Delivered: true, Outcome: outcome.Outcome{ServerID: t.ID, Reason: outcome.ReasonAborted}}
	}
}

// If a person stops a server, an agent or everything while its calls run, the gateway cancels these
// calls within about a second. Each answer says that the call may have taken effect.
func TestStoppedWhileCallsRun(t *testing.T) {
	for name, one := range map[string]stop.Stop{"server": stoptest.Server("open"), "agent": stoptest.Agent("token:ci"), "all": stoptest.All()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gw := everyItem(t)
				gw.Agent.ID = "token:ci"
				var began, ended sync.WaitGroup
				gw.Upstream = &scripted{gw.Servers, slow(&began)}
				gw.Restart()
				const calls = 20
				answers := make(chan string, calls)
				for i := range calls {
					began.Add(1)
					a := attempts[i%2]
					ended.Go(func() { text, _ := a.said(gw); answers <- text })
				}
				began.Wait()
				if n := gw.MCP.Running(one.Target); n != calls {
					t.Errorf("%d calls are running, want %d", n, calls)
				}
				if n := gw.MCP.Running(stop.Target{Server: "user"}); n != 0 {
					t.Errorf("%d calls of another server are running, want 0", n)
				}
				stoptest.Put(t, gw.Approvals, stoptest.Server("user"))
				time.Sleep(5 * time.Second)
				if len(answers) != 0 {
					t.Fatalf("a stop of another server cancelled %d calls", len(answers))
				}
				at := time.Now()
				stoptest.Put(t, gw.Approvals, one)
				ended.Wait()
				if took := time.Since(at); took > time.Second {
					t.Errorf("the last call ended after %v", took)
				}
				for range calls {
					if text := <-answers; !strings.Contains(text, "was "+note) || !strings.Contains(text, "may have taken effect") {
						t.Fatalf("answer = %s", text)
					}
				}
				if n := gw.MCP.Running(stop.Target{All: true}); n != 0 {
					t.Errorf("%d calls are running after the end, want 0", n)
				}
			})
		})
	}
}

// If the stops cannot be read, running calls continue. A call that had not reached its server took
// no effect.
func TestCancelledBeforeItWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gw := everyItem(t)
		var fails atomic.Bool
		gw.Approvals.OnDocs = func(context.Context, []document.Key) error {
			if fails.Load() {
				return errors.New("down")
			}
			return nil
		}
		gw.Upstream = &scripted{gw.Servers, func(ctx context.Context, _ upstream.Target, _ upstream.Call) (json.RawMessage, error) {
			fails.Store(true)
			<-ctx.Done()
			return nil, &outcome.CallError{Outcome: outcome.Outcome{Reason: outcome.ReasonAborted}}
		}}
		gw.Restart()
		go func() {
			time.Sleep(10 * time.Second)
			fails.Store(false)
			stoptest.Put(t, gw.Approvals, stoptest.All())
		}()
		at := time.Now()
		text, _ := attempts[0].said(gw)
		if took := time.Since(at); took < 10*time.Second || !strings.Contains(text, "nothing took effect") || strings.Contains(text, "may have") {
			t.Errorf("after %v: %s", took, text)
		}
	})
}
