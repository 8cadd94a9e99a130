package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/linereader"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
)

func TestMain(m *testing.M) {
	stdiotest.Main()
	os.Exit(m.Run())
}

// withProgram returns a client that starts programs, and a target of that kind.
func withProgram(t *testing.T, o Options, kind string) (*Client, Target) {
	t.Helper()
	o.Commands = true
	c := newClient(t, o)
	t.Cleanup(func() {
		c.EndPrograms(t.Context())
		if n := c.programs.host.Running(); n > 0 {
			t.Errorf("%d programs are left", n)
		}
	})
	path, env := stdiotest.Program(t, kind)
	return c, Target{ID: "prog", URL: "cmd:0123", Command: &Command{Path: path, Env: env}}
}

// textOf calls a tool and returns the first text of its result.
func textOf(t *testing.T, c *Client, target Target, call Call) string {
	t.Helper()
	raw, err := c.Call(t.Context(), target, call)
	if err != nil {
		t.Fatalf("Call %s = %v", call.Name, err)
	}
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(raw, &r); err != nil || len(r.Content) == 0 {
		t.Fatalf("result %.200s: %v", raw, err)
	}
	return r.Content[0].Text
}

func TestProgramLoad(t *testing.T) {
	for _, kind := range []string{stdiotest.Legacy, stdiotest.Modern, stdiotest.Strict} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c, target := withProgram(t, Options{}, kind)
			out := c.Load(t.Context(), target)
			if out.Status != outcome.Available || len(out.Tools) != len(stdiotest.Tools) || out.HTTPStatus != 0 {
				t.Fatalf("Load = %+v", out)
			}
			if out.Memory.Handshake != (kind != stdiotest.Modern) {
				t.Errorf("memory %+v", out.Memory)
			}
			want := `{"resultType":"complete","content":[{"type":"text","text":"hi"}],  "big":9007199254740993,"x":{"b":1,"a":2}}`
			if got, err := c.Call(t.Context(), target, Call{Name: "echo", Arguments: json.RawMessage(`{"text":"hi"}`)}); err != nil || string(got) != want {
				t.Errorf("Call = %s, %v; want the bytes of the server", got, err)
			}
		})
	}
}

func TestProgramOwners(t *testing.T) {
	count := func(c *Client, target Target, agent string) string {
		agent, user, _ := strings.Cut(agent, " of ")
		return textOf(t, c, target, Call{Name: "count", Owner: session.Owner{Way: "token", Agent: agent, User: user}})
	}
	for _, kind := range []string{stdiotest.Legacy, stdiotest.Modern} {
		c, target := withProgram(t, Options{}, kind)
		first := count(c, target, "a")
		if again := count(c, target, "a"); again != strings.Replace(first, "1 of", "2 of", 1) {
			t.Errorf("%s: %q after %q, want the same program", kind, again, first)
		}
		if other := count(c, target, "b"); !strings.HasPrefix(other, "1 of ") || other == first {
			t.Errorf("%s: another agent got %q, the first one %q; want a separate program", kind, other, first)
		}
		ann, bob := count(c, target, "a of ann"), count(c, target, "a of bob")
		if ann == bob || !strings.HasPrefix(ann, "1 of ") || !strings.HasPrefix(bob, "1 of ") {
			t.Errorf("%s: two users of one agent got %q and %q; want separate programs", kind, ann, bob)
		}
		if again := count(c, target, "a of ann"); again != strings.Replace(ann, "1 of", "2 of", 1) {
			t.Errorf("%s: %q after %q, want the user's own program", kind, again, ann)
		}
		c.EndSessions(t.Context())

		c, target = withProgram(t, Options{}, kind)
		target.Shared = true
		if out := c.Load(t.Context(), target); out.Status != outcome.Available {
			t.Fatalf("Load = %+v", out)
		}
		first = count(c, target, "a")
		if other := count(c, target, "b"); other != strings.Replace(first, "1 of", "2 of", 1) {
			t.Errorf("%s, shared: %q after %q", kind, other, first)
		}
		if n := c.programs.host.Running(); n != 1 {
			t.Errorf("%s, shared: %d programs run", kind, n)
		}
	}
}

