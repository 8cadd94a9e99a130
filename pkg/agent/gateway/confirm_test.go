package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// pay calls the tool whose calls each need a confirmation.
func (u *unlocking) pay(args string) (text string, ran bool) {
	u.T.Helper()
	r := u.Call("call_tool_destructive", `{"name":"s:pay","args":`+args+`}`)
	return r.Text, !r.IsError
}

func TestConfirmOneCall(t *testing.T) {
	u := unlock(t)
	const args = `{"to":"kim","amount":5}`
	text, ran := u.pay(args)
	list := u.asked().List
	if ran || len(list) != 1 || list[0].Args != request.HashArgs(json.RawMessage(args)) {
		t.Fatalf("the first call: %v %s, %+v", ran, text, list)
	}
	id := list[0].ID
	u.holds("the first call", text, "Nothing was called.", "Access request "+id+" recorded.", "/admin/ask/"+id)
	if kept, err := u.Requests().Arguments(t.Context(), request.AgentOf(u.Agent).Key(), id); err != nil || string(kept) != args {
		t.Errorf("stored arguments = %s, %v", kept, err)
	}
	text, ran = u.pay(args)
	u.holds("asked again", text, "You requested access just now ("+id+", open).")
	if ran || len(u.asked().List) != 1 {
		t.Errorf("requests after the second call = %+v, want 1", u.asked().List)
	}
	u.decides(id, request.Confirmed, 0, "")
	if text, ran := u.pay(`{"to":"kim","amount":6}`); ran || strings.Contains(text, id) {
		t.Errorf("other arguments: %v %s", ran, text)
	}
	if text, ran = u.pay(`{"amount":5, "to":"kim"}`); !ran {
		t.Fatalf("another order of keys: %s", text)
	}
	text, ran = u.pay(args)
	u.holds("the second use", text, "The confirmation "+id+" was used for a call just now", "Access request R-")
	if ran || len(u.Sent()) != 1 {
		t.Errorf("%d calls were sent, want 1", len(u.Sent()))
	}
	if list := u.asked().List; len(list) != 3 {
		t.Errorf("%d requests, want 3: of the first call, the other arguments, and the second use", len(list))
	}
}

func TestConfirmationsAreRefused(t *testing.T) {
	u := unlock(t)
	text, ran := u.pay(`{"a":"` + strings.Repeat("x", 33<<10) + `"}`)
	if u.holds("large", text, "these arguments are too large"); ran || len(u.asked().List) != 0 {
		t.Errorf("large arguments: %v, %+v", ran, u.asked().List)
	}
	_, _ = u.pay(`{}`)
	id := u.asked().List[0].ID
	u.decides(id, request.Declined, 0, "not today")
	text, ran = u.pay(`{}`)
	u.holds("declined", text, "kim declined access request "+id+`. Reason: "not today".`)
	if ran || len(u.asked().List) != 1 {
		t.Errorf("declined: %+v", u.asked().List)
	}
	_, _ = u.pay(`{"n":2}`)
	id = u.asked().List[1].ID
	u.decides(id, request.Confirmed, 0, "")
	u.Clock.Wait(request.UseFor)
	if text, ran := u.pay(`{"n":2}`); ran {
		t.Errorf("the call ran with an expired confirmation: %s", text)
	}
	u.sentNothing()
}

// The gateway stores the use of a confirmation before it sends the call. If the write fails, it
// does not send the call. If the store has the use anyway, the confirmation is used up.
func TestUseIsWrittenFirst(t *testing.T) {
	u := unlock(t)
	_, _ = u.pay(`{}`)
	id := u.asked().List[0].ID
	u.decides(id, request.Confirmed, 0, "")
	u.Approvals.Documents.OnPut = documenttest.PutOf("USED#", func() (bool, error) { return true, errors.New("answer lost") })
	text, ran := u.pay(`{}`)
	u.holds("a use that may be stored", text, "Nothing was called", id)
	u.Approvals.Documents.OnPut = nil
	if text2, ran2 := u.pay(`{}`); ran || ran2 || !strings.Contains(text2, "was used") {
		t.Errorf("called again: %v %s", ran2, text2)
	}
	u.sentNothing()
}

// A client gets the link for a confirmation in the same ways as the link for access. It is the link
// of the stored request.
func TestConfirmationAskedByItsClient(t *testing.T) {
	u := unlock(t)
	c := u.human(true)
	raw, err := u.as(c, "pay", "")
	require.OK(t, err)
	id := u.asked().List[0].ID
	u.holds("the first call", string(raw), "input_required", "/admin/ask/"+id)
	state := require.JSON[struct{ RequestState string }](t, string(raw)).RequestState
	raw, err = u.as(c, "pay", fmt.Sprintf(`,"requestState":%q,"inputResponses":{"unlock":{"action":"accept"}}`, state))
	if err != nil || !strings.Contains(string(raw), "("+id+", open)") || strings.Contains(string(raw), "input_required") {
		t.Errorf("the retry while it is open: %s %v", raw, err)
	}
	u.decides(id, request.Confirmed, 0, "")
	u.succeeds("pay did it")(u.as(c, "pay", fmt.Sprintf(`,"requestState":%q`, state)))
}

// A client cannot forge or borrow a state to run a call that nobody confirmed.
func TestConfirmationIsNotBypassed(t *testing.T) {
	for _, modern := range []bool{true, false} {
		u := unlock(t)
		c := u.human(modern)
		push := request.Code{Agent: request.AgentOf(u.Agent), Hash: "00", Item: approval.Record{Server: "s", Tool: "push"}.ID()}
		code, err := request.SealCode(t.Context(), u.Options.Sealer, push, u.Clock.Now())
		require.OK(t, err)
		for _, state := range []string{code, "made up", ""} {
			_, _ = u.as(c, "pay", fmt.Sprintf(`,"requestState":%q,"inputResponses":{"x":{"action":"accept"}}`, state))
		}
		u.sentNothing()
	}
}

