package upstream

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// declaring is the _meta of a client with the extension.
const declaring = `{"io.modelcontextprotocol/clientCapabilities":` +
	`{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// task sends a request about a task to the first server.
func (f *fixture) task(method, id, rest string) (string, error) {
	return f.call(Call{
		Method: method, Name: id, Rest: split(rest), Meta: split(declaring), Tasks: true,
	})
}

// A server that checks its requests strictly continues a call as a task and answers requests about
// the task.
func TestTaskRequests(t *testing.T) {
	f := newFixture(t, Options{}, new(upstreamtest.Tasks).Options())
	begun, err := f.task("", "confirm_delete", `{}`)
	require.OK(t, err)
	id := rawjson.Text(rawjson.Get([]byte(begun), "taskId"))
	const done = `{"content":[{"type":"text","text":"deleted"}],"isError":false}`
	for _, step := range []struct{ method, rest, want string }{
		{mcp.MethodGetTask, `{}`, `"status":"input_required","inputRequests":{"confirm":`},
		{mcp.MethodUpdateTask, `{"inputResponses":{"confirm":{}}}`, `{"resultType":"complete"}`},
		{mcp.MethodGetTask, `{}`, `"status":"completed","result":` + done},
		{mcp.MethodCancelTask, `{}`, `{"resultType":"complete"}`},
	} {
		got, err := f.task(step.method, id, step.rest)
		if err != nil || !strings.Contains(got, step.want) {
			t.Errorf("%s: %s, %v; want %s", step.method, got, err, step.want)
		}
	}
	_, err = f.call(Call{Name: "failing_job", Meta: split(declaring)}) // accepts no task
	rpc, ok := errors.AsType[*outcome.RPCError](err)
	if !ok || rpc.Code != mcp.CodeMissingCapability {
		t.Errorf("a call whose caller accepts no task: %v, want %d", err, mcp.CodeMissingCapability)
	}
}

// The handshake protocol has other requests of these names, so its servers never get them.
func TestTaskRequestsToHandshakeServers(t *testing.T) {
	o := upstreamtest.Options{Protocols: upstreamtest.Legacy, Tools: tools(1)}
	f := newFixture(t, Options{}, o)
	f.works()
	for _, method := range []string{mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask} {
		_, err := f.task(method, "id", `{}`)
		rpc, ok := errors.AsType[*outcome.RPCError](err)
		if !ok || rpc.Code != mcp.CodeInvalidParams {
			t.Errorf("%s: %v, want %d", method, err, mcp.CodeInvalidParams)
		}
		if sent := f.servers[0].Received(method); len(sent) > 0 {
			t.Errorf("the server received %s", method)
		}
	}
}

// The error of a failed task is redacted like the error of a call, in which also short texts of the
// config count.
func TestFailedTaskIsRedacted(t *testing.T) {
	failed := func(upstreamtest.Request) (json.RawMessage, error) {
		return json.RawMessage(`{"taskId":"a","status":"failed",` +
			`"error":{"code":-32603,"message":"bad key: k3y5s","data":["k3y5s"]}}`), nil
	}
	o := upstreamtest.Options{Protocols: upstreamtest.Modern}
	o.Methods = map[string]func(upstreamtest.Request) (json.RawMessage, error){
		mcp.MethodGetTask: failed,
	}
	f := newFixture(t, Options{}, o)
	f.targets[0].Headers = map[string]string{"X-Key": "k3y5s"}
	got, err := f.task(mcp.MethodGetTask, "a", `{}`)
	require.OK(t, err)
	const want = `"error":{"code":-32603,"message":"bad key: [secret]","data":["[secret]"]}`
	if !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
