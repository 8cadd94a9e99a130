package functions_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/testclients"
)

// An agent of this test signs its requests with AWS credentials.
type agent string

const (
	ann agent = "arn:aws:sts::123456789012:assumed-role/agents/ann"
	bob agent = "arn:aws:sts::123456789012:assumed-role/agents/bob"
)

// toggle toggles a switch that the reference server stores for each session, and reports whether
// the switch is now on.
func (a agent) toggle(t *testing.T, f *lambdatest.Function, what string) bool {
	t.Helper()
	f.Authorizer = map[string]any{"iam": map[string]any{"userArn": string(a)}}
	r := f.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool_write","arguments":{"name":"everything:toggle-`+what+`","args":{}}}}`,
		"Authorization: AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host, Signature=y")
	started, stopped := strings.Contains(r.Body, "Started simulated"), strings.Contains(r.Body, "Stopped simulated")
	if r.Status != http.StatusOK || started == stopped {
		t.Fatalf("toggle-%s answers %d %s", what, r.Status, r.Body)
	}
	return started
}

// Two agents use a server that stores state for each session, through two instances of the
// function. Each agent sees its own state on both instances, and never the state of the other
// agent.
func (g suite) agentsKeepApart(t *testing.T) {
	url := testclients.ServerEverything(t)
	w := g.fixture(t)
	w.Configure(`{"mcpServers":{"everything":{"url":"` + url + `"}}}`)
	w.Sync(t)
	iam := []string{"PORTCULLIS_AUTH", "iam", "PORTCULLIS_BOOTSTRAP_SHA256", "", "PORTCULLIS_IAM_SERVERS", "*", "PORTCULLIS_IAM_TIERS", "read,write"}
	first, second := w.Start(t, "mcp", iam...), w.Start(t, "mcp", iam...)
	const logging, updates = "simulated-logging", "subscriber-updates"
	for i, step := range []struct {
		who  agent
		on   *lambdatest.Function
		what string
		want bool
	}{
		{ann, first, logging, true},
		{bob, first, logging, true}, // false if Bob had Ann's session
		{bob, second, updates, true},
		{ann, first, logging, false}, // Ann turned it on before
		{ann, first, updates, true},  // false if Ann had Bob's session
		{ann, second, updates, false},
		{ann, second, logging, true},
		{bob, second, logging, false},
		{bob, first, updates, false},
		{ann, first, logging, false},
	} {
		if got := step.who.toggle(t, step.on, step.what); got != step.want {
			t.Errorf("step %d: %s of %s is on: %t, want %t", i, step.what, step.who, got, step.want)
		}
	}
	w.proxy.Calls()
	for range 10 {
		ann.toggle(t, first, logging)
		bob.toggle(t, second, logging)
	}
	calls := w.proxy.Calls()
	if got := calls["dynamodb BatchGetItem"]; got != 20 {
		t.Errorf("20 calls on open sessions make %d reads of approval and stops, want one for each call", got)
	}
	if got := calls["dynamodb PutItem"] + calls["dynamodb DeleteItem"]; got != 0 {
		t.Errorf("20 calls on open sessions make %d writes, want 0", got)
	}
	for _, f := range []*lambdatest.Function{first, second} {
		if strings.Contains(f.Output(), "sessions are not shared") {
			t.Errorf("the store of sessions failed: %s", f.Output())
		}
	}
}
