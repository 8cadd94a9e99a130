package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A page that a stateless server asks for gets the id that the client's protocol requires.
func TestHandshakeClientOpensPage(t *testing.T) {
	const page = `{"mode":"url","message":"Connect.","url":"https://x.example/?n=1.0"`
	for _, tt := range []struct{ name, params, want string }{
		{"without id", page + `}`, page + `,"elicitationId":"`},
		{"invalid id", page + `,"elicitationId":7}`, page + `,"elicitationId":"`},
		{"empty id", page + `,"elicitationId":""}`, page + `,"elicitationId":"`},
		{"with id", page + `,"elicitationId":"e1"}`, page + `,"elicitationId":"e1"}`},
		{"form", `{"mode":"form","message":"?"}`, `{"mode":"form","message":"?"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			question := `{"method":"elicitation/create","params":` + tt.params + `}`
			asks := `{"resultType":"input_required","inputRequests":{"q":` + question + `}}`
			a := pendingQuestion(t, "", true, func(
				_ context.Context, _ upstream.Target, c upstream.Call,
			) (json.RawMessage, error) {
				if c.Rest.Get("inputResponses") != nil {
					return json.RawMessage(complete), nil
				}
				return json.RawMessage(asks), nil
			})
			a.Modern = false
			client, got := able(), ""
			client.Ask = func(
				_ context.Context, _ string, params json.RawMessage,
			) (json.RawMessage, error) {
				got = string(params)
				return json.RawMessage(`{"action":"accept"}`), nil
			}
			raw, err := a.do(t.Context(), client, "act", `{}`, "")
			if err != nil || string(raw) != complete {
				t.Errorf("got %s, %v", raw, err)
			}
			if !strings.HasPrefix(got, tt.want) || strings.HasSuffix(got, `"elicitationId":""}`) {
				t.Errorf("asked %s, want %s", got, tt.want)
			}
		})
	}
}
