package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/tokens"
)

// TestAgentTexts checks the sentences that agents act on, and their numbers of tokens (cl100k).
func TestAgentTexts(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	s := &Session{g: &Gateway{o: Options{
		BaseURL: "https://gate.example.com", Now: func() time.Time { return now },
	}}}
	open := request.Request{ID: "R-7KQ2M4XD", Opened: now.Add(-3 * time.Minute)}
	declined := request.Decision{
		Request: open.ID, By: "kim", Reason: "use staging", Ends: now.Add(24 * time.Hour),
	}
	failed := func(o outcome.Outcome, delivered, repeatable bool) string {
		return (&outcome.CallError{Outcome: o, Delivered: delivered, Repeatable: repeatable}).Message("crm")
	}
	var b strings.Builder
	total := 0
	add := func(name, text string) {
		n := tokens.Count(t, text)
		total += n
		fmt.Fprintf(&b, "%s (%d)\n\t%s\n", name, n, strings.ReplaceAll(text, "\n", "\n\t"))
	}
	for _, status := range lock.Statuses() {
		add("remediation "+string(status), lock.RemediationOf("tool", status, ""))
	}
	for _, status := range []lock.Status{lock.DisabledByUser, lock.PendingApproval} {
		link := "https://gate.example.com/admin/tools/crm/add_contact"
		add("remediation "+string(status)+" with a page", lock.RemediationOf("tool", status, link))
	}
	add("open request", s.openText(open))
	add("offer", offerText("crm:add_contact"))
	add("offer to the user", offerLink+s.g.askLink(open.ID))
	add("request recorded", recordedText+s.g.statusLink(open.ID))
	add("request that cannot help", cannotHelpText+s.g.statusLink(open.ID))
	add("request for an undetermined lock", undeterminedText)
	add("request not stored", unwrittenText)
	for _, over := range []request.Decision{{Verdict: request.Revoked}, {Ends: now}, {Ends: now.Add(time.Hour)}} {
		over.Request, over.By, over.At = open.ID, "kim", now
		add("grant that ended", s.overText(over))
	}
	add("request for one call", s.waitsText(open, true))
	add("declined", s.declinedText(declined))
	add("request out of tier", lacksText("the scope portcullis:write")+unhelpfulText)
	add("too many requests", tooManyText)
	add("no result", noMatch)
	for n := range 3 {
		add(fmt.Sprintf("notice %d locked", n), noticeLocked(n))
		add(fmt.Sprintf("notice %d better", n), noticeBetter(n))
	}
	add("call, retry is safe", failed(outcome.Outcome{}, true, true))
	add("call, may have taken effect", failed(outcome.Outcome{}, true, false))
	add("call, response not processed", failed(outcome.Outcome{Reason: outcome.ReasonInternal}, true, false))
	for _, asks := range []string{askNoKey, askTooLong, askOff, askTooOften, askTooMany} {
		add("question that is not passed on", asks)
	}
	add("tool for pages", appOnlyText(tool.ID{Server: "crm", Name: "refresh"}))
	add("call of another page", `Tool "refresh"`+foreignText)
	add("page not read", unstoredPageText)
	add("page unknown", unreadPageText)
	add("question expired", stateExpired)
	add("question without a key", stateNoKey)
	add("parked call expired", pendingExpired)
	add("parked call of an earlier process", pendingElsewhere)
	add("parked call answered", pendingAnswered)
	add("parked call asked again", pendingAskedAnew)
	add("parked call left", pendingLeft)
	add("parked call not fetched", pendingUnfetched)
	add("parked call without room", pendingNoRoom)
	add("parked call locked", pendingLocked)
	addTaskTexts(add)
	add("menu", strings.Join(menu(), "\n"))
	fmt.Fprintf(&b, "total (%d)\n", total)
	golden.Check(t, "testdata/agent_texts.golden", b.String())
}

// addTaskTexts adds the texts about tasks.
func addTaskTexts(add func(name, text string)) {
	add("task required", taskNeeded)
	add("task required, no key", taskNeededKey)
	for _, begun := range []string{taskUnwanted, taskOdd, taskLongID, taskNoKey} {
		add("task that is not passed on", begun+taskCancelled)
	}
	add("task that is not cancelled", taskUnwanted+taskAdrift)
	for _, about := range []string{taskUnknown, taskExpired, taskKeyless, taskGone, taskUnclear,
		taskAsksOff, taskUnanswered, taskUnconfirmed} {
		add("request about a task", about)
	}
	add("task of a changed tool", `The definition of the tool "crm:add_contact"`+taskChanged)
	add("task, no answer", (&outcome.CallError{Item: outcome.ItemTask, Delivered: true}).Message("crm"))
	add("task, not sent", (&outcome.CallError{
		Item: outcome.ItemTask, Outcome: outcome.Outcome{Status: outcome.Transient},
	}).Message("crm"))
}
