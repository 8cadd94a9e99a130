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

// A program reports on its pipe that its lists have changed. The next load starts a program again.
func TestProgramReportsChanges(t *testing.T) {
	c, target := withProgram(t, Options{}, stdiotest.Legacy)
	var reported changes
	w := c.WatchLists(reported.note)
	defer w.Close()
	a := session.Owner{Agent: "a"}
	textOf(t, c, target, Call{Name: "count", Owner: a})
	first := c.Load(t.Context(), target)
	var ofLoads *program
	c.programs.mu.Lock()
	for k, s := range c.programs.slots {
		if k.load {
			ofLoads, s.running = s.running, nil
		}
	}
	c.programs.mu.Unlock()
	ofLoads.stop()
	if again := c.Load(t.Context(), target); !again.CheckedAt.Equal(first.CheckedAt) {
		t.Fatalf("a load started an idle program: %+v", again)
	}
	textOf(t, c, target, Call{Name: "change", Owner: a})
	if len(reported.of) > 0 {
		t.Errorf("%v changes of servers that nobody watches were reported", reported.of)
	}
	w.Set([]Target{target})
	textOf(t, c, target, Call{Name: "change", Owner: a})
	if reported.of[target.ID] == 0 {
		t.Error("the change was not reported")
	}
	if now := c.Load(t.Context(), target); now.CheckedAt.Equal(first.CheckedAt) {
		t.Error("the load used the old lists")
	}
}
