package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// If a client cannot get the task that a server has begun, the gateway cancels the task.
func TestUnwantedTask(t *testing.T) {
	const (
		undeclared = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/ui":{}}}`
		array      = `{"extensions":{"io.modelcontextprotocol/tasks":[]}}`
		unwanted   = "has not declared that it can wait"
		odd        = "does not know the form"
	)
	as := func(status, id string) string {
		return `{"resultType":"task","status":"` + status + `","taskId":` + id + `}`
	}
	long := strings.Repeat("a", 1025)
	for name, tt := range map[string]struct {
		capabilities, begins string
		isLegacy, isKeyless  bool
		cancelled            string // the id; "": not possible
		text                 string
	}{
		"not declared":       {undeclared, begun, false, false, "own id", unwanted},
		"an array":           {array, begun, false, false, "own id", unwanted},
		"handshake protocol": {declares, begun, true, false, "own id", unwanted},
		"no key":             {declares, begun, false, true, "own id", unwanted},
		"no id":              {declares, as("working", `""`), false, false, "", odd},
		"a number as id":     {declares, as("working", `7`), false, false, "", odd},
		"an unknown status":  {declares, as("on", `"a"`), false, false, "a", odd},
		"a long id": {
			declares, as("working", `"`+long+`"`), false, false, long, "its id is too long",
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTasker(t)
			k.begins, k.Modern = tt.begins, !tt.isLegacy
			if tt.isKeyless {
				k.reseal(nil)
			}
			effect := "The gateway asked the server to cancel the task."
			if tt.cancelled == "" {
				effect = "The gateway could not cancel the task, so it may still run."
			}
			raw, err := k.call(tt.capabilities)
			k.fails(tt.text)(raw, err)
			k.fails(effect+" The call may have had side effects.")(raw, err)
			cancels := k.sent[1:]
			if len(cancels) > 1 || (len(cancels) == 1) != (tt.cancelled != "") {
				t.Fatalf("sent %+v", k.sent)
			}
			for _, c := range cancels {
				declared := c.Meta.Get(mcp.MetaClientCapabilities)
				if c.Method != mcp.MethodCancelTask || c.Name != tt.cancelled || !c.Tasks ||
					!mcp.HasExtension(declared, mcp.ExtensionTasks) {
					t.Errorf("sent %+v", c)
				}
			}
		})
	}
}

// A server that requires tasks refuses a client without the extension, and so does the gateway.
func TestRequiredTask(t *testing.T) {
	const undeclared = "your client has not declared the extension io.modelcontextprotocol/tasks"
	missing := mcp.LacksExtension(mcp.ExtensionTasks, "no tasks, no call")
	refuse := func(context.Context, upstream.Target, upstream.Call) (json.RawMessage, error) {
		return nil, &outcome.RPCError{
			Code: mcp.CodeMissingCapability, Message: missing.Message, Data: missing.Data,
		}
	}
	for name, tt := range map[string]struct {
		capabilities        string
		isLegacy, isKeyless bool
		isError             bool // a JSON-RPC error, and not a result
		text                string
	}{
		"not declared":       {`{}`, false, false, true, undeclared},
		"handshake protocol": {`{}`, true, false, false, undeclared},
		"no key":             {declares, false, true, false, "must set PORTCULLIS_SEAL_KEY"},
		"declared":           {declares, false, false, true, "no tasks, no call"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTasker(t)
			k.up.call, k.Modern = refuse, !tt.isLegacy
			if tt.isKeyless {
				k.reseal(nil)
			}
			raw, err := k.call(tt.capabilities)
			k.fails(tt.text)(raw, err)
			e, ok := errors.AsType[*mcp.Error](err)
			if ok != tt.isError {
				t.Fatalf("got %s, %v; want an error: %t", raw, err, tt.isError)
			}
			if ok && (e.Code != missing.Code || string(e.Data) != string(missing.Data)) {
				t.Errorf("got %d %s", e.Code, e.Data)
			}
		})
	}
}

