//go:build unix

package upstream

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
)

// gone reports whether no process has the id pid, or whether the process is a zombie.
func gone(pid string) bool {
	out, _ := exec.Command("ps", "-o", "stat=", "-p", pid).Output() // fails if there is no process
	state := strings.TrimSpace(string(out))
	return state == "" || state[0] == 'Z'
}

// TestProgramLeavesNothing checks that, however a program ends, the processes that it started end
// too.
func TestProgramLeavesNothing(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *Client, target Target){
		"the client ends":    func(t *testing.T, c *Client, _ Target) { c.EndPrograms(t.Context()) },
		"the session ends":   func(t *testing.T, c *Client, _ Target) { c.EndSessions(t.Context()) },
		"the server is gone": func(t *testing.T, c *Client, _ Target) { c.Keep(nil) },
		"the program dies in a call": func(t *testing.T, c *Client, target Target) {
			_, err := c.Call(t.Context(), target, Call{Name: "die"})
			if failed := callError(t, err); failed.Outcome.Reason != outcome.ReasonExited || !failed.Delivered {
				t.Errorf("Call = %+v", failed)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, target := withProgram(t, Options{}, stdiotest.Stubborn)
			_, program, _ := strings.Cut(textOf(t, c, target, Call{Name: "count"}), " of ")
			grandchild := textOf(t, c, target, Call{Name: "fork"})
			end(t, c, target)
			local.Until(t, "the program is gone", func() bool { return gone(program) })
			local.Until(t, "the program's child is gone", func() bool { return gone(grandchild) })
		})
	}
}