func TestProgramAtOnce(t *testing.T) {
	c, target := withProgram(t, Options{}, stdiotest.Legacy)
	first := textOf(t, c, target, Call{Name: "count"})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			text := fmt.Sprint("text ", i)
			args := fmt.Sprintf(`{"text":%q,"n":%d}`, text, (50-i)%7*10)
			raw, err := c.Call(t.Context(), target, Call{Name: "wait", Arguments: json.RawMessage(args)})
			if err != nil || !strings.Contains(string(raw), strconv.Quote(text)) {
				t.Errorf("call %d = %s, %v", i, raw, err)
			}
		})
	}
	wg.Wait()
	if last := textOf(t, c, target, Call{Name: "count"}); last != strings.Replace(first, "1 of", "2 of", 1) {
		t.Errorf("%q after %q, want one program", last, first)
	}
}

func TestProgramDies(t *testing.T) {
	log, text := logged()
	c, target := withProgram(t, Options{Log: log}, stdiotest.Legacy)
	first := textOf(t, c, target, Call{Name: "count"})
	_, err := c.Call(t.Context(), target, Call{Name: "die", Arguments: json.RawMessage(`{"text":"out of cheese"}`)})
	failed := callError(t, err)
	want := "The program of MCP server 'prog' ended before its answer was complete. The call was sent and may have taken effect; check before calling again."
	if failed.Message("prog") != want || failed.Outcome.Status != outcome.Transient || failed.Outcome.Reason != outcome.ReasonExited {
		t.Errorf("Call = %q, %+v", failed.Message("prog"), failed.Outcome)
	}
	if !strings.Contains(failed.Outcome.Error, "exit status 7") || !strings.Contains(failed.Outcome.Error, "out of cheese") {
		t.Errorf("error for the operator = %s", failed.Outcome.Error)
	}
	if next := textOf(t, c, target, Call{Name: "count"}); !strings.HasPrefix(next, "1 of ") || next == first {
		t.Errorf("after the end: %q, want a new program", next)
	}
	if !strings.Contains(text.String(), `"line":"out of cheese"`) {
		t.Errorf("log: %s", text)
	}
}

func TestProgramFaults(t *testing.T) {
	c, target := withProgram(t, Options{}, stdiotest.Broken)
	out := c.Load(t.Context(), target)
	if out.Status != outcome.Permanent || out.Reason != outcome.ReasonExited || !strings.Contains(out.Error, "API_KEY is required") {
		t.Errorf("a program that ends at once: %+v", out)
	}
	missing := target
	missing.Command = &Command{Path: "no-such-program-here"}
	if out := c.Load(t.Context(), missing); out.Status != outcome.Permanent || out.Reason != outcome.ReasonCommand {
		t.Errorf("no program: %+v", out)
	}
	secret := target
	secret.Command = &Command{Path: target.Command.Path, Env: map[string]string{"X": "${env:NO_SUCH_VARIABLE_HERE}"}}
	if out := c.Load(t.Context(), secret); out.Status != outcome.Permanent || out.Reason != outcome.ReasonConfig || out.Attempts != 0 {
		t.Errorf("no secret: %+v", out)
	}
	none := newClient(t, Options{})
	out = none.Load(t.Context(), target)
	want := "MCP server 'prog' is unavailable and needs attention: it is a program, and this gateway starts none: use --allow-commands, or serve it over HTTP. Its tools will not work until it is fixed."
	if out.Status != outcome.Permanent || out.Reason != outcome.ReasonNeedsCommand || out.Attempts != 0 || out.Message("prog") != want {
		t.Errorf("programs are not allowed: %+v, %s", out, out.Message("prog"))
	}
}

func TestProgramSilent(t *testing.T) {
	for kind, status := range map[string]outcome.Status{stdiotest.Silent: outcome.Available, stdiotest.Slow: outcome.Available, stdiotest.Mute: outcome.Transient, stdiotest.Deaf: outcome.Transient} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c, target := withProgram(t, Options{}, kind)
			c.limits.discover, c.limits.program, c.limits.load, c.limits.attempts = 200*time.Millisecond, 700*time.Millisecond, time.Second, 1
			if status == outcome.Available {
				c.limits.program, c.limits.load = time.Minute, time.Minute
			}
			if out := c.Load(t.Context(), target); out.Status != status || out.Reason != map[bool]string{true: outcome.ReasonStarting}[status == outcome.Transient] {
				t.Errorf("Load = %+v", out)
			}
		})
	}
}

