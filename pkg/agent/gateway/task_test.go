package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const (
	// declares is what a client declares that accepts tasks and answers forms.
	declares = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`

	// begun is a server's answer to a call that continues as a task. The members of times are valid
	// members of a task; the others belong to other answers.
	begun = `{"resultType":"task","taskId":"own id",` + times +
		`"requestState":"x","result":{},"inputRequests":{}}`
	times = `"status":"working","createdAt":"2026-11-20T12:00:00Z",` +
		`"lastUpdatedAt":"2026-11-20T12:00:00Z","ttlMs":null,"pollIntervalMs":500,`
)

// A tasker is a gateway with one server, s. The server continues the calls of its tool act as a
// task, and answers requests about the task with an answer that a test can set.
type tasker struct {
	*asker
	begins string // the answer to a call
	answer string // to tasks/get
	err    error  // instead of an answer to a request about a task
}

func newTasker(t testing.TB) *tasker {
	k := &tasker{begins: begun, answer: `{"taskId":"own id","status":"working","ttlMs":null}`}
	k.asker = pendingQuestion(t, "", true, k.answerCall)
	k.Event = new(audit.CallEvent)
	return k
}

func (k *tasker) answerCall(
	_ context.Context, _ upstream.Target, c upstream.Call,
) (json.RawMessage, error) {
	switch {
	case c.Method == "":
		return json.RawMessage(k.begins), nil
	case k.err != nil:
		return nil, k.err
	case c.Method == mcp.MethodGetTask:
		return json.RawMessage(k.answer), nil
	}
	return json.RawMessage(`{"resultType":"complete","_meta":{"own":1}}`), nil
}

// reseal starts another gateway, which seals with s.
func (k *tasker) reseal(s *seal.Sealer) {
	k.Options.Sealer = s
	k.Restart()
	k.States.Refresh(k.T.Context())
}

// call calls the tool act.
func (k *tasker) call(capabilities string) (json.RawMessage, error) {
	k.T.Helper()
	more := `,"_meta":{"io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
	client := mcp.Client{Capabilities: json.RawMessage(capabilities)}
	return k.do(k.T.Context(), client, "act", `{"n":1}`, more)
}

// handle begins a task and returns its handle.
func (k *tasker) handle() string {
	k.T.Helper()
	raw, err := k.call(declares)
	require.OK(k.T, err)
	id := rawjson.Text(rawjson.Get(raw, "taskId"))
	if id == "" {
		k.T.Fatalf("got %s, want a task", raw)
	}
	return id
}

// about sends a request about a task.
func (k *tasker) about(method, handle, more string) (json.RawMessage, error) {
	k.T.Helper()
	r, refused := mcp.Parse(fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"taskId":%q%s}}`, method, handle, more))
	if refused != nil {
		k.T.Fatal(refused)
	}
	k.Event = new(audit.CallEvent)
	client := mcp.Client{Capabilities: json.RawMessage(declares)}
	return k.Open().AnswerTask(k.T.Context(), r, client)
}

// sends checks that a request reaches the server, and how.
func (k *tasker) sends(method, handle, more, want string) {
	k.T.Helper()
	k.sent = nil
	raw, err := k.about(method, handle, more)
	if err != nil || string(raw) != want || len(k.sent) != 1 {
		k.T.Fatalf("%s: %s, %v, sent %+v; want %s", method, raw, err, k.sent, want)
	}
	got := k.sent[0]
	if got.Method != method || got.Name != "own id" || !got.Tasks || got.Owner != k.Agent.Owner() {
		k.T.Errorf("%s: sent %+v", method, got)
	}
	if got.Retry != (method != mcp.MethodUpdateTask) {
		k.T.Errorf("%s: may be sent twice: %t", method, got.Retry)
	}
}

// refuses checks that a request is refused with a code and a text and reaches no server.
func (k *tasker) refuses(method, handle string, code int, text string) {
	k.T.Helper()
	k.sent = nil
	more := ""
	if method == mcp.MethodUpdateTask {
		more = `,"inputResponses":{}`
	}
	raw, err := k.about(method, handle, more)
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.Code != code || !strings.Contains(e.Message, text) || len(k.sent) > 0 {
		k.T.Errorf("%s: %s, %v, sent %+v; want %d %s", method, raw, err, k.sent, code, text)
	}
}

// refusesAll checks that each request about a task is refused.
func (k *tasker) refusesAll(handle string, code int, text string) {
	k.T.Helper()
	for _, method := range taskMethods {
		k.refuses(method, handle, code, text)
	}
}

var taskMethods = []string{mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask}

// A client that declares the extension gets a task with a handle, and polls it until its end, also
// in another process. The audit has a line for the call, each answer, and the end.
func TestTask(t *testing.T) {
	k := newTasker(t)
	k.Agent.Subject = "kim"
	raw, err := k.call(declares)
	require.OK(t, err)
	handle := rawjson.Text(rawjson.Get(raw, "taskId"))
	want := fmt.Sprintf(`{%s"taskId":%q,"resultType":"task"}`, times, handle)
	if string(raw) != want || k.sent[0].Owner != k.Agent.Owner() || len(handle) > 512 {
		t.Errorf("got %s, want %s", raw, want)
	}
	line, counted := k.Event.End(time.Now()), k.Event.Counts.Called.Name
	if line.Outcome != audit.Task || line.Decision != audit.Allowed || counted != "s:act" {
		t.Errorf("the line of the call: %+v, counted %q", line, counted)
	}
	k.reseal(sealer(1))
	const (
		result   = `,"result":{"content":[{"n": 1.0}],"isError":false}`
		failure  = `,"error":{"code":-32603,"message":"m"}`
		question = `,"inputRequests":{"q":{"method":"elicitation/create","params":{}}}`
	)
	answered := func(status, want string) {
		t.Helper()
		k.answer = fmt.Sprintf(`{"resultType":"complete","taskId":"own id","status":%q%s}`,
			status, `,"requestState":"x"`+result+failure+question)
		want = fmt.Sprintf(`{"status":%q%s,"taskId":%q}`, status, want, handle)
		k.sends(mcp.MethodGetTask, handle, "", want)
		line, counted := k.Event.End(time.Now()), k.Event.Counts.Called.Name
		if line.Tool != "s:act" || line.Definition == "" || line.Outcome != "available" {
			t.Errorf("%s: %+v", status, line)
		}
		isOver := slices.Contains([]string{"completed", "failed", "cancelled"}, status)
		if k.Event.Routine == isOver || counted != "" {
			t.Errorf("%s: routine %t, counted %q", status, k.Event.Routine, counted)
		}
	}
	answered("working", "")
	answered("input_required", question)

	const answers = `"inputResponses":{"q": {"n":1.0}}`
	k.sends(mcp.MethodUpdateTask, handle, `,"requestState":"x",`+answers, `{}`)
	if got := string(k.sent[0].Rest.Bytes()); got != `{`+answers+`}` {
		t.Errorf("sent %s", got)
	}
	line = k.Event.End(time.Now())
	if line.ArgsSent == "" || line.ArgsSent != line.ArgsAsked || k.Event.Routine {
		t.Errorf("the line of an answer: %+v", line)
	}
	answered("completed", result)
	answered("failed", failure)
	answered("cancelled", "")
	k.sends(mcp.MethodCancelTask, handle, "", `{}`)
}

// A handle is only for the agent and user of the call, and only while the tool exists for them.
func TestTaskOfOthers(t *testing.T) {
	k := newTasker(t)
	handle := k.handle()
	unknown := func(handle string) {
		t.Helper()
		k.refusesAll(handle, mcp.CodeInvalidParams, "Unknown task")
		if k.Event.Decision != audit.Scope {
			t.Errorf("the audit has %+v", k.Event)
		}
	}
	other, err := sealer(1).Seal(t.Context(), seal.State, []byte(`{"t":"s:act"}`))
	require.OK(t, err)
	mangled := []byte(handle)
	mangled[20] ^= 1
	long := strings.Repeat("A", 1<<20)
	for _, forged := range []string{"own id", handle + "A", handle[1:], other, long} {
		unknown(forged)
	}
	unknown(string(mangled))
	k.refusesAll("", mcp.CodeInvalidParams, "params.taskId is required")

	mine := k.Caller
	for _, change := range []func(){
		func() { k.Agent.ID = "eve" },
		func() { k.Agent.Way = "token" },
		func() { k.Agent.Subject = "eve" },
		func() { k.Agent.Servers = []string{"other"} },
		func() { k.Header = http.Header{"X-Mcp-Tools": {"s:look"}} },
	} {
		change()
		unknown(handle)
		k.Caller = mine
	}
	k.Server("s").URL = "https://moved.example.com/mcp"
	k.load(nil)
	unknown(handle)
	k.Server("s").URL = ""
	k.load(nil)

	k.Clock.Set(time.Now().Add(7*24*time.Hour+time.Minute), 0)
	k.refusesAll(handle, mcp.CodeInvalidParams, "has expired")
	k.Clock.Set(time.Time{}, 0)
	k.sends(mcp.MethodCancelTask, handle, "", `{}`)

	k.reseal(sealer(2))
	unknown(handle)
	k.reseal(seal.New(func(context.Context) (seal.Keys, error) {
		return seal.Keys{}, errors.New("no secret")
	}))
	k.refusesAll(handle, mcp.CodeUpstream, "cannot read its key")
}

// If the tool was locked since, or the agent lost its tier, the task can be cancelled but not read.
func TestTaskOfLockedTool(t *testing.T) {
	k := newTasker(t)
	handle := k.handle()
	kept := func(code int, text string) {
		t.Helper()
		k.refuses(mcp.MethodGetTask, handle, code, text)
		k.refuses(mcp.MethodUpdateTask, handle, code, text)
		k.sends(mcp.MethodCancelTask, handle, "", `{}`)
	}
	k.Decide("s:act", "disable")
	kept(mcp.CodeLocked, "disabled_by_user")
	kept(mcp.CodeLocked, "The task may still run: tasks/cancel ends it.")
	k.Decide("s:act", "enable")

	tiers := k.Agent.Tiers
	k.Agent.Tiers = []tool.Tier{tool.Read}
	kept(http.StatusForbidden, "may not call destructive tools")
	k.Agent.Tiers = tiers

	k.load(map[string]string{"s": `"disabled_tools":["act"]`})
	kept(mcp.CodeLocked, "disabled_by_config")
	k.load(nil)

	k.Serve("s", def("act", "Acts, and more.", ""))
	k.Sync()
	kept(mcp.CodeLocked, "pending_approval")
	k.Decide("s:act", "approve")
	k.Sync()
	kept(mcp.CodeLocked, "has changed since the task began")
	k.Serve("s", def("act", "Acts.", ""))
	k.Sync()
	k.Decide("s:act", "approve")
	k.Sync()

	stoptest.Put(t, k.Approvals, stoptest.Server("s"))
	kept(mcp.CodeLocked, "server_disabled")
	stoptest.Put(t, k.Approvals, stoptest.Agent(k.Agent.ID))
	k.refusesAll(handle, http.StatusForbidden, "Nothing was called")
	stoptest.Put(t, k.Approvals)
	k.sends(mcp.MethodCancelTask, handle, "", `{}`)
	k.Approvals.OnGet = func(context.Context, tool.ID) error { return errors.New("store down") }
	k.refusesAll(handle, mcp.CodeLocked, "could not read whether this is approved")
}

// A confirmation covers the task of its call. A task whose call nobody confirmed can only be
// cancelled, if the tool requires confirmations since.
func TestTaskOfConfirmedCall(t *testing.T) {
	u := unlock(t)
	_ = u.human(true)
	k := &tasker{begins: begun, answer: `{"taskId":"own id","status":"cancelled"}`}
	u.Upstream = &scripted{u.Servers, k.answerCall}
	u.Restart()
	c := mcp.Client{Capabilities: json.RawMessage(declares)}
	begin := func() string {
		raw, err := u.as(c, "pay", "")
		require.OK(t, err)
		return rawjson.Text(rawjson.Get(raw, "taskId"))
	}
	about := func(method, handle string) error {
		_, err := u.Open().AnswerTask(t.Context(), mcp.Request{Method: method, Task: handle}, c)
		return err
	}
	if id := begin(); id != "" {
		t.Fatalf("a task without a confirmation: %s", id)
	}
	u.decides(u.asked().List[0].ID, request.Confirmed, 0, "")
	confirmed := begin()
	u.Clock.Wait(2 * request.UseFor)
	require.OK(t, about(mcp.MethodGetTask, confirmed))

	servers := map[string]string{"s": `"approval":"manual"`, "out": ""}
	u.reconfigure(servers, `"gateway":{"requests":true}`)
	other := begin()
	u.reconfigure(servers, `"tools":{"confirm":["s:*"]}`)
	err := about(mcp.MethodGetTask, other)
	if err == nil || !strings.Contains(err.Error(), "nobody confirmed the call of this task") {
		t.Errorf("the task of an earlier call: %v", err)
	}
	require.OK(t, about(mcp.MethodCancelTask, other))
}
