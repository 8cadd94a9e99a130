package gateway_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// actsFor returns the agent on behalf of a user; "": without a user.
func actsFor(a identity.Agent, user string) identity.Agent {
	a.Way = identity.WayJWT
	if a.Human = user; user != "" {
		a.Subject = "https://login.example.com " + user
	}
	return a
}

// Only the user who got a question can answer it. Another user, and the agent without a user, get
// the same answer as another agent, and nothing is sent.
func TestStateOfAnotherUser(t *testing.T) {
	asks := func(ctx context.Context, _ upstream.Target, c upstream.Call) (json.RawMessage, error) {
		answer, err := c.Client.Ask(ctx, mcp.MethodElicit, json.RawMessage(`{}`))
		if ctx.Err() != nil {
			return nil, &outcome.CallError{Delivered: true, Outcome: outcome.Outcome{Reason: outcome.ReasonAborted}}
		}
		return json.RawMessage(fmt.Sprintf(`{"content":[],"got":%s}`, answer)), err
	}
	for name, start := range map[string]func(*testing.T) *asker{
		"of a stateless server":      func(t *testing.T) *asker { return pendingQuestion(t, "", false, stateless) },
		"of a parked call":           func(t *testing.T) *asker { return pendingQuestion(t, "", true, asks) },
		"of a call that is repeated": func(t *testing.T) *asker { return pendingQuestion(t, `"elicitation": "replay"`, false, asks) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := start(t)
				ann := actsFor(a.Agent, "ann")
				a.Agent = ann
				look := func(more string) (json.RawMessage, error) { return a.do(t.Context(), able(), "look", `{}`, more) }
				asked, back := a.asked(look("")), ""
				for key := range asked.Asks {
					back = asked.back(key, accept)
				}
				sent := len(a.sent)
				another := actsFor(a.Agent, "")
				another.ID = "another"
				for _, who := range []identity.Agent{another, actsFor(ann, "bob"), {ID: ann.ID, Way: ann.Way, Servers: ann.Servers, Tiers: ann.Tiers}} {
					a.Agent = who
					raw, err := look(back)
					a.fails(raw, err, "requestState is not one that this gateway gave for this request")
				}
				if len(a.sent) != sent {
					t.Errorf("%d requests were sent", len(a.sent)-sent)
				}
				a.Agent = ann
				if raw, err := look(back); err != nil || strings.Contains(string(raw), "input_required") {
					t.Errorf("ann gets %s, %v", raw, err)
				}
			})
		})
	}
}

// A state of an earlier version, which had no users, works only for an agent without a user.
func TestStateOfAnEarlierVersion(t *testing.T) {
	a := pendingQuestion(t, "", false, stateless)
	a.Agent = actsFor(a.Agent, "")
	h := sha256.New()
	for _, part := range []string{"s", "https://s.example.com/mcp", "", "act", `{"n":1}`, a.Agent.Way, a.Agent.ID, ""} {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	plain, err := json.Marshal(map[string]any{"b": h.Sum(nil), "e": time.Now().Add(time.Hour).Unix(), "u": "its own"})
	require.OK(t, err)
	state, err := sealer(1).Seal(t.Context(), seal.State, plain)
	require.OK(t, err)
	back := required{State: state}.back("q", accept)
	if raw, err := a.act(back); err != nil || string(raw) != complete {
		t.Errorf("without a user: %s, %v", raw, err)
	}
	a.Agent = actsFor(a.Agent, "ann")
	raw, err := a.act(back)
	a.fails(raw, err, "requestState is not one that this gateway gave for this request")
}