// If a program needs long until its first message, it starts once, and only one load waits for it.
func TestProgramStarting(t *testing.T) {
	c, target := withProgram(t, Options{}, stdiotest.Late)
	until := filepath.Join(t.TempDir(), "until")
	target.Command.Env["LATE_UNTIL"] = until
	c.limits.discover, c.limits.program, c.limits.load, c.limits.attempts = 50*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond, 1
	begun := time.Now()
	first := c.Load(t.Context(), target)
	if first.Status != outcome.Transient || first.Reason != outcome.ReasonStarting || first.Started.Before(begun) || first.Started.After(time.Now()) {
		t.Fatalf("Load = %+v", first)
	}
	c.limits.program = 0 // the start time is over, even on a slow machine
	local.Until(t, "its output is known", func() bool {
		again := c.Load(t.Context(), target)
		if again.Reason != outcome.ReasonStarting || !again.Started.Equal(first.Started) || strings.Contains(again.Error, "late-secret") {
			t.Errorf("the next Load = %+v, want the same start", again)
		}
		return strings.Contains(again.Error, "has sent no message yet; its last lines: ") && strings.Contains(again.Error, "npm http fetch")
	})
	require.OK(t, os.WriteFile(until, nil, 0o600))
	c.limits.discover, c.limits.program, c.limits.load = time.Minute, time.Minute, time.Minute
	if out := c.Load(t.Context(), target); out.Status != outcome.Available {
		t.Errorf("Load = %+v", out)
	}
	if at := startOf(c); !at.Equal(first.Started) {
		t.Errorf("the program was started at %v, the first at %v", at, first.Started)
	}
}

// startOf returns when a client's only program started.
func startOf(c *Client) (at time.Time) {
	c.programs.mu.Lock()
	defer c.programs.mu.Unlock()
	for _, s := range c.programs.slots {
		at = s.running.started
	}
	return at
}

// If a program sends no message within its start time, the next load replaces it.
func TestProgramNeverStarts(t *testing.T) {
	c, target := withProgram(t, Options{}, stdiotest.Mute)
	c.programs.start, c.limits.discover, c.limits.program, c.limits.load, c.limits.attempts = 0, 50*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond, 1
	var starts []time.Time
	for range 2 {
		if out := c.Load(t.Context(), target); out.Status != outcome.Transient || out.Reason != outcome.ReasonTimeout {
			t.Errorf("Load = %+v", out)
		}
		starts = append(starts, startOf(c))
	}
	if starts[0].Equal(starts[1]) {
		t.Error("the silent program was not replaced")
	}
}

func TestFinishTime(t *testing.T) {
	for path, want := range map[string]time.Duration{"npx": installTime, "/usr/bin/uvx": installTime, "npx.cmd": installTime, "node": 0} {
		p := &program{
			command: &Command{Path: path}, clean: func(s string) string { return s },
			note: func(Message) {},
		}
		if got := p.finishTime(); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
		p.line(linereader.Line{Data: []byte(`{"jsonrpc":"2.0","method":"notifications/message"}`)})
		if got := p.finishTime(); got != 0 {
			t.Errorf("%s, after its first message: %v", path, got)
		}
	}
}

func TestProgramEnvironment(t *testing.T) {
	t.Setenv("CREDENTIAL_OF_THE_GATEWAY", "do not pass on")
	t.Setenv("GIVEN", "s3cret-value-of-it")
	t.Setenv("HTTPS_PROXY", "http://me:pr0xy-w%40rd@proxy.example:3128")
	t.Setenv("VAULT_TOKEN", "t0ken-of-the-vault")
	log, text := logged()
	c, target := withProgram(t, Options{Log: log}, stdiotest.Legacy)
	env := target.Command.Env
	env["TOKEN"], env["PLAIN"] = "Bearer ${env:GIVEN}", "plain"
	target.Command.Dir, target.Command.Pass = t.TempDir(), []string{"VAULT_TOKEN"}
	target.Command.Args = []string{"--verbose", "--api-key", "k3y-in-the-arguments", "last one"}
	got := textOf(t, c, target, Call{Name: "environment"})
	for _, want := range []string{"PLAIN=plain", "PATH=" + os.Getenv("PATH"), "cwd=" + target.Command.Dir, "last one", "--verbose", "HTTPS_PROXY=http://me:[secret]@proxy.example:3128", "VAULT_TOKEN=[secret]"} {
		if !strings.Contains(got, want) {
			t.Errorf("the program does not have %q:\n%s", want, got)
		}
	}
	for _, not := range []string{"do not pass on", "s3cret-value-of-it", "k3y-in-the-arguments", "GOFLAGS"} {
		if strings.Contains(got, not) {
			t.Errorf("the answer has %q:\n%s", not, got)
		}
	}
	_, err := c.Call(t.Context(), target, Call{Name: "die", Arguments: json.RawMessage(`{"text":"no access with s3cret-value-of-it, pr0xy-w%40rd, pr0xy-w@rd"}`)})
	if failed := callError(t, err); strings.Contains(failed.Outcome.Error+text.String(), "s3cret-value") || !strings.Contains(failed.Outcome.Error, "no access with [secret], [secret], [secret]") {
		t.Errorf("the error shows %s", failed.Outcome.Error)
	}
}

