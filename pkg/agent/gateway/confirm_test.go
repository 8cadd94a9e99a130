package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
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
	for args, want := range map[string]string{
		`{"a":"` + strings.Repeat("x", 33<<10) + `"}`: "these arguments are too large",
	} {
		if text, ran := u.pay(args); ran || !strings.Contains(text, want) || len(u.asked().List) != 0 {
			t.Errorf("%.20s: %v %s", args, ran, text)
		}
	}
	_, _ = u.pay(`{}`)
	id := u.asked().List[0].ID
	u.decides(id, request.Declined, 0, "not today")
	text, ran := u.pay(`{}`)
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
	raw, err = u.as(c, "pay", fmt.Sprintf(`,"requestState":%q`, state))
	if err != nil || !strings.Contains(string(raw), "pay did it") {
		t.Errorf("the retry after the confirmation: %s %v", raw, err)
	}
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
	c := u.human(true)
	c.Capabilities = json.RawMessage(`{"elicitation":{"form":{},"url":{}}}`)
	question := json.RawMessage(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form","message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"theirs"}`)
	sent := 0
	u.Upstream = &scripted{u.Servers, func(_ context.Context, _ upstream.Target, c upstream.Call) (json.RawMessage, error) {
		if sent++; c.Rest.Get("requestState") == nil {
			return question, nil
		}
		return json.RawMessage(`{"content":[{"type":"text","text":"paid"}]}`), nil
	}}
	u.Restart()
	_, _ = u.as(c, "pay", "")
	u.decides(u.asked().List[0].ID, request.Confirmed, 0, "")
	raw, err := u.as(c, "pay", "")
	require.OK(t, err)
	state := require.JSON[struct{ RequestState string }](t, string(raw)).RequestState
	if state == "" || sent != 1 {
		t.Fatalf("the question: %s", raw)
	}
	answer := fmt.Sprintf(`,"requestState":%q,"inputResponses":{"q":{"action":"accept","content":{}}}`, state)
	if raw, err = u.as(c, "pay", answer); err != nil || !strings.Contains(string(raw), "paid") {
		t.Fatalf("the answer: %s %v", raw, err)
	}
	if raw, err = u.as(c, "pay", answer); err != nil || !strings.Contains(string(raw), "sent before") || sent != 2 {
		t.Errorf("the answer again: %s %v, %d sent", raw, err, sent)
	}
	// If a tool began to require confirmations after its server asked a question, the answer to that
	// question does not run the call.
	u.Configure(map[string]string{"s": `"approval":"manual"`, "out": ""}, `"gateway":{"requests":true}`)
	u.States.Refresh(t.Context())
	raw, err = u.as(c, "pay", "")
	require.OK(t, err)
	state = require.JSON[struct{ RequestState string }](t, string(raw)).RequestState
	u.Configure(map[string]string{"s": `"approval":"manual"`, "out": ""}, `"tools":{"confirm":["s:*"]}`)
	u.States.Refresh(t.Context())
	before := sent
	raw, err = u.as(c, "pay", fmt.Sprintf(`,"requestState":%q,"inputResponses":{"q":{"action":"accept","content":{}}}`, state))
	if err != nil || !strings.Contains(string(raw), "nobody confirmed this call") || sent != before {
		t.Errorf("the answer to an earlier question: %s %v", raw, err)
	}
}

// A tool that needs no approval can require confirmations too.
func TestConfirmWithoutApproval(t *testing.T) {
	u := unlock(t)
	u.Configure(map[string]string{"s": `"approval":"off"`, "out": ""}, `"tools":{"confirm":["s:p*"]}`)
	u.States.Refresh(t.Context())
	if text, ran := u.push(); ran || !strings.Contains(text, "A person must confirm each call of this tool") {
		t.Fatalf("the first call: %s", text)
	}
	u.decides(u.asked().List[0].ID, request.Confirmed, 0, "")
	if text, ran := u.push(); !ran {
		t.Errorf("confirmed: %s", text)
	}
}
