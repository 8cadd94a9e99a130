package upstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// saidBy returns the messages of a server, a line for each.
func saidBy(c *Client, server string) string {
	var out strings.Builder
	for _, m := range c.Messages(server, 0) {
		fmt.Fprintf(&out, "%s %s %q x%d\n", m.Kind, m.Level, m.Text, m.Times)
	}
	return out.String()
}

// The messages of one server stay within their limits, even if the server sends much more.
func TestMessagesAreBounded(t *testing.T) {
	var m messages
	now := time.Unix(1, 0)
	for i := range 3 * maxMessages {
		m.add("many", now, Message{Kind: messageStderr, Text: fmt.Sprint("line ", i)})
		m.add(
			"large",
			now,
			Message{Kind: messageStderr, Text: fmt.Sprint(i, strings.Repeat("x", 5000))},
		)
		m.add("same", now, Message{Kind: messageStderr, Text: " again\n"})
		m.add("blank", now, Message{Kind: messageStderr, Text: "\x1b\n"})
	}
	if n := len(m.of["many"]); n != maxMessages {
		t.Errorf("%d messages are kept, want %d", n, maxMessages)
	}
	size := 0
	for _, one := range m.of["large"] {
		size += len(one.Text)
	}
	if size > maxMessageBytes || size < maxMessageBytes/2 {
		t.Errorf("the messages have %d bytes, want at most %d", size, maxMessageBytes)
	}
	if all := m.of["same"]; len(all) != 1 || all[0].Times != 3*maxMessages ||
		all[0].Text != "again" {
		t.Errorf("a repeated message is kept as %+v", all)
	}
	if all := m.of["blank"]; len(all) != 0 {
		t.Errorf("an empty message is kept as %+v", all)
	}
	for i := range maxTalkers + 10 {
		m.add(fmt.Sprint("server ", i), now, Message{Kind: messageError, Text: "x"})
	}
	if n := len(m.of); n > maxTalkers {
		t.Errorf("%d servers have messages, want at most %d", n, maxTalkers)
	}
}

// A reader gets each message once, because the numbers of messages increase even if the clock
// stands still.
func TestMessagesAfter(t *testing.T) {
	c := newClient(t, Options{Now: func() time.Time { return time.Unix(1, 0) }})
	last := int64(0)
	for i := range 3 {
		c.note("s", Message{Kind: messageError, Text: fmt.Sprint("error ", i)})
		got := c.Messages("s", last)
		if len(got) != 1 || got[0].Text != fmt.Sprint("error ", i) {
			t.Errorf("after %d: %+v", last, got)
		}
		last = got[len(got)-1].Number
	}
	if got := c.Messages("s", last); got != nil {
		t.Errorf("after the last message: %+v", got)
	}
	if got := c.Messages("other", 0); got != nil {
		t.Errorf("of another server: %+v", got)
	}
}

// Log notifications and errors of a server behind HTTP become messages without its credential.
func TestMessagesOfServer(t *testing.T) {
	const key = "s3cr3t-K3Y-123456"
	f := newFixture(
		t,
		Options{},
		upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("ping", "", "")}},
	)
	f.targets[0].Headers = map[string]string{"X-Key": key}
	log := notification(
		"message",
		`{"level":"error","logger":"db","data":"key `+key+`\u001b[2J at https://u:p@h/?q=1"}`,
	)
	f.servers[0].FailOn("tools/call", 1, upstreamtest.Says(done, log))
	_, err := f.Call(t.Context(), f.targets[0], Call{Name: "ping"})
	require.OK(t, err)
	want := `log error "db: key [secret][2J at https://[secret]@h/?[secret]" x1` + "\n"
	if got := saidBy(f.Client, f.targets[0].ID); got != want {
		t.Errorf("messages\n%swant\n%s", got, want)
	}
}

// The lines that a program writes beside its messages, and its start and end, become messages.
func TestMessagesOfProgram(t *testing.T) {
	c, target := withProgram(t, Options{}, stdiotest.Legacy)
	if out := c.Load(t.Context(), target); out.Status != outcome.Available {
		t.Fatalf("Load = %+v", out)
	}
	_, _ = c.Call(t.Context(), target, Call{Name: "garbage"})
	local.Until(t, "the program's line becomes a message", func() bool {
		return strings.Contains(saidBy(c, target.ID), messageStdout)
	})
	if n := c.Restart(target.ID); n == 0 {
		t.Error("no program was ended")
	}
	local.Until(t, "the end becomes a message", func() bool {
		return strings.Contains(saidBy(c, target.ID), "ended by the gateway")
	})
	if c.Restart("other") != 0 {
		t.Error("a restart ended a program of another server")
	}
	if out := c.Load(t.Context(), target); out.Status != outcome.Available {
		t.Errorf("Load after the restart = %+v", out)
	}
}

// A restart forgets that a server failed, so the next call is sent.
func TestRestartForgetsFailures(t *testing.T) {
	f := newFixture(t, Options{}, upstreamtest.Options{})
	f.available()
	f.servers[0].Fail(upstreamtest.Status(http.StatusBadGateway, "the key is wrong"))
	for range breakAfter {
		f.fails(Call{Name: "tool_aa", Once: true})
	}
	call := Call{Name: "tool_aa", Once: true}
	if got := f.fails(call).Outcome.Reason; got != outcome.ReasonBreakerOpen {
		t.Errorf("after %d failures a call ends as %s", breakAfter, got)
	}
	f.Restart(f.targets[0].ID)
	if got := f.fails(call).Outcome.Reason; got != outcome.ReasonHTTP5xx {
		t.Errorf("after the restart a call ends as %s", got)
	}
	if got := saidBy(f.Client, f.targets[0].ID); !strings.Contains(got, "the key is wrong") {
		t.Errorf("the error bodies are no messages:\n%s", got)
	}
}
