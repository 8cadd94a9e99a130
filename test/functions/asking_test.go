package functions_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// agentsAsk tests an access request and a confirmed call with the roles of the three functions. An
// agent requests through mcp, sync notifies people, people decide through admin, and the agent's
// next call runs. The test also counts the AWS calls.
func (g suite) agentsAsk(t *testing.T) {
	w := g.fixture(t)
	told := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		require.OK(t, err)
		told <- string(body)
	}))
	t.Cleanup(hook.Close)
	w.Parameter("/portcullis/notify/webhook", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	w.Configure(`{"gateway":{"requests":true},"tools":{"confirm":["github:create_issue"]},
		"notify":[{"type":"webhook","url":"` + hook.URL + `/hook","secret":"${ssm:/portcullis/notify/webhook}","events":["request","decided"]}],
		"mcpServers":{"github":{"url":"` + w.github.URL + `","headers":{"Authorization":"Bearer ${ssm:/portcullis/github}"}},"mail":{"url":"` + w.mail.URL + `","approval":"manual"}}}`)
	w.Sync(t)
	mcp, admin, sync := w.Start(t, "mcp"), w.Start(t, "admin"), w.Start(t, "sync")
	send := func(kind, id string) {
		t.Helper()
		a := sync.Invoke([]byte(`{"source":"portcullis.outbox"}`))
		var sent struct{ Told int }
		if err := json.Unmarshal(a.Payload, &sent); err != nil || sent.Told != 1 {
			t.Fatalf("the sync function answers %s (%v)", a.Payload, err)
		}
		if body := <-told; !strings.Contains(body, `"type":"`+kind+`"`) || !strings.Contains(body, id) || strings.Contains(body, "the user wants it") {
			t.Errorf("notice to people: %s", body)
		}
	}

	const mail = `{"name":"mail:send_mail","args":{"to":"ann"}}`
	locked := costOf(w, func() { mcp.Call("call_tool_write", mail) })
	var asked struct {
		Requests []struct{ State, Request string }
	}
	asking := costOf(w, func() {
		mcp.CallJSON("request_access", `{"names":["mail:send_mail"],"note":"the user wants it"}`, &asked)
	})
	if len(asked.Requests) != 1 || asked.Requests[0].State != "open" {
		t.Fatalf("request_access answers %+v", asked)
	}
	id := asked.Requests[0].Request
	send("request", id)
	w.decide(t, admin, id, request.Approved)
	send("decided", id)
	if r := mcp.Call("call_tool_write", mail); r.IsError {
		t.Errorf("after the decision the call answers %+v", r)
	}

	const issue, other, sorted = `{"name":"github:create_issue","args":{"title":"x","n":1}}`, `{"name":"github:create_issue","args":{"title":"y","n":1}}`, `{"name":"github:create_issue","args":{"n":1,"title":"x"}}`
	var r agenttest.Result
	waiting := costOf(w, func() { r = mcp.Call("call_tool_write", issue) })
	id = requestID(t, r.Text)
	send("request", id)
	w.decide(t, admin, id, request.Confirmed)
	send("decided", id)
	if r := mcp.Call("call_tool_write", other); !r.IsError || requestID(t, r.Text) == id {
		t.Errorf("a call with another value answers %+v", r)
	}
	confirmed := costOf(w, func() { r = mcp.Call("call_tool_write", sorted) })
	if r.IsError {
		t.Errorf("the confirmed call, with its members in another order, answers %+v", r)
	}
	if r := mcp.Call("call_tool_write", issue); !r.IsError || requestID(t, r.Text) == id {
		t.Errorf("the second use of the confirmed call answers %+v", r)
	}

	want := map[string]map[string]int{ // the numbers of docs/cost.md
		"a call that is locked":  {"BatchGetItem": 1},
		"request_access":         {"BatchGetItem": 1, "TransactWriteItems": 2, "POST": 1},
		"a call that is to wait": {"BatchGetItem": 1, "TransactWriteItems": 2, "POST": 1},
		"the confirmed call":     {"BatchGetItem": 1, "PutItem": 1},
	}
	got := map[string]map[string]int{"a call that is locked": locked, "request_access": asking, "a call that is to wait": waiting, "the confirmed call": confirmed}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls of AWS (-want +got):\n%s", diff)
	}
	if w.proxy.Checked() == 0 {
		t.Error("no call was checked against a role")
	}
	wantNoReceiver(t, hook.URL, mcp, sync)
}

// wantNoReceiver checks that no log contains a secret of a receiver of notices.
func wantNoReceiver(t *testing.T, url string, functions ...*lambdatest.Function) {
	t.Helper()
	for _, f := range functions {
		if log := f.Output(); strings.Contains(log, url) || strings.Contains(log, "whsec_") {
			t.Errorf("the log contains a secret of a receiver: %s", log)
		}
	}
}

// costOf runs do, and returns how often it called each operation of DynamoDB and Lambda. It omits
// the periodic reads, which callsOfAWS counts.
func costOf(w *fixture, do func()) map[string]int {
	w.proxy.Calls()
	do()
	calls := map[string]int{}
	for name, n := range w.proxy.Calls() {
		if service, operation, _ := strings.Cut(name, " "); service == "dynamodb" && operation != "GetItem" && operation != "Query" || service == "lambda" {
			calls[operation] += n
		}
	}
	return calls
}

// decide reads a request, decides about it, and checks its new state.
func (w *fixture) decide(t *testing.T, admin *lambdatest.Function, id string, v request.Verdict) {
	t.Helper()
	var one struct {
		State, Hash, Args string
		Arguments         json.RawMessage
	}
	admin.Ask(http.StatusOK, "/admin/requests/"+id, nil, &one)
	if one.State != "open" || (v == request.Confirmed) != (one.Arguments != nil) {
		t.Errorf("people see the request as %+v", one)
	}
	admin.Ask(http.StatusOK, "/admin/requests/"+id+"/decide", map[string]any{"verdict": v, "hash": one.Hash, "args": one.Args}, &one)
	if one.State != string(v) {
		t.Errorf("after the decision the request is %+v", one)
	}
}

// requestID returns the last request id in an answer.
func requestID(t *testing.T, answer string) string {
	t.Helper()
	all := regexp.MustCompile(`R-[0-9A-HJKMNP-TV-Z]{8}`).FindAllString(answer, -1)
	if len(all) == 0 {
		t.Fatalf("the answer names no request: %s", answer)
	}
	return all[len(all)-1]
}
