package mcphttp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

var taskMethods = []string{"tasks/get", "tasks/update", "tasks/cancel"}

// Only clients of the stateless protocol have requests about tasks, and the header Mcp-Name repeats
// the task.
func TestTaskMethods(t *testing.T) {
	for _, method := range taskMethods {
		inEachProtocol(t, func(t *testing.T, e protocol) {
			b := &backend{}
			h := newHandler(t, b, nil)
			if !e.isModern() {
				send(h, e.request(t, method, `"taskId":"a"`)).wantError(t, 200, -32601, "7")
				return
			}
			send(h, e.request(t, method, `"taskId":"a"`)).wantResult(t)
			r := e.request(t, method, `"taskId":"a"`)
			r.Header.Set("Mcp-Name", "b")
			send(h, r).wantError(t, 400, -32020, "7")
			r.Header.Del("Mcp-Name")
			send(h, e.request(t, method, `"taskId":7`)).wantError(t, 400, -32602, "7")
			if len(b.params) != 1 {
				t.Errorf("%d requests reached the backend, want 1", len(b.params))
			}
		})
	}
}

// The gateway declares the extension to clients of the stateless protocol, if it offers tasks.
func TestDeclaresTasks(t *testing.T) {
	const declared = `"extensions":{"io.modelcontextprotocol/tasks":{}}`
	for _, offers := range []bool{true, false} {
		b := &backend{offers: gateway.Offers{Tasks: offers}}
		got := send(newHandler(t, b, nil), modern.request(t, "server/discover", ``)).wantResult(t)
		if strings.Contains(got, declared) != offers {
			t.Errorf("offered %t: %s", offers, got)
		}
	}
}

// declaring returns the protocol with a client that has declared the extension.
func (e protocol) declaring() protocol {
	const none, tasks = `clientCapabilities":{}`, `clientCapabilities":{"extensions":{` +
		`"io.modelcontextprotocol/tasks":{}}}`
	e.meta = strings.Replace(e.meta, none, tasks, 1)
	return e
}

// Only the answer to a call can be a task.
func TestTaskResult(t *testing.T) {
	const begun = `{"status":"working","taskId":"a","resultType":"task"}`
	for _, method := range []string{"tools/call", "tasks/get", "tools/list"} {
		inEachProtocol(t, func(t *testing.T, e protocol) {
			if strings.HasPrefix(method, "tasks/") && !e.isModern() {
				return
			}
			h := newHandler(t, &backend{call: answers(begun), tools: begun}, nil)
			r := e.declaring().request(t, method, `"name":"x","taskId":"a"`)
			got := send(h, r).wantResult(t)
			isTask := strings.Contains(got, `"resultType":"task"`)
			if isTask != (method == "tools/call" && e.isModern()) {
				t.Errorf("%s: %s", method, got)
			}
		})
	}
}

// The result of a task is decorated like the result of a call, and has the same limit.
func TestResultOfTask(t *testing.T) {
	const (
		info  = `"io.modelcontextprotocol/serverInfo":{"name":`
		wrong = "The tool answered in a form that this gateway does not know"
		kept  = `"content":[{"n": 1.0}],"resultType":"complete"`
	)
	long := strings.Repeat("x", 3000)
	get := func(result string) reply {
		b := &backend{call: answers(result)}
		if result == "" {
			b.call = func(context.Context, mcp.Request) (json.RawMessage, error) {
				return nil, context.DeadlineExceeded
			}
		}
		h := newHandler(t, b, &mcphttp.Options{MaxResponse: 2500})
		return send(h, modern.request(t, "tasks/get", `"taskId":"a"`))
	}
	for name, tt := range map[string]struct{ result, want string }{
		"kept":     {`{` + kept + `}`, `"result":{` + kept + `,"_meta":{`},
		"server":   {`{"_meta":{` + info + `"own"}}}`, `"_meta":{` + info + `"portcullis"`},
		"question": {`{"resultType":"input_required","inputRequests":{}}`, wrong},
		"task":     {`{"resultType":"task","taskId":"own"}`, wrong},
		"too long": {`{"content":["` + long + `"]}`, "its result is too large to pass on"},
	} {
		t.Run(name, func(t *testing.T) {
			state := `{"status":"completed","result":` + tt.result + `,"taskId":"a"}`
			got := get(state).wantResult(t)
			if !strings.Contains(got, tt.want) || strings.Contains(got, `"own"`) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			outer := `"taskId":"a","resultType":"complete","_meta":{` + info + `"portcullis"`
			if !strings.HasPrefix(got, `{"status":"completed",`) || !strings.Contains(got, outer) {
				t.Errorf("the answer itself: %s", got)
			}
		})
	}
	for result, want := range map[string]string{
		`{"status":"working","statusMessage":"` + long + `"}`: "The task is too large to pass on",
		"": "The request about the task was sent. Send it again later.",
	} {
		e := get(result).rpc(t).Error
		if e == nil || e.Code != mcp.CodeUpstream || !strings.Contains(e.Message, want) {
			t.Errorf("got %+v, want %s", e, want)
		}
	}
}

// The audit has a line for each request about a task, except for polls that find it unfinished.
func TestAuditOfTasks(t *testing.T) {
	var lines ledger
	b := &routine{backend: &backend{}}
	h := newAuthHandler(t, b, authenticator(func() (identity.Agent, error) {
		return identity.Agent{ID: "a", Way: "token"}, nil
	}), &mcphttp.Options{Audit: &lines})
	for _, b.isRoutine = range []bool{true, false} {
		for _, method := range taskMethods {
			send(h, modern.request(t, method, `"taskId":"a secret"`)).wantResult(t)
			got := lines.take()
			if b.isRoutine != (len(got) == 0) {
				t.Fatalf("%s, routine %t: %+v", method, b.isRoutine, got)
			}
			for _, l := range got {
				if l.Method != method || l.Tool != "s:act" || !l.Delivered {
					t.Errorf("%s: %+v", method, l)
				}
			}
		}
	}
}

// A routine is a backend that sets the event of each request.
type routine struct {
	*backend
	isRoutine bool
}

func (b *routine) Open(_ context.Context, c gateway.Caller) (mcphttp.Session, error) {
	c.Event.Routine, c.Event.Tool = b.isRoutine, "s:act"
	return b, nil
}
