package unlock_test

import (
	"strings"
	"testing"
)

// The client opens the page, the user requests access there, and a person approves the tool for all
// agents.
func approvedForAll(t *testing.T, w *world) {
	a, other := w.agent(w.actsFor(sam)), w.agent(w.token("other"))
	got := a.call("shop:ship", `{"to":"sam"}`)
	a.wantAsked(got)
	again := a.retry("shop:ship", `{"to":"sam"}`, got.State) // the client reports that it opened the page
	a.wantSaid(again, "pending_approval")
	if w.era.modern && again.State != "" {
		t.Errorf("the answer to the retry requests to open the page again: %s", again.Raw)
	}
	if posted := w.slack.posted(); len(posted) > 0 {
		t.Fatalf("message about a call without a request: %q", posted)
	}
	id := w.asks(sam, got.Link, "to send the parcel")
	link, message := w.told(id, "shop:ship")
	if strings.Contains(message, "parcel") || strings.Contains(message, "does its work") {
		t.Errorf("the message contains a text of a person or of the server: %s", message)
	}
	a.wantSaid(a.retry("shop:ship", `{"to":"sam"}`, got.State), "You requested access ", "("+id+", open).")
	w.wantCalls("ship", 0)

	tab := w.decides(kim, link, verdict{value: "approved"})
	tab.SeeText("main", "approved")
	w.told(id, " approved ")
	a.wantRan(a.retry("shop:ship", `{"to":"sam"}`, got.State))
	other.wantRan(other.call("shop:ship", `{}`))
	w.wantCalls("ship", 2)
}

// The agent itself requests access. After a refusal, its answer names the person and their reason.
func declined(t *testing.T, w *world) {
	a := w.agent(w.actsFor(sam))
	state, id := a.wants("shop:drop", "the table is old")
	if state != "open" {
		t.Fatalf("request_access: %s", state)
	}
	if again, same := a.wants("shop:drop", "please"); again != "open" || same != id {
		t.Errorf("asked again: %s %s, was %s", again, same, id)
	}
	link, message := w.told(id, "shop:drop")
	if strings.Contains(message, "the table is old") {
		t.Errorf("the message contains the agent's note: %s", message)
	}
	a.wantSaid(a.call("shop:drop", `{}`), "You requested access ", "("+id+", open).", w.URL+"/admin/ask/"+id)
	tab := w.opens(kim, link)
	tab.SeeText("main blockquote", "the table is old")
	w.press(tab, verdict{value: "declined", reason: "use staging"})
	w.told(id, " declined ")
	said := a.call("shop:drop", `{}`)
	a.wantSaid(said, "kim@example.com declined access request "+id+`. Reason: "use staging".`)
	if said.Lock.Request.ID != id || said.Lock.Request.State != "declined" {
		t.Errorf("lock in the answer: %+v", said.Lock)
	}
	if state, same := a.wants("shop:drop", "please"); state != "declined" || same != id {
		t.Errorf("request after the refusal: %s %s", state, same)
	}
	asker := w.opens(sam, w.URL+"/admin/ask/"+id)
	asker.SeeText("main", "use staging")
	w.wantCalls("drop", 0)
}

// One agent may call the tool for a limited time.
func allowedForOne(t *testing.T, w *world) {
	a, other := w.agent(w.token("clock")), w.agent(w.actsFor(sam))
	_, id := a.wants("shop:rotate", "the key is old")
	link, _ := w.told(id, "token:clock")
	w.decides(kim, link, verdict{value: "allowed", minutes: 1})
	w.told(id, " allowed agent ")
	a.wantRan(a.call("shop:rotate", `{}`))
	other.wantSaid(other.call("shop:rotate", `{}`), "pending_approval")
	w.wantCalls("rotate", 1)
}

// A person confirms one call with its arguments, and the agent can make this call once.
func oneCall(t *testing.T, w *world) {
	a := w.agent(w.actsFor(sam))
	const args = `{"to":"ann","amount":"5"}`
	got := a.call("shop:pay", args)
	a.wantAsked(got)
	_, id, _ := strings.Cut(got.Link, "/admin/ask/")
	link, message := w.told(id, "shop:pay")
	if strings.Contains(message, "ann") {
		t.Errorf("the message contains an argument: %s", message)
	}
	said := a.retry("shop:pay", args, got.State)
	a.wantSaid(said, "You requested access ", "("+id+", open).")
	if said.Lock.Confirm.Request != id {
		t.Errorf("answer to the call: %s", said.Raw)
	}
	asker := w.opens(sam, got.Link)
	asker.SeeText("#what ~ pre", `"amount"`)
	tab := w.opens(kim, link)
	tab.SeeText("#arguments", `"ann"`)
	w.press(tab, verdict{value: "confirmed"})
	w.told(id, " confirmed one call of ")
	w.wantCalls("pay", 0)

	a.wantSaid(a.call("shop:pay", `{"to":"ann","amount":"50"}`), "Nothing was called.")
	w.wantCalls("pay", 0)
	a.wantRan(a.retry("shop:pay", `{ "amount":"5", "to":"\u0061nn"}`, got.State))
	a.wantSaid(a.call("shop:pay", args), "The confirmation "+id+" was used for a call", "Nothing was called.")
	w.wantCalls("pay", 1)
	tab.Goto("/admin/requests/" + id)
	tab.SeeText("main", "used")
}