// Each answer of a server that the gateway cannot pass on has its own refusal.
func TestTaskAnswers(t *testing.T) {
	const (
		asks = `{"taskId":"own id","status":"input_required",` +
			`"inputRequests":{"q":{"method":"sampling/createMessage"}}}`
		gone = "does not know this task any more"
		odd  = "in a form that this gateway does not know"
	)
	rpc := func(code int64) error {
		return &outcome.RPCError{Code: code, Message: "broken", Data: json.RawMessage(`"data"`)}
	}
	late := &outcome.CallError{Delivered: true, Outcome: outcome.Outcome{
		Status: outcome.Transient, Reason: outcome.ReasonTimeout,
	}}
	away := &outcome.CallError{Outcome: outcome.Outcome{
		Status: outcome.Permanent, Reason: outcome.ReasonRefused,
	}}
	as := func(status, more string) string {
		return `{"taskId":"own id","status":"` + status + `"` + more + `}`
	}
	for name, tt := range map[string]struct {
		answer string
		err    error
		code   int
		text   string
	}{
		"not known":      {"", rpc(mcp.CodeInvalidParams), mcp.CodeInvalidParams, gone},
		"no such method": {"", rpc(mcp.CodeMethodNotFound), mcp.CodeInvalidParams, gone},
		"its own error":  {"", rpc(-32603), -32603, "broken"},
		"no answer": {
			"", late, mcp.CodeUpstream, "No answer. The request about the task was sent. " +
				"Send it again later. Do not call the tool again",
		},
		"not reached": {
			"", away, mcp.CodeUpstream, "The request about the task was not carried out. " +
				"Send it again later.",
		},
		"no task":               {`{}`, nil, mcp.CodeUpstream, odd},
		"no result":             {as("completed", ``), nil, mcp.CodeUpstream, odd},
		"a text as result":      {as("completed", `,"result":"x"`), nil, mcp.CodeUpstream, odd},
		"no error":              {as("failed", `,"error":null`), nil, mcp.CodeUpstream, odd},
		"no questions":          {as("input_required", ``), nil, mcp.CodeUpstream, odd},
		"an undeclared ability": {asks, nil, mcp.CodeMissingCapability, "sampling"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTasker(t)
			k.answer, k.err = tt.answer, tt.err
			k.answers(k.handle(), tt.code, tt.text)
			if k.Event.Routine {
				t.Error("the audit has no line")
			}
		})
	}
	k := newTasker(t)
	handle := k.handle()
	k.answer = asks
	k.load(map[string]string{"s": `"elicitation":"off"`})
	k.answers(handle, mcp.CodeUpstream, "operator does not allow")
	k.refuses(mcp.MethodUpdateTask, handle, mcp.CodeUpstream, "does not allow answers")
}

// answers checks that tasks/get returns an error with a code and a text, and not the server's id.
func (k *tasker) answers(handle string, code int, text string) {
	k.T.Helper()
	raw, err := k.about(mcp.MethodGetTask, handle, "")
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.Code != code || !strings.Contains(e.Message, text) ||
		strings.Contains(e.Message+string(e.Data), "own id") {
		k.T.Errorf("got %s, %v; want %d %s", raw, err, code, text)
	}
}

