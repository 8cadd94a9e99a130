package gateway_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// If a call waits for the answer to a question, its audit line shows the call as sent. The line of
// the request with the answer shows nothing as sent, and has the call's result.
func TestAuditParkedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := parking(t, func(_ context.Context, _ upstream.Call, ask func(string) string) string {
			return ask(`{"message":"one?"}`)
		})
		a.Event = new(audit.CallEvent)
		one := a.asked(a.do(t.Context(), able(), "act", `{"a":1}`, ""))
		first := a.Event.End(time.Now())
		a.Event = new(audit.CallEvent)
		if _, err := a.do(t.Context(), able(), "act", `{"a":1}`, one.back("question-1", accept)); err != nil {
			t.Fatal(err)
		}
		second := a.Event.End(time.Now())
		if first.Outcome != audit.InputRequired || first.ArgsSent == "" || first.ArgsSent != first.ArgsAsked || first.Decision != audit.Allowed {
			t.Errorf("first %+v", first)
		}
		if second.Outcome != "available" || second.ArgsSent != "" || second.ArgsAsked != first.ArgsAsked || second.Decision != audit.Allowed || second.Tool != first.Tool {
			t.Errorf("second %+v", second)
		}
	})
}

// If a stop cancels a call, the audit line names the stop as the decision, even if the call can
// wait for its client.
func TestAuditStoppedCall(t *testing.T) {
	for _, holds := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var began sync.WaitGroup
			began.Add(1)
			a := pendingQuestion(t, "", holds, slow(&began))
			a.Event = new(audit.CallEvent)
			go func() {
				began.Wait()
				stoptest.Put(t, a.Approvals, stoptest.Server("s"))
			}()
			_, err := a.do(t.Context(), able(), "act", `{}`, "")
			require.OK(t, err)
			l := a.Event.End(time.Now())
			if l.Decision != audit.Stopped || l.Outcome != audit.Cancelled || l.ArgsSent == "" {
				t.Errorf("can wait %t: %+v", holds, l)
			}
		})
	}
}
