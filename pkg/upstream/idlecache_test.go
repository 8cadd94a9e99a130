package upstream

import (
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
)

func TestProgramSleeps(t *testing.T) {
	c, target := withProgram(t, Options{}, stdiotest.Legacy)
	c.programs.idle = 300 * time.Millisecond
	first := c.Load(t.Context(), target)
	if first.Status != outcome.Available {
		t.Fatalf("Load = %+v", first)
	}
	ended := func() bool { return c.programs.host.Running() == 0 }
	local.Until(t, "the idle program is ended", ended)

	asleep := c.Load(t.Context(), target)
	if !ended() || len(asleep.Tools) != len(first.Tools) || !asleep.CheckedAt.Equal(first.CheckedAt) {
		t.Errorf("a sync started an idle server: %+v", asleep)
	}
	textOf(t, c, target, Call{Name: "count", Owner: session.Owner{Agent: "a"}})
	if awake := c.Load(t.Context(), target); awake.Status != outcome.Available || awake.CheckedAt.Equal(first.CheckedAt) {
		t.Errorf("a sync did not load a server that a call had started: %+v", awake)
	}
	local.Until(t, "the idle programs are ended", ended)

	changed := *target.Command
	changed.Args = []string{"--other"}
	target.Command = &changed
	if other := c.Load(t.Context(), target); other.Status != outcome.Available || ended() {
		t.Errorf("a sync did not load a server with a changed command: %+v", other)
	}
}