// Requests about tasks need the extension, their members, and a gateway that passes tasks on.
func TestTaskRequestsAreChecked(t *testing.T) {
	k := newTasker(t)
	handle := k.handle()
	able := mcp.Client{Capabilities: json.RawMessage(declares)}
	unable := mcp.Client{Capabilities: json.RawMessage(`{"tasks":{}}`)}
	send := func(method, more string, c mcp.Client) *mcp.Error {
		t.Helper()
		r, refused := mcp.Parse(fmt.Appendf(nil,
			`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"taskId":%q%s}}`, method, handle, more))
		if refused != nil {
			t.Fatal(refused)
		}
		raw, err := k.Open().AnswerTask(t.Context(), r, c)
		e, ok := errors.AsType[*mcp.Error](err)
		if !ok {
			t.Fatalf("%s%s: %s, %v", method, more, raw, err)
		}
		return e
	}
	k.sent = nil
	for _, method := range taskMethods {
		e := send(method, "", unable)
		want := `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		if e.Code != mcp.CodeMissingCapability || string(e.Data) != want {
			t.Errorf("%s without the extension: %d %s", method, e.Code, e.Data)
		}
	}
	for _, more := range []string{``, `,"inputResponses":[]`, `,"inputResponses":null`} {
		e := send(mcp.MethodUpdateTask, more, able)
		if e.Code != mcp.CodeInvalidParams || !strings.Contains(e.Message, "inputResponses") {
			t.Errorf("%s: %v", more, e)
		}
	}
	k.Modern = false
	if e := send(mcp.MethodGetTask, "", able); e.Code != mcp.CodeMethodNotFound {
		t.Errorf("in the handshake protocol: %v", e)
	}
	k.Modern = true
	k.reseal(nil)
	if e := send(mcp.MethodGetTask, "", able); e.Code != mcp.CodeMethodNotFound {
		t.Errorf("without a key: %v", e)
	}
	if k.Open().Offers().Tasks || len(k.sent) > 0 {
		t.Errorf("sent %+v", k.sent)
	}
}

// If the config requires audit lines and the audit cannot be written, no request about a task
// reaches a server.
func TestTaskRequestsAreAudited(t *testing.T) {
	k := newTasker(t)
	handle := k.handle()
	k.Options.Audit = notReady{}
	k.load(nil, `"audit":{"required":true}`)
	k.Restart()
	k.States.Refresh(t.Context())
	for _, method := range taskMethods {
		k.refuses(method, handle, mcp.CodeUpstream, "it cannot be written at the moment")
	}
}

// A notReady is an audit that cannot be written.
type notReady struct{}

func (notReady) Ready(context.Context) error { return errors.New("disk full") }

// No text that a client sends as a task reaches a server, unless it is the handle. The fuzzer
// replaces the part of the handle between two positions.
func FuzzTaskHandle(f *testing.F) {
	k := newTasker(f)
	handle := k.handle()
	f.Add(uint(0), uint(0), "")
	f.Add(uint(0), uint(5000), "own id")
	f.Add(uint(20), uint(21), "A")
	f.Add(uint(5000), uint(5000), "=\n")
	f.Add(uint(0), uint(5000), `{"b":"","t":"s:act","k":"own id"}`)
	client := mcp.Client{Capabilities: json.RawMessage(declares)}
	f.Fuzz(func(t *testing.T, from, to uint, with string) {
		k.T, k.sent = t, nil
		to = min(to, uint(len(handle)))
		text := handle[:min(from, to)] + with + handle[to:]
		r := mcp.Request{Method: mcp.MethodCancelTask, Params: true, Task: text}
		_, err := k.Open().AnswerTask(t.Context(), r, client)
		if isHandle := text == handle; (err == nil) != isHandle || (len(k.sent) == 1) != isHandle {
			t.Errorf("%q: %v, sent %+v", text, err, k.sent)
		}
	})
}

// No answer of a server makes the gateway pass on a task that it cannot read, or the server's id of
// a task.
func FuzzTaskAnswer(f *testing.F) {
	k := newTasker(f)
	handle := k.handle()
	for _, seed := range []string{
		begun, `{}`, `[]`,
		`{"status":"completed","taskId":"own id","result":{"a":1},"result":{"b":2}}`,
		`{"status":"working","status":"failed","taskId":"own id","error":{}}`,
		`{"taskId":"own id","taskId":7,"status":"working"}`,
		`{"status":"input_required","taskId":"own id","inputRequests":{"q":{"method":"x"}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		if !json.Valid(answer) || strings.Contains(string(answer), "_meta") {
			return // the client of servers refuses invalid JSON
		}
		k.T, k.answer, k.begins = t, string(answer), string(answer)
		raw, err := k.about(mcp.MethodGetTask, handle, "")
		if err == nil {
			o := require.JSON[map[string]json.RawMessage](t, string(raw))
			hasHandle := string(o["taskId"]) == fmt.Sprintf("%q", handle)
			if !hasHandle || o["status"] == nil || len(o) > 9 {
				t.Errorf("%s became %s", answer, raw)
			}
		}
		raw, err = k.call(declares)
		isTask := err == nil && strings.Contains(string(raw), `"resultType":"task"`)
		if isTask && strings.Contains(string(raw), `"own id"`) {
			t.Errorf("the answer to a call %s became %s", answer, raw)
		}
	})
}
