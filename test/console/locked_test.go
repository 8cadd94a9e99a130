package console_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The test takes the picture of the README from the demo. The picture shows the answer for a locked
// tool, the operator's command, and the agent's next answer.
func TestLockedAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := programtest.Start(t, dir, "--demo", "--actor", "kim")
	var picture strings.Builder
	say := func(class, prompt, text string) {
		text = strings.ReplaceAll(text, p.URL, "http://127.0.0.1:8080") // as it is unless told otherwise
		fmt.Fprintf(&picture, "<p class=%s><b>%s</b>%s</p>\n", class, prompt, html.EscapeString(text))
	}
	ask := func(tool, args string) string {
		say("in", "agent  › ", tool+" "+args)
		return p.Call(tool, args).Text
	}
	const call = `{"name": "tickets:assign_ticket", "args": {"id": 1, "assignee": "kim"}}`
	locked := ask("call_tool_write", call)
	for _, want := range []string{`"tickets:assign_ticket" is locked: pending_approval.`, "Tool is disabled and not callable. A person must approve its definition first."} {
		if !strings.Contains(locked, want) {
			t.Errorf("the agent gets %q, want %q", locked, want)
		}
	}
	say("locked", "", locked)
	asked := ask("request_access", `{"names": ["tickets:assign_ticket"], "note": "kim knows printers"}`)
	id := regexp.MustCompile("R-[0-9A-Z]{8}").FindString(asked)
	say("out", "", asked)

	say("in", "person › ", "portcullis requests approve "+id)
	tty, shown := local.Terminal(t, "y\n")
	typed := exec.CommandContext(t.Context(), programtest.Build(t), "requests", "approve", id, "--dir", dir)
	typed.Stdin, typed.Stderr = tty, tty
	out, err := typed.Output()
	require.OK(t, err)
	question := regexp.MustCompile(`(?m)^(change |  ~ |Approve ).*$`).FindAllString(shown(), -1)
	if len(question) < 3 {
		t.Errorf("the command does not show the change, or does not ask:\n%s", shown())
	}
	say("out", "", strings.Join(question, "\n")+"y")
	if !strings.HasPrefix(string(out), "request     "+id+", approved\n") {
		t.Errorf("the command prints %q", out)
	}
	decided := regexp.MustCompile(`(?m)^decided.*$`).FindString(string(out))
	say("out", "", "request     "+id+", approved\n"+decided)

	open := ask("call_tool_write", call)
	if !strings.Contains(open, `"assignee":"kim"`) {
		t.Errorf("the agent gets %q, want the answer of the tool", open)
	}
	say("open", "", open)

	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, terminalPage, picture.String())
	}))
	defer page.Close()
	d := &fixture{Program: p, tab: browsertest.Open(t, page.URL)}
	d.picture("locked", "/", browsertest.Look{Name: "terminal", Width: 1000, Zoom: 1})
}

// terminalPage is a window with text in it.
const terminalPage = `<!doctype html><html lang=en><title>terminal</title><link rel=icon href="data:,"><style>
body { margin: 0; padding: 18px 22px; background: #15181d; color: #c9d1d9; font: 15px/1.5 "DejaVu Sans Mono", monospace }
p { margin: 0 0 12px; white-space: pre-wrap; overflow-wrap: anywhere }
.in { color: #fff; margin-bottom: 2px } .in b { color: #7aa2f7 }
.locked { color: #e0af68 } .open { color: #9ece6a; margin-bottom: 0 } .out { color: #a9b1bd }
</style><body>%s</body></html>`
