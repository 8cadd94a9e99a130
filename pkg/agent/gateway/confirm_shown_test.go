package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Only the parts that the person saw go upstream with a confirmed call. The gateway drops answers
// without a question, and members or metadata that the agent adds.
func TestConfirmedCallTakesNothingAlong(t *testing.T) {
	for _, modern := range []bool{true, false} {
		u := unlock(t)
		var sent []upstream.Call
		u.Upstream = &scripted{u.Servers, func(_ context.Context, _ upstream.Target, c upstream.Call) (json.RawMessage, error) {
			sent = append(sent, c)
			return json.RawMessage(`{"content":[]}`), nil
		}}
		u.Restart()
		c := u.human(modern)
		_, _ = u.as(c, "pay", "")
		u.decides(u.asked().List[0].ID, request.Confirmed, 0, "")
		_, err := u.as(c, "pay", `,"inputResponses":{"q":{"action":"accept","content":{"amount":1000000}}},"amount":7,`+
			`"_meta":{"com.example/amount":9,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","progressToken":1}`)
		require.OK(t, err)
		if len(sent) != 1 || len(sent[0].Rest) != 0 || sent[0].Meta.Get("com.example/amount") != nil || sent[0].Meta.Get("traceparent") == nil {
			t.Errorf("modern %v: sent %+v", modern, sent)
		}
	}
}

// A call that waits for an answer does not continue after its confirmation has ended, and no other
// person can continue it.
func TestConfirmedCallThatAsksEnds(t *testing.T) {
	question := json.RawMessage(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form","message":"Sure?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"theirs"}`)
	for name, ends := range map[string]func(u *unlocking){
		"stopped, and the stop undone": func(u *unlocking) {
			u.Clock.Wait(time.Second)
			server := stop.Target{Server: "s"}
			_, err := stop.NewStore(u.Approvals).Change(u.T.Context(), func(s stop.Stops) (stop.Stops, error) {
				return s.Add(stop.Stop{Target: server, By: "kim", Reason: "key leaked", At: u.Clock.Now()})
			})
			require.OK(u.T, err)
			_, err = stop.NewStore(u.Approvals).Change(u.T.Context(), func(s stop.Stops) (stop.Stops, error) { return s.Undo(server) })
			require.OK(u.T, err)
		},
		"another person": func(u *unlocking) {
			u.Agent = identity.Agent{ID: u.Agent.ID, Way: u.Agent.Way, Human: "eve", Subject: "https://idp.example.com eve", Tiers: u.Agent.Tiers, Servers: u.Agent.Servers}
		},
	} {
		u := unlock(t)
		sent := 0
		u.Upstream = &scripted{u.Servers, func(_ context.Context, _ upstream.Target, _ upstream.Call) (json.RawMessage, error) {
			sent++
			return question, nil
		}}
		u.Restart()
		c := u.human(true)
		c.Capabilities = json.RawMessage(`{"elicitation":{"form":{},"url":{}}}`)
		_, _ = u.as(c, "pay", "")
		u.decides(u.asked().List[0].ID, request.Confirmed, 0, "")
		raw, err := u.as(c, "pay", "")
		require.OK(t, err)
		state := require.JSON[struct{ RequestState string }](t, string(raw)).RequestState
		ends(u)
		raw, err = u.as(c, "pay", fmt.Sprintf(`,"requestState":%q,"inputResponses":{"q":{"action":"accept","content":{}}}`, state))
		want := "has ended"
		if name == "another person" {
			want = "requestState is not one that this gateway gave for this request"
		}
		if got := fmt.Sprint(string(raw), err); sent != 1 || !strings.Contains(got, want) {
			t.Errorf("%s: %d sent, %s", name, sent, got)
		}
	}
}
