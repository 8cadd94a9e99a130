//go:build unix

package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/process"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
)

// A crowd is a set of agents that call servers which are programs.
type crowd struct {
	*testing.T
	c      *Client
	target Target
}

// newCrowd returns a crowd. places is the maximum number of programs, and ofAgent the maximum for
// one agent.
func newCrowd(t *testing.T, kind string, places, ofAgent int) *crowd {
	c, target := withProgram(t, Options{ProgramsOfAgent: func() int { return ofAgent }}, kind)
	c.programs.max, c.programs.host = places, process.NewHost(places)
	return &crowd{t, c, target}
}

func (x *crowd) call(server string, o session.Owner, tool string) (json.RawMessage, error) {
	target := x.target
	target.ID = server
	return x.c.Call(x.Context(), target, Call{Name: tool, Owner: o, Arguments: json.RawMessage(`{"text":"hi"}`)})
}

// count calls the tool that returns the number of its calls in its process, and the process id.
func (x *crowd) count(server string, o session.Owner) string {
	x.Helper()
	target := x.target
	target.ID = server
	return textOf(x.T, x.c, target, Call{Name: "count", Owner: o})
}

// running returns the number of processes of each agent.
func (x *crowd) running() map[string]int {
	x.c.programs.mu.Lock()
	defer x.c.programs.mu.Unlock()
	n := map[string]int{}
	for p := range x.c.programs.all {
		n[p.key.Owner.Agent]++
	}
	return n
}

// begin begins a call that runs until the caller calls end. Then end returns the error of the call.
func (x *crowd) begin(server string, o session.Owner) (end func() error) {
	x.Helper()
	isRunning, answer, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	client := mcp.Client{Capabilities: json.RawMessage(`{"elicitation":{}}`), Ask: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		close(isRunning)
		<-answer
		return json.RawMessage(`{"action":"accept"}`), nil
	}}
	target := x.target
	target.ID, target.Asks = server, AsksRelay
	go func() {
		raw, err := x.c.Call(x.Context(), target, Call{Name: "ask", Owner: o, Client: client, Arguments: json.RawMessage(`{"text":"elicitation/create"}`)})
		if err == nil && !strings.Contains(string(raw), "accept") {
			err = errors.New(string(raw))
		}
		ended <- err
	}()
	select {
	case <-isRunning:
	case err := <-ended:
		x.Fatalf("the call on %s ended: %v", server, err)
	}
	return func() error { close(answer); return <-ended }
}

func client(agent, name string) session.Owner {
	return session.Owner{Way: "token", Agent: agent, Client: name}
}

// One agent opens several client sessions with each of two servers. Another agent still gets a
// process, even when several agents use all processes.
func TestProgramsOfManySessions(t *testing.T) {
	const places, ofAgent = 9, 4
	x := newCrowd(t, stdiotest.Legacy, places, ofAgent)
	flood := func(agent string) {
		for i := range 3 {
			for server := range 2 {
				x.count(fmt.Sprint("s", server), client(agent, fmt.Sprint("client ", i)))
			}
		}
	}
	flood("heavy")
	first := x.count("s0", client("light", ""))
	if n := x.running(); n["heavy"] != ofAgent || n["light"] != 1 {
		t.Errorf("processes %v", n)
	}
	flood("heavy 2")
	flood("heavy 3")
	if n, all := x.running(), x.c.programs.host.Running(); all != places || n["heavy"]+n["heavy 2"]+n["heavy 3"] != places-1 {
		t.Errorf("%d processes, %v", all, n)
	}
	second := x.count("s1", client("light", ""))
	if again := x.count("s0", client("light", "")); again != strings.Replace(first, "1 of", "2 of", 1) || !strings.HasPrefix(second, "1 of") {
		t.Errorf("the other agent's calls = %q, %q and %q, want its first process and a second one",
			first, again, second)
	}
	if n, all := x.running(), x.c.programs.host.Running(); all != places || n["light"] != 2 {
		t.Errorf("%d processes, %v", all, n)
	}
}

// A process never ends while a call runs in it. While all processes are in use, other calls are
// refused with a reason, and the gateway's health shows this.
func TestProgramsInUse(t *testing.T) {
	x := newCrowd(t, stdiotest.Legacy, 3, 2)
	var ends []func() error
	for _, server := range []string{"a", "b"} {
		ends = append(ends, x.begin(server, client("heavy", server)))
	}
	refused := func(server string, o session.Owner) {
		t.Helper()
		_, err := x.call(server, o, "echo")
		failed := callError(t, err)
		want := "MCP server '" + server + "' needs a process, and all that may run for this agent now are in use. The call was not carried out and the gateway does not repeat it: call again shortly."
		if failed.Message(server) != want || failed.Outcome.Reason != outcome.ReasonNoProcess {
			t.Errorf("Call = %s (%s)", failed.Message(server), failed.Outcome.Error)
		}
	}
	full := func(want bool) {
		t.Helper()
		if since, n := x.c.ProgramsFull(); since.IsZero() == want || n != 3 {
			t.Errorf("full since %v, %d", since, n)
		}
	}
	refused("c", client("heavy", "c")) // the agent has its maximum
	full(false)
	ends = append(ends, x.begin("a", client("light", "")))
	full(false)
	for range breakAfter {
		refused("a", client("third", ""))
	}
	full(true)
	if n := x.running(); n["heavy"] != 2 || n["light"] != 1 {
		t.Errorf("processes %v", n)
	}
	if err := ends[0](); err != nil {
		t.Errorf("a running call failed: %v", err)
	}
	full(false)
	// succeeds, because the server's breaker has not counted the refusals
	x.count("a", client("third", ""))
	full(false)
	for _, end := range ends[1:] {
		if err := end(); err != nil {
			t.Errorf("a running call failed: %v", err)
		}
	}
	if n := x.running(); n["heavy"] != 1 || n["light"] != 1 || n["third"] != 1 {
		t.Errorf("processes %v", n)
	}
}

