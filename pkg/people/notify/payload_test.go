package notify_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify/notifytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func tools(names ...string) (ids []tool.ID) {
	for _, name := range names {
		ids = append(ids, tool.ID{Server: "git", Name: name})
	}
	return ids
}

// samples returns every kind of event, with all fields that it can have.
func samples() []notify.Event {
	var many []string
	for n := range 40 {
		many = append(many, fmt.Sprintf("tool_%d", n))
	}
	asked := notify.Event{ID: "1", Kind: notify.RequestMade, Server: "git", Items: tools("git_push"), Agent: "ci", Request: "R-7KQ2M4XD", Path: "/admin/requests/R-7KQ2M4XD", Tier: "write", Findings: 2}
	call := asked
	call.OneCall, call.By, call.Findings = true, "kim", 0
	all := []notify.Event{
		{Kind: notify.Changed, Server: "git", Items: tools("git_push", "git_commit"), Path: "/admin/servers/git", Tier: "destructive", Findings: 1},
		{Kind: notify.New, Server: "git", Items: tools(many...), Path: "/admin/servers/git"},
		asked, call,
		{Kind: notify.RequestMade, Waiting: 37, Path: "/admin/requests"},
	}
	for _, verdict := range []string{"approved", "allowed", "confirmed", "declined", "revoked", "unheard of"} {
		all = append(all, notify.Event{Kind: notify.Decided, Server: "git", Items: tools("git_push"), Agent: "ci", Request: "R-7KQ2M4XD", Verdict: verdict, By: "kim", Path: "/admin/requests/R-7KQ2M4XD"})
	}
	return append(all,
		notify.Event{Kind: notify.Decided, Items: tools("git_push"), Agent: "ci", Request: "R-7KQ2M4XD", Verdict: "approved", By: "kim", Waiting: 3, Also: []string{"R-9DPM2B4J", "R-<@U1>3K"}, Path: "/admin/requests/R-7KQ2M4XD"},
		notify.Event{Kind: notify.ServerDown, Server: "git", Status: outcome.Transient, Reason: outcome.ReasonTimeout, Path: "/admin/servers/git"},
		notify.Event{Kind: notify.ConfigRefused, File: "config/mcp_config.json", Faults: 3, Stays: true, Path: "/admin/health"},
		notify.Event{Kind: notify.SignInEnded, Server: "git", Status: outcome.Denied, Reason: outcome.ReasonCredentialExpired, Path: "/admin/servers/git"},
		notify.Event{Kind: notify.ConfigRefused, File: "config/policy.cedar", Faults: 1, Path: "/admin/health"},
	)
}

// hostile returns an event with malicious text in every field.
func hostile() notify.Event {
	const bad = "<!channel> <https://evil.example|Approve> `*x*` & \"'</b>\n\u202e<@U123> @here"
	return notify.Event{
		Kind: notify.Decided, Server: bad, Agent: bad, By: bad, Request: bad, Verdict: bad, Path: "/admin|<https://evil.example>", Reason: bad, File: bad, Status: bad,
		Items: []tool.ID{{Server: bad, Name: bad}, {Server: "docs", Name: "https://evil.example/" + strings.Repeat("a", 3000), Kind: tool.Resource}},
	}
}

// pretty formats messages so that people can compare them.
func pretty(t *testing.T, all []message) string {
	t.Helper()
	var out bytes.Buffer
	for _, m := range all {
		require.OK(t, json.Indent(&out, []byte(m.body), "", "  "))
		out.WriteString("\n")
	}
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(out.String())
}

