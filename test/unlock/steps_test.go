package unlock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/local"
)

// The client opens the page, the user requests access there, and a person approves the tool for all
// agents.
func approvedForAll(t *testing.T, w *world, e era) {
	a, other := w.agent(e, w.actsFor(sam)), w.agent(e, w.token("other-"+e.name[:4]))
	got := a.call("shop:ship", `{"to":"sam"}`)
	a.wantAsked(got)
	again := a.retry("shop:ship", `{"to":"sam"}`, got.State) // the client reports that it opened the page
	a.wantSaid(again, "pending_approval")
	if e.modern && again.State != "" {
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
func declined(t *testing.T, w *world, e era) {
	a := w.agent(e, w.actsFor(sam))
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

// One agent may call the tool for a limited time. After the end, a running call continues and the
// next call is refused.
func allowedUntilAnEnd(t *testing.T, w *world, e era) {
	name := "clock-" + e.name[:4]
	a, other := w.agent(e, w.token(name)), w.agent(e, w.actsFor(sam))
	_, id := a.wants("shop:rotate", "the key is old")
	link, _ := w.told(id, name)
	w.decides(lee, link, verdict{value: "allowed", minutes: 1})
	w.told(id, " allowed agent ")
	a.wantRan(a.call("shop:rotate", `{}`))
	other.wantSaid(other.call("shop:rotate", `{}`), "pending_approval")
	w.wantCalls("rotate", 1)

	end := time.Now().Add(8 * time.Second) // includes the restart of the program
	w.endsAt(id, end)
	long := make(chan callResult, 1)
	go func() { long <- a.call("shop:rotate", `{"to":"wait"}`) }()
	local.Until(t, "the long call runs", func() bool { return w.calls("rotate") == 2 })
	ran := 2
	var last callResult
	local.Until(t, "the grant ends", func() bool {
		if last = a.call("shop:rotate", `{}`); last.Ran {
			ran++
		}
		return !last.Ran
	})
	if early := time.Until(end); early > 0 {
		t.Errorf("the grant ended %v early: %s", early, last.Raw)
	}
	a.wantSaid(last, "The grant of access request "+id+" by lee@example.com ended", `request_access`)
	select {
	case w.hold <- struct{}{}:
	case got := <-long:
		t.Fatalf("the running call ended before the server answered: %s", got.Raw)
	}
	if got := <-long; !got.Ran {
		t.Errorf("the call that was running at the end of the grant: %s", got.Raw)
	}
	w.wantCalls("rotate", ran)
	if state, next := a.wants("shop:rotate", "once more"); state != "open" || next == id {
		t.Errorf("request after the end: %s %s", state, next)
	}
}

// A person confirms one call with its arguments, and the agent can make this call once.
func oneCall(t *testing.T, w *world, e era) {
	a := w.agent(e, w.actsFor(sam))
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

	for _, other := range []string{`{"to":"ann","amount":"50"}`, `{"to":"ann","amount":5}`, `{"to":"ann"}`, `{"to":"ann","amount":"5","x":null}`} {
		got := a.call("shop:pay", other)
		a.wantSaid(got, "Nothing was called.")
		if strings.Contains(got.Text, id) {
			t.Errorf("the call with %s got the answer of another call: %s", other, got.Text)
		}
	}
	w.wantCalls("pay", 0)
	a.wantRan(a.retry("shop:pay", `{ "amount":"5", "to":"\u0061nn"}`, got.State))
	a.wantSaid(a.call("shop:pay", args), "The confirmation "+id+" was used for a call", "Nothing was called.")
	w.wantCalls("pay", 1)
	tab.Goto("/admin/requests/" + id)
	tab.SeeText("main", "used")
}