// If all callers are one agent, each client session counts separately.
func TestProgramsOfAnonymousClients(t *testing.T) {
	x := newCrowd(t, stdiotest.Legacy, 30, 3)
	as := func(name string) session.Owner { return session.Owner{Way: "none", Agent: "anonymous", Client: name} }
	first := x.count("s", as("first"))
	for i := range 20 {
		x.count("s", as(fmt.Sprint("client ", i)))
	}
	if again := x.count("s", as("first")); again != strings.Replace(first, "1 of", "2 of", 1) {
		t.Errorf("%q after %q: another session took the process of the first session", again, first)
	}
	for server := range 10 {
		x.count(fmt.Sprint("s", server), as("greedy"))
	}
	if n := x.c.programs.host.Running(); n != 21+3 {
		t.Errorf("%d processes run", n)
	}
	if again := x.count("s", as("first")); again != strings.Replace(first, "1 of", "3 of", 1) {
		t.Errorf("%q after %q", again, first)
	}
}

// If a session lost its process, its next result says so, once. The other bytes of the result stay
// unchanged.
func TestProgramsLost(t *testing.T) {
	const note = "Note: the gateway ended the idle process of MCP server 'a' to make room for another one. " +
		"This call ran in a new process: what the server kept in memory for this session is gone."
	whole := `{"resultType":"complete","content":[{"type":"text","text":"hi"}],  "big":9007199254740993,"x":{"b":1,"a":2}}`
	noted := strings.Replace(whole, `"hi"}]`, `"hi"},{"type":"text","text":"`+note+`"}]`, 1)
	for _, kind := range []string{stdiotest.Legacy, stdiotest.Modern} {
		x := newCrowd(t, kind, 10, 1)
		echo := func(server, want string) {
			t.Helper()
			if raw, err := x.call(server, client("one", ""), "echo"); err != nil || string(raw) != want {
				t.Errorf("%s: echo of %s = %s, %v; want %s", kind, server, raw, err, want)
			}
		}
		echo("a", whole)
		echo("b", whole) // replaces a's program
		echo("a", noted)
		echo("a", whole)
		echo("b", strings.Replace(noted, "'a'", "'b'", 1))
		_, err := x.call("a", client("one", ""), "no such tool")
		rpc, ok := errors.AsType[*outcome.RPCError](err)
		if !ok || rpc.Message != "Method not found. "+note {
			t.Errorf("%s: error of the tool = %v, want it with the note", kind, err)
		}
		if _, err = x.call("a", client("one", ""), "die"); err == nil {
			t.Fatal("the call of die succeeded")
		}
		echo("a", whole) // no note: the previous error already said that the program ended
	}
}

// The number of programs never exceeds the limit, even if many start at the same time.
func TestProgramsAtOnceAreBounded(t *testing.T) {
	x := newCrowd(t, stdiotest.Legacy, 4, 2)
	var wg sync.WaitGroup
	var mu sync.Mutex
	served := 0
	for agent := range 6 {
		for server := range 4 {
			wg.Go(func() {
				_, err := x.call(fmt.Sprint("s", server), client(fmt.Sprint("agent ", agent), ""), "echo")
				if n := x.running(); len(n) > 4 || n[fmt.Sprint("agent ", agent)] > 2 {
					t.Errorf("processes %v", n)
				}
				mu.Lock()
				defer mu.Unlock()
				if failed, ok := errors.AsType[*outcome.CallError](err); ok && failed.Outcome.Reason != outcome.ReasonNoProcess {
					t.Errorf("agent %d on s%d: %v", agent, server, err)
				} else if !ok {
					served++
				}
			})
		}
	}
	wg.Wait()
	if served < 4 {
		t.Errorf("%d calls were served", served)
	}
}

// The number of records of lost sessions is bounded. One agent cannot displace another agent's
// records.
func TestProgramsLostAreBounded(t *testing.T) {
	ps := newPrograms(nil, nil, nil)
	key := func(agent, client string) entryKey {
		return entryKey{session.Key{Server: "s", Owner: session.Owner{Way: "token", Agent: agent, Client: client}}, false}
	}
	ps.lose(key("light", ""))
	for i := range 2 * maxLost {
		ps.lose(key("heavy", fmt.Sprint(i)))
	}
	if len(ps.lost) != maxLost || !ps.takeLost(key("light", "")) || ps.takeLost(key("light", "")) || ps.hasLost(key("heavy", "0")) {
		t.Errorf("%d records of lost sessions, want %d; or records of the wrong agent",
			len(ps.lost), maxLost)
	}
}