func TestProgramOutput(t *testing.T) {
	c, target := withProgram(t, Options{}, stdiotest.Legacy)
	if got := textOf(t, c, target, Call{Name: "garbage"}); got != "after the garbage" {
		t.Errorf("garbage: %q", got)
	}
	_, err := c.Call(t.Context(), target, Call{Name: "big", Arguments: json.RawMessage(`{"n":5000000}`)})
	failed := callError(t, err)
	if failed.Outcome.Reason != outcome.ReasonTooLarge || failed.Outcome.Status != outcome.Available || !failed.Delivered {
		t.Errorf("a line of 5 MB: %+v", failed)
	}
	if got := textOf(t, c, target, Call{Name: "flood", Arguments: json.RawMessage(`{"n":1000}`)}); got != "flooded" {
		t.Errorf("flood: %q", got)
	}
	if got := textOf(t, c, target, Call{Name: "ask", Arguments: json.RawMessage(`{"text":"ping"}`)}); !strings.Contains(got, `"result":{}`) {
		t.Errorf("ping: %q", got)
	}
	if got := textOf(t, c, target, Call{Name: "ask", Arguments: json.RawMessage(`{"text":"roots/list"}`)}); !strings.Contains(got, `-32601`) {
		t.Errorf("roots: %q", got)
	}
	if _, err := c.Call(t.Context(), target, Call{Name: "none"}); err == nil || errors.As(err, new(*outcome.CallError)) {
		t.Errorf("an unknown tool: %v, want the server's own error", err)
	}
}

func TestProgramTellsAndAsks(t *testing.T) {
	for _, kind := range []string{stdiotest.Legacy, stdiotest.Modern} {
		c, target := withProgram(t, Options{}, kind)
		target.Asks = AsksRelay
		var wg sync.WaitGroup
		for i := range 4 { // concurrently: each gets the notifications of its own call
			wg.Go(func() {
				var heard []string
				client := mcp.Client{Progress: true, Notify: func(method string, params rawjson.Object) {
					heard = append(heard, string(params.Get("progress")))
				}}
				n := 3 + i
				textOf(t, c, target, Call{Name: "progress", Arguments: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), Client: client})
				if len(heard) != n || heard[n-1] != strconv.Itoa(n-1) {
					t.Errorf("%s, call of %d: notifications %v", kind, n, heard)
				}
			})
		}
		wg.Wait()
	}
	c, target := withProgram(t, Options{}, stdiotest.Legacy)
	target.Asks = AsksRelay
	client := mcp.Client{Capabilities: json.RawMessage(`{"elicitation":{}}`), Ask: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"action":"accept","content":{"to":"` + method + `"}}`), nil
	}}
	got := textOf(t, c, target, Call{Name: "ask", Arguments: json.RawMessage(`{"text":"elicitation/create"}`), Client: client})
	if !strings.Contains(got, `"content":{"to":"elicitation/create"}`) {
		t.Errorf("the answer to its question: %s", got)
	}
}

func TestProgramFloodsProgress(t *testing.T) {
	c, target := withProgram(t, Options{}, stdiotest.Legacy)
	heard := 0
	client := mcp.Client{Progress: true, Notify: func(string, rawjson.Object) { heard++ }}
	got := textOf(t, c, target, Call{Name: "progress", Arguments: json.RawMessage(`{"n":20000}`), Client: client})
	if got != "done" || heard == 0 {
		t.Errorf("%q after %d events", got, heard)
	}
	t.Logf("%d of 20,000 events", heard)
}
