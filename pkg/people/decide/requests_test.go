package decide_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// withRequests returns a fixture with a tool for each kind of lock. In fs, read_file is approved,
// and a list denies format_disk. In mail, send and wipe wait, and a policy denies read_drafts. In
// pay, each call of send_money waits for a person. The server old is disabled.
func withRequests(t testing.TB) *fixture {
	t.Helper()
	f := newFixture(t)
	f.Serve("mail", `{"name":"send"}`, `{"name":"wipe"}`, `{"name":"read_drafts"}`)
	f.Serve("old", `{"name":"relic"}`)
	f.Serve("pay", `{"name":"send_money"}`)
	const cfg = `{"mcpServers": {
		"fs": {"url": "https://fs.example.com/mcp", "disabled_tools": ["format_*"]},
		"mail": {"url": "https://mail.example.com/mcp", "approval": "manual"},
		"pay": {"url": "https://pay.example.com/mcp"},
		"old": {"url": "https://old.example.com/mcp"}
	}, "tools": {"confirm": ["pay:*"]}, "gateway": {"requests": true}}`
	f.Put(config.Key, cfg)
	f.Sync()
	f.Put(config.Key, strings.Replace(cfg, `old.example.com/mcp"`, `old.example.com/mcp", "enabled": false`, 1))
	f.Sync()
	f.Decide.Sealer = newSealer()
	f.told = new(notifier)
	f.Decide.Notifier = f.told
	f.Open()
	f.service = f.Console.Service
	return f
}

// A notifier stores the events that people are notified of.
type notifier struct {
	mu     sync.Mutex
	events []notify.Event
}

func (l *notifier) Notify(_ context.Context, e notify.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// take returns the events since the last take, in short form.
func (l *notifier) take() (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		out = append(out, strings.TrimSpace(fmt.Sprint(e.Kind, " ", e.Items, " ", e.Agent, " ", e.Verdict, " ", e.By)))
	}
	l.events = nil
	return out
}

// agentNamed returns an agent of kim with the given id and its own JWT.
func agentNamed(id string) request.Agent {
	return request.Agent{Way: identity.WayJWT, ID: id, Human: "kim", Subject: "https://login.example.com " + id}
}

// asks makes an agent request the current definition of a tool, and returns the id of the request.
// If arguments is not empty, the request is for one call with these arguments.
func (f *fixture) asks(a request.Agent, id, arguments string) string {
	f.T.Helper()
	return f.Asks(a, id, "for the report", arguments)
}

// request returns a request as the service shows it.
func (f *fixture) request(id string) decide.Request {
	f.T.Helper()
	r, err := f.service.Request(f.ctx, id)
	require.OK(f.T, err)
	return r
}

// as returns a decision with the verdict v about the request as the service shows it now.
func (f *fixture) as(id string, v request.Verdict) decide.RequestDecision {
	r := f.request(id)
	dec := decide.RequestDecision{Verdict: v, Hash: r.Hash, Args: r.Args, Tool: r.Item().String(), Reason: "use staging"}
	if v == request.Allowed {
		dec.Minutes = 60
	}
	return dec
}

// decides sends the decision that as returns.
func (f *fixture) decides(id string, v request.Verdict) (decide.Request, error) {
	f.T.Helper()
	return f.service.DecideRequest(f.ctx, id, f.as(id, v))
}

func TestRequestApproved(t *testing.T) {
	f := withRequests(t)
	one, other := f.asks(agentNamed("a"), "mail:send", ""), f.asks(agentNamed("b"), "mail:send", "")
	if r := f.request(one); r.State != decide.RequestOpen || r.Locked != lock.PendingApproval || len(r.Alike) != 1 || r.Alike[0] != other {
		t.Fatalf("before: %+v", r)
	}
	r, err := f.decides(one, request.Approved)
	if err != nil || r.State != decide.RequestApproved || r.Decided.By != "ann" || len(r.Unsettled) > 0 {
		t.Fatalf("after: %+v, %v", r, err)
	}
	if r := f.request(other); r.State != decide.RequestApproved || r.Decided.By != "ann" {
		t.Errorf("the request of the other agent is %+v", r)
	}
	if got := f.Record("mail:send"); got.State != approval.Approved || got.By != "ann" || got.Note != "use staging" {
		t.Errorf("the record is %+v", got)
	}
	_, err = f.decides(other, request.Declined)
	if e := f.service.Explain(f.ctx, "test", err); e.Status != http.StatusConflict || !strings.Contains(e.Detail, "ann decided about this request") {
		t.Errorf("decided again: %v", e)
	}
}
