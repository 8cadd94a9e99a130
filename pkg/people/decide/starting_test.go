package decide_test

import (
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

func TestOutcomeOfStarting(t *testing.T) {
	o := outcome.Outcome{Status: outcome.Transient, Reason: outcome.ReasonStarting, Started: time.Now().Add(-70500 * time.Millisecond)}
	if got := decide.OutcomeOf("s", o).Message; !strings.HasPrefix(got, "MCP server 's' has been starting for 70 s: ") && !strings.HasPrefix(got, "MCP server 's' has been starting for 71 s: ") {
		t.Error(got)
	}
}
