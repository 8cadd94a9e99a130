package upstreamtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// Tasks are the tasks of a server of the stateless protocol, for the extension of that name. Its
// tools are the fixtures of the public conformance suite. A task changes only when a request reads
// or changes it, so Tasks starts no goroutine. The zero Tasks is ready to use, once.
type Tasks struct {
	mu  sync.Mutex
	all map[string]*aTask
}

// An aTask is one task.
type aTask struct {
	created time.Time
	takes   time.Duration
	open    []string // the questions without an answer
	end     string   // members of the task at its end: its status, and result or error
	over    bool
}

// Options returns the options of a server with these tasks.
func (ts *Tasks) Options() Options {
	o := Options{
		Protocols: Modern, Extensions: []string{mcp.ExtensionTasks}, Call: ts.call,
		Methods: map[string]func(Request) (json.RawMessage, error){
			mcp.MethodGetTask: ts.get, mcp.MethodUpdateTask: ts.update,
			mcp.MethodCancelTask: ts.cancel,
		},
	}
	for _, name := range []string{
		"greet", "slow_compute", "failing_job", "protocol_error_job", "confirm_delete",
		"multi_input", "test_tool_with_task",
	} {
		definition := Tool(name, "A fixture.", "")
		if name == "failing_job" || name == "test_tool_with_task" {
			definition = rawjson.Set(definition, "execution", []byte(`{"taskSupport":"required"}`))
		}
		o.Tools = append(o.Tools, definition)
	}
	return o
}

// call answers tools/call.
func (ts *Tasks) call(_ context.Context, c Call) (json.RawMessage, error) {
	t, now := begin(c)
	if now != "" {
		return json.RawMessage(now), nil
	}
	capabilities := get(c.Params, "_meta", mcp.MetaClientCapabilities)
	switch declared := mcp.HasExtension(capabilities, mcp.ExtensionTasks); {
	case !declared && c.Name == "slow_compute":
		return json.RawMessage(`{` + content("computed") + `,"resultType":"complete"}`), nil
	case !declared:
		e := mcp.LacksExtension(mcp.ExtensionTasks, "Missing required client capability")
		return nil, &RPCError{Code: e.Code, Message: e.Message, Data: e.Data}
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.all == nil {
		ts.all = map[string]*aTask{}
	}
	id := rand.Text()
	ts.all[id] = t
	return t.describe(id, mcp.ResultTask, `"status":"working"`), nil
}

// begin returns the task of a call, or the answer of a call that needs none.
func begin(c Call) (t *aTask, now string) {
	var args struct {
		Name    string
		Seconds float64
	}
	_ = json.Unmarshal(c.Arguments, &args) // absent members are zero
	t = &aTask{created: time.Now(), takes: time.Duration(args.Seconds * float64(time.Second))}
	switch c.Name {
	case "greet":
		now = `{` + content("Hello, "+args.Name+"!") + `,"resultType":"complete"}`
	case "slow_compute":
		t.end = completed("computed", false)
	case "failing_job":
		t.end = completed("the job failed", true)
	case "protocol_error_job":
		t.end = `"status":"failed","error":{"code":-32603,"message":"the job broke"}`
	case "confirm_delete":
		t.open, t.end = []string{"confirm"}, completed("deleted", false)
	case "multi_input":
		t.open, t.end = []string{"first", "second"}, completed("both came", false)
	case "test_tool_with_task":
		name := rawjson.Text(get(c.Params, "inputResponses", "user_name", "content", "name"))
		t.end = completed("Hello, "+name+"!", false)
		if name == "" {
			now = `{"resultType":"input_required","requestState":"1",` + questions("user_name") + `}`
		}
	}
	return t, now
}

// get returns a value within objects.
func get(v json.RawMessage, path ...string) json.RawMessage {
	for _, name := range path {
		v = rawjson.Get(v, name)
	}
	return v
}

func content(text string) string {
	return `"content":[{"type":"text","text":` + string(rawjson.Quote(text)) + `}]`
}

func completed(text string, isError bool) string {
	return fmt.Sprintf(`"status":"completed","result":{%s,"isError":%t}`, content(text), isError)
}

// questions returns the member with questions, by name.
func questions(names ...string) string {
	var o rawjson.Object
	for _, name := range names {
		o.Add(name, fmt.Appendf(nil, `{"method":"elicitation/create","params":{"mode":"form",`+
			`"message":"Give %s.","requestedSchema":{"type":"object","properties":{}}}}`, name))
	}
	return `"inputRequests":` + string(o.Bytes())
}

// isOver reports whether the task has ended. The caller holds the lock.
func (t *aTask) isOver() bool {
	t.over = t.over || len(t.open) == 0 && time.Since(t.created) >= t.takes
	return t.over
}

func (t *aTask) describe(id, kind, more string) json.RawMessage {
	at := t.created.UTC().Format(time.RFC3339)
	return fmt.Appendf(nil, `{"resultType":%q,"taskId":%q,"createdAt":%q,"lastUpdatedAt":%q,`+
		`"ttlMs":600000,"pollIntervalMs":50,%s}`, kind, id, at, at, more)
}

// find returns the task of a request. The caller holds the lock.
func (ts *Tasks) find(r Request) (string, *aTask, error) {
	id := rawjson.Text(r.params.Get("taskId"))
	t := ts.all[id]
	if !mcp.HasExtension(r.meta.Get(mcp.MetaClientCapabilities), mcp.ExtensionTasks) {
		return "", nil, &RPCError{Code: mcp.CodeMissingCapability, Message: "undeclared"}
	}
	if t == nil {
		return "", nil, &RPCError{Code: mcp.CodeInvalidParams, Message: "no task " + id}
	}
	return id, t, nil
}

// get answers tasks/get.
func (ts *Tasks) get(r Request) (json.RawMessage, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	id, t, err := ts.find(r)
	switch {
	case err != nil:
		return nil, err
	case t.isOver():
		return t.describe(id, mcp.ResultComplete, t.end), nil
	case len(t.open) > 0:
		more := `"status":"input_required",` + questions(t.open...)
		return t.describe(id, mcp.ResultComplete, more), nil
	}
	return t.describe(id, mcp.ResultComplete, `"status":"working"`), nil
}

// update answers tasks/update.
func (ts *Tasks) update(r Request) (json.RawMessage, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	_, t, err := ts.find(r)
	if err == nil {
		answers := r.params.Get("inputResponses")
		t.open = slices.DeleteFunc(t.open, func(name string) bool {
			return rawjson.Get(answers, name) != nil
		})
	}
	return acknowledged, err
}

// cancel answers tasks/cancel.
func (ts *Tasks) cancel(r Request) (json.RawMessage, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	_, t, err := ts.find(r)
	if err == nil && !t.isOver() {
		t.over, t.end = true, `"status":"cancelled"`
	}
	return acknowledged, err
}

var acknowledged = json.RawMessage(`{"resultType":"complete"}`)