// A confirmed call whose server asks a question continues with the answer, once.
func TestConfirmedCallThatAsks(t *testing.T) {
	u := unlock(t)
	c, sent := u.paysAfterQuestion()
	answer := u.questioned(c)
	if *sent != 1 {
		t.Fatalf("%d requests were sent, want 1", *sent)
	}
	u.succeeds(complete)(u.as(c, "pay", answer))
	raw, err := u.as(c, "pay", answer)
	if err != nil || !strings.Contains(string(raw), "sent before") || *sent != 2 {
		t.Errorf("the answer again: %s %v, %d sent", raw, err, *sent)
	}
	// If a tool began to require confirmations after its server asked a question, the answer to
	// that question does not run the call.
	servers := map[string]string{"s": `"approval":"manual"`, "out": ""}
	u.reconfigure(servers, `"gateway":{"requests":true}`)
	answer = u.questioned(c)
	u.reconfigure(servers, `"tools":{"confirm":["s:*"]}`)
	before := *sent
	raw, err = u.as(c, "pay", answer)
	if err != nil || !strings.Contains(string(raw), "nobody confirmed this call") ||
		*sent != before {
		t.Errorf("the answer to an earlier question: %s %v", raw, err)
	}
}

// paysAfterQuestion confirms a call, makes its server ask once, and counts the requests to the
// server.
func (u *unlocking) paysAfterQuestion() (c mcp.Client, sent *int) {
	u.T.Helper()
	c, sent = u.human(true), new(int)
	call := func(ctx context.Context, s upstream.Target, c upstream.Call) (json.RawMessage, error) {
		*sent++
		return stateless(ctx, s, c)
	}
	u.Upstream = &scripted{u.Servers, call}
	u.Restart()
	_, _ = u.as(c, "pay", "")
	u.decides(u.asked().List[0].ID, request.Confirmed, 0, "")
	return c, sent
}

// questioned calls a tool that asks, and returns the members of params with the answer.
func (u *unlocking) questioned(c mcp.Client) string {
	u.T.Helper()
	raw, err := u.as(c, "pay", "")
	require.OK(u.T, err)
	return require.JSON[required](u.T, raw).back("q", accept)
}

// A tool that needs no approval can require confirmations too.
func TestConfirmWithoutApproval(t *testing.T) {
	u := unlock(t)
	u.reconfigure(
		map[string]string{"s": `"approval":"off"`, "out": ""}, `"tools":{"confirm":["s:p*"]}`,
	)
	if text, ran := u.push(); ran || !strings.Contains(text, "A person must confirm each call of this tool") {
		t.Fatalf("the first call: %s", text)
	}
	u.decides(u.asked().List[0].ID, request.Confirmed, 0, "")
	if text, ran := u.push(); !ran {
		t.Errorf("confirmed: %s", text)
	}
}

// Only the parts that the person saw go upstream with a confirmed call. The gateway drops answers
// without a question, and members or metadata that the agent adds.
func TestConfirmedCallTakesNothingAlong(t *testing.T) {
	for _, modern := range []bool{true, false} {
		u := unlock(t)
		var sent []upstream.Call
		u.Upstream = &scripted{u.Servers, func(_ context.Context, _ upstream.Target, c upstream.Call) (json.RawMessage, error) {
			sent = append(sent, c)
			return json.RawMessage(`{"content":[]}`), nil
		}}
		u.Restart()
		c := u.human(modern)
		_, _ = u.as(c, "pay", "")
		u.decides(u.asked().List[0].ID, request.Confirmed, 0, "")
		_, err := u.as(c, "pay", `,"inputResponses":{"q":{"action":"accept","content":{"amount":1000000}}},"amount":7,`+
			`"_meta":{"com.example/amount":9,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","progressToken":1}`)
		require.OK(t, err)
		if len(sent) != 1 || len(sent[0].Rest) != 0 || sent[0].Meta.Get("com.example/amount") != nil || sent[0].Meta.Get("traceparent") == nil {
			t.Errorf("modern %v: sent %+v", modern, sent)
		}
	}
}

// stoppedOnce stops the server and undoes the stop.
func (u *unlocking) stoppedOnce() {
	u.T.Helper()
	server := stop.Target{Server: "s"}
	for _, change := range []func(stop.Stops) (stop.Stops, error){
		func(s stop.Stops) (stop.Stops, error) {
			at := u.Clock.Wait(time.Second)
			return s.Add(stop.Stop{Target: server, Reason: "r", By: "kim", At: at})
		},
		func(s stop.Stops) (stop.Stops, error) { return s.Undo(server) },
	} {
		_, err := stop.NewStore(u.Approvals).Change(u.T.Context(), change)
		require.OK(u.T, err)
	}
}

// A call that waits for an answer does not continue after its confirmation has ended, and no other
// person can continue it.
func TestConfirmedCallThatAsksEnds(t *testing.T) {
	for want, ends := range map[string]func(u *unlocking){
		"has ended": (*unlocking).stoppedOnce,
		foreign:     func(u *unlocking) { u.Agent = actsFor(u.Agent, "eve") },
	} {
		u := unlock(t)
		c, sent := u.paysAfterQuestion()
		answer := u.questioned(c)
		ends(u)
		raw, err := u.as(c, "pay", answer)
		if got := fmt.Sprint(string(raw), err); *sent != 1 || !strings.Contains(got, want) {
			t.Errorf("want %q: %d sent, %s", want, *sent, got)
		}
	}
}
