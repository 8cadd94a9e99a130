package gateway_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A call that waits with a question is a call that was sent and asks; the answer to it is one that sends
// nothing and ends as the call does.
func TestAuditParkedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := parking(t, func(_ context.Context, _ upstream.Call, ask func(string) string) string {
			return ask(`{"message":"one?"}`)
		})
		line := func(ctx context.Context) audit.Line { return audit.Of(ctx).Line(time.Now()) }
		asks := audit.Begin(t.Context())
		one := a.asked(a.do(asks, able(), "act", `{"a":1}`, ""))
		first := line(asks)
		answers := audit.Begin(t.Context())
		if _, err := a.do(answers, able(), "act", `{"a":1}`, one.back("question-1", accept)); err != nil {
			t.Fatal(err)
		}
		second := line(answers)
		if first.Outcome != audit.Asked || first.ArgsSent == "" || first.ArgsSent != first.ArgsAsked || first.Decision != audit.Allowed {
			t.Errorf("first %+v", first)
		}
		if second.Outcome != "available" || second.ArgsSent != "" || second.ArgsAsked != first.ArgsAsked || second.Decision != audit.Allowed || second.Tool != first.Tool {
			t.Errorf("second %+v", second)
		}
	})
}