// The messages are as in the golden file, and malicious texts do not become markup.
func TestPayloads(t *testing.T) {
	room, hook := newStub(t), newStub(t)
	o := newOffice(t, slack(room.URL), webhook(hook.URL))
	for i, e := range append(samples(), hostile()) {
		e.ID = fmt.Sprint(i)
		o.put(t, e)
		o.Pass(1000)
	}
	if sent := o.send(t); sent.Left > 0 || sent.GivenUp > 0 {
		t.Errorf("%+v; log: %s", sent, o.log)
	}
	golden.Check(t, "testdata/slack.golden", pretty(t, room.messages()))
	golden.Check(t, "testdata/webhook.golden", pretty(t, hook.messages()))
	for _, m := range room.messages() {
		var got struct {
			Text   string
			Blocks []struct {
				Type     string
				Text     struct{ Text string }
				Elements []struct {
					Type, URL, Value string
					ActionID         string `json:"action_id"`
				}
			}
		}
		require.OK(t, json.Unmarshal([]byte(m.body), &got))
		if strings.ContainsAny(got.Text, "<>\n\u202e") || strings.Count(got.Text, "`")%2 != 0 || len(got.Text) > 2900 || got.Text != got.Blocks[0].Text.Text {
			t.Errorf("the text for Slack has markup: %q", got.Text)
		}
		for _, e := range got.Blocks[1].Elements {
			if e.Type != "button" || !strings.HasPrefix(e.URL, "https://gate.example.com/admin") || strings.Contains(e.URL, "evil") || e.Value+e.ActionID != "" {
				t.Errorf("a button without a link to the gateway: %+v", e)
			}
		}
	}
}

// Another implementation verifies the signature, and refuses it for another body.
func TestWebhookSignature(t *testing.T) {
	hook := newStub(t)
	o := newOffice(t, webhook(hook.URL))
	o.put(t, samples()[2])
	o.send(t)
	m := hook.messages()[0]
	verifier, err := standard.NewWebhook(signing)
	require.OK(t, err)
	require.OK(t, verifier.VerifyIgnoringTimestamp([]byte(m.body), m.header))
	if verifier.VerifyIgnoringTimestamp([]byte(m.body+" "), m.header) == nil {
		t.Error("the signature is valid for another body")
	}
	for name, want := range map[string]string{"Webhook-Timestamp": fmt.Sprint(notifytest.Start.Unix()), "Content-Type": "application/json", "User-Agent": "portcullis/test"} {
		if got := m.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if id := m.header.Get("Webhook-Id"); !strings.HasPrefix(id, "msg_") || strings.Contains(id, ".") {
		t.Errorf("webhook-id %q", id)
	}
	if m.header.Get("Authorization") != "" || m.header.Get("Webhook-Signature") == "" {
		t.Errorf("header %v", m.header)
	}
}

// docs/notify.md quotes the messages exactly.
func TestMessagesOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/notify.md")
	require.OK(t, err)
	room := newStub(t)
	o := newOffice(t, slack(room.URL))
	item := func(server, name string) tool.ID { return tool.ID{Server: server, Name: name} }
	for i, e := range []notify.Event{
		{Kind: notify.RequestMade, Agent: "ci", Items: tools("git_push"), Request: "R-7KQ2M4XD", Tier: "write", Findings: 2},
		{Kind: notify.RequestMade, Agent: "ci", Items: []tool.ID{item("pay", "refund")}, OneCall: true, Request: "R-9DPM2B4J", Tier: "destructive"},
		{Kind: notify.Decided, Verdict: "declined", By: "kim", Agent: "ci", Items: tools("git_push"), Request: "R-7KQ2M4XD"},
		{Kind: notify.Changed, Server: "git", Items: tools("git_push", "git_commit"), Tier: "destructive", Findings: 1},
		{Kind: notify.New, Server: "git", Items: append(tools("tag", "fetch"), tool.ID{Server: "git", Name: "review", Kind: tool.Prompt})},
		{Kind: notify.ServerDown, Server: "git", Status: outcome.Transient, Reason: outcome.ReasonTimeout},
		{Kind: notify.ConfigRefused, File: "config/mcp_config.json", Faults: 3, Stays: true},
	} {
		e.ID = fmt.Sprint(i)
		o.put(t, e)
	}
	o.send(t)
	for _, m := range room.messages() {
		var got struct {
			Text   string
			Blocks []struct {
				Elements []struct{ Text struct{ Text string } }
			}
		}
		require.OK(t, json.Unmarshal([]byte(m.body), &got))
		if row := "| " + got.Text + " | " + got.Blocks[1].Elements[0].Text.Text + " |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/notify.md does not have %q", row)
		}
	}
}
