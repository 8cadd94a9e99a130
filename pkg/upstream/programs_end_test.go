//go:build unix

package upstream

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
)

// gone reports whether no process has that number, or only a zombie.
func gone(pid string) bool {
	out, _ := exec.Command("ps", "-o", "stat=", "-p", pid).Output() // fails if there is no process
	state := strings.TrimSpace(string(out))
	return state == "" || state[0] == 'Z'
}

// TestProgramLeavesNothing ends programs in every way, together with the processes that they
// started.
func TestProgramLeavesNothing(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *Client, target Target){
		"the client ends":    func(t *testing.T, c *Client, _ Target) { c.EndPrograms(t.Context()) },
		"the session ends":   func(t *testing.T, c *Client, _ Target) { c.EndSessions(t.Context()) },
		"the server is gone": func(t *testing.T, c *Client, _ Target) { c.LoadAll(t.Context(), nil, nil) },
		"the program dies in a call": func(t *testing.T, c *Client, target Target) {
			_, err := c.Call(t.Context(), target, Call{Name: "die"})
			if failed := callError(t, err); failed.Outcome.Reason != outcome.ReasonExited || !failed.Delivered {
				t.Errorf("Call = %+v", failed)
			}
		},
	} {
		for _, kind := range []string{stdiotest.Legacy, stdiotest.Stubborn} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				c, target := withProgram(t, Options{}, kind)
				_, program, _ := strings.Cut(textOf(t, c, target, Call{Name: "count"}), " of ")
				grandchild := textOf(t, c, target, Call{Name: "fork"})
				end(t, c, target)
				local.Until(t, "the program is gone", func() bool { return gone(program) })
				local.Until(t, "the program's child is gone", func() bool { return gone(grandchild) })
			})
		}
	}
}

// TestProgramsLeaveNoDescriptor counts the descriptors of this process before and after.
func TestProgramsLeaveNoDescriptor(t *testing.T) {
	count := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc here")
		}
		return len(all)
	}
	round := func() {
		c := New(&Options{Commands: true})
		path, env := stdiotest.Program(t, stdiotest.Legacy)
		for _, agent := range []string{"a", "b", "c"} {
			target := Target{ID: agent, URL: "cmd:" + agent, Command: &Command{Path: path, Env: env}}
			textOf(t, c, target, Call{Name: "count", Owner: session.Owner{Agent: agent}})
			_, _ = c.Call(t.Context(), target, Call{Name: "die", Owner: session.Owner{Agent: agent}}) // the program ends
		}
		c.EndPrograms(t.Context())
		c.Close()
	}
	round()
	before := count()
	for range 5 {
		round()
	}
	if after := count(); after > before+1 {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}
