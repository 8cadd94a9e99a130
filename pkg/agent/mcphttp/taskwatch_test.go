package mcphttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// A board is a backend of tasks whose states a test sets.
type board struct {
	*backend
	mu     sync.Mutex
	states map[string]string // the members of a task, by handle; "": the tool is locked
	polls  int
}

func (b *board) Open(_ context.Context, c gateway.Caller) (mcphttp.Session, error) {
	return boardSession{b, c}, nil
}

// A boardSession is the view of one request.
type boardSession struct {
	*board
	caller gateway.Caller
}

func (b boardSession) Offers() gateway.Offers { return gateway.Offers{Tasks: true} }

func (b boardSession) AnswerTask(
	_ context.Context,
	r mcp.Request,
	_ mcp.Client,
) (json.RawMessage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.polls++
	state := b.states[r.Task]
	switch state {
	case "":
		return nil, &mcp.Error{Code: mcp.CodeLocked, Message: "locked"}
	case "away":
		return nil, &mcp.Error{Code: mcp.CodeUpstream, Message: "no answer"}
	}
	b.caller.Event.Tool, b.caller.Event.Routine = "s:act", strings.Contains(state, "working")
	return fmt.Appendf(nil, `{%s,"taskId":%q}`, state, r.Task), nil
}

// set sets the state of a task, and returns how many polls there were since its last call.
func (b *board) set(handle, state string) (polls int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.states[handle] = state
	polls, b.polls = b.polls, 0
	return polls
}

func TestListenToTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{backend: &backend{}, states: map[string]string{
			"a": `"status":"working","pollIntervalMs":20000`,
			"b": `"status":"completed","result":{"content":[]}`,
		}}
		var lines ledger
		o := laptop()
		o.Audit = &lines
		h := newAuthHandler(t, b, authenticator(func() (identity.Agent, error) {
			return identity.Agent{ID: "a", Way: "token"}, nil
		}), o)
		const filter = `"notifications":{"taskIds":["a","locked","b"]}`
		refused := send(h, modern.request(t, "subscriptions/listen", filter))
		refused.wantError(t, 400, mcp.CodeMissingCapability, "7")

		c := call(t, h, modern.declaring().request(t, "subscriptions/listen", filter))
		if got := c.next(); !strings.HasSuffix(got, `"notifications":{"taskIds":["a","b"]}}}`) {
			t.Errorf("acknowledged %s", got)
		}
		says := func(want string) {
			t.Helper()
			want = `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"_meta":{` +
				`"io.modelcontextprotocol/subscriptionId":7},` + want + `}}`
			if got := c.next(); got != want {
				t.Errorf("message = %s, want %s", got, want)
			}
		}
		says(`"status":"working","pollIntervalMs":20000,"taskId":"a"`)
		says(`"status":"completed","result":{"content":[],"resultType":"complete","_meta":{` +
			`"io.modelcontextprotocol/serverInfo":{"name":"gate","version":"1"}}},"taskId":"b"`)
		got := lines.take()
		if len(got) != 2 || got[0].Decision != "refused" || got[1].Decision != "allowed" ||
			got[1].Tool != "s:act" || got[1].Method != "tasks/get" || !got[1].IsAboutTask() {
			t.Errorf("audit: %+v", got)
		}

		b.set("a", `"status":"working","pollIntervalMs":0`)
		says(`"status":"working","pollIntervalMs":0,"taskId":"a"`)
		b.set("a", "away")
		time.Sleep(14 * time.Second) // later, a comment in the stream would wait for the reader
		if polls := b.set("a", "away"); polls < 2 || polls > 4 {
			t.Errorf("%d polls in 14 s, want one every 5 s after a failure", polls)
		}
		start := time.Now()
		b.set("a", `"status":"cancelled"`)
		if says(`"status":"cancelled","taskId":"a"`); time.Since(start) > 10*time.Second {
			t.Errorf("the end was reported after %v", time.Since(start))
		}
		b.set("a", `"status":"working"`)
		b.set("b", `"status":"working"`)
		time.Sleep(14 * time.Second)
		if polls := b.set("a", ""); polls > 0 {
			t.Errorf("%d polls after the end of all tasks", polls)
		}
		if got := lines.take(); len(got) != 1 {
			t.Errorf("audit: %+v", got)
		}
	})
}

// A task whose tool is locked meanwhile is not polled any more.
func TestListenToLockedTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &board{backend: &backend{}, states: map[string]string{"a": `"status":"working"`}}
		const filter = `"notifications":{"taskIds":["a"]}`
		r := modern.declaring().request(t, "subscriptions/listen", filter)
		c := call(t, newHandler(t, b, laptop()), r)
		c.next() // acknowledged
		c.next() // the first state
		b.set("a", "")
		time.Sleep(7 * time.Second)
		if polls := b.set("a", ""); polls == 0 {
			t.Error("no poll of the task")
		}
		time.Sleep(7 * time.Second)
		if polls := b.set("a", ""); polls > 0 {
			t.Errorf("%d polls of a locked task", polls)
		}
	})
}
