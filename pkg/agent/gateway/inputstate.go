package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// If a stateless client has to give input, it gets a result that asks for the input. The client
// then repeats its request with the answers and the result's state (multi round-trip requests). The
// gateway seals this state together with the server's state and the request. So nobody can forge
// the state, and no other caller, tool or arguments can use it.

const (
	stateTime = time.Hour // how long a client may take to come back
	maxState  = 40 << 10  // bytes before sealing; a sealed text may be 50 % longer
)

// The members of params that come with answers.
const (
	inputResponses = "inputResponses"
	requestState   = "requestState"
)

// An inputState is the content of a client's state.
type inputState struct {
	Bound   []byte `json:"b"` // from callHash
	Expires int64  `json:"e"` // Unix time

	Upstream json.RawMessage `json:"u,omitempty"` // the server's own state, a JSON string; nil: none

	CallID  string `json:"p,omitempty"` // id of the pending call
	Process string `json:"i,omitempty"` // the process of that call
	Round   int    `json:"r,omitempty"` // how many times the call has asked, or was repeated

	Replay  bool                       `json:"y,omitempty"` // repeat the call with the answers
	Answers map[string]json.RawMessage `json:"a,omitempty"` // earlier answers, by question
	Asked   []string                   `json:"q,omitempty"` // the latest questions

	Grant string `json:"g,omitempty"` // id of the request that confirmed the call
	Turn  int    `json:"n,omitempty"` // how many times the call came back
}

// callHash returns a hash of a request and its caller. A repeated request must have the same
// hash, but the format of its JSON may differ.
func callHash(t upstream.Target, c upstream.Call) []byte {
	arguments, err := tool.Canonical(c.Arguments)
	if err != nil { // without a canonical form, a repeated request must have the same bytes
		arguments = c.Arguments
	}
	request := []string{t.ID, t.URL, c.Method, c.Name, string(arguments)}
	sum := session.Hash(append(request, c.Owner.Parts()...)...)
	return sum[:]
}

// Texts about a call that cannot continue.
const (
	sideEffects = "The call may have had side effects. Check before you call again."
	notResent   = "No request was sent. The earlier call may have had side effects. " +
		"Check before you call the tool again, and do not resend the answer."
	stateExpired = "The tool's question is too old. " + notResent
	stateNoKey   = "The gateway cannot read its key for this answer. No request was sent. Send the same answer again shortly."
	askNoKey     = "The tool asks for input, but this gateway has no key to pass the question on: its operator must set PORTCULLIS_SEAL_KEY. " + sideEffects
	askTooLong   = "The tool asks for input, but its question is too long to pass on. " + sideEffects
	askOff       = "The tool asks for input, but the gateway's operator does not allow that. " + sideEffects
	askTooOften  = "The tool asked for input too often, and the gateway cancelled the call. " + sideEffects
)

// errForeignState refuses a state that belongs to another request.
var errForeignState = &mcp.Error{
	Code: mcp.CodeInvalidParams,
	Message: "requestState is not one that this gateway gave for this request: it goes with the same tool, arguments, agent and user, unchanged. " +
		"Nothing was sent to the server.",
}

// sealState returns the state for a client, as a JSON string. If it fails, message is the text for
// the agent.
func (s *Session) sealState(ctx context.Context, st inputState) (state json.RawMessage, message string) {
	if s.g.o.Sealer == nil {
		return nil, askNoKey
	}
	st.Expires, st.Grant, st.Turn = s.g.o.Now().Add(stateTime).Unix(), s.confirm.grant, s.confirm.turn
	plain, err := json.Marshal(st)
	if err != nil || len(plain) > maxState {
		return nil, askTooLong
	}
	sealed, err := s.g.o.Sealer.Seal(ctx, seal.State, plain)
	if err != nil {
		s.g.logNoKey(ctx, err)
		return nil, askNoKey
	}
	return rawjson.Quote(sealed), ""
}

// openState reads the state that a client sent with a request; bound is that request's hash. err
// refuses the request. message is for the agent, which may correct its request.
func (s *Session) openState(ctx context.Context, state json.RawMessage, bound []byte) (st inputState, message string, err error) {
	sealed := rawjson.Text(state)
	if s.g.o.Sealer == nil || sealed == "" {
		return st, "", errForeignState
	}
	plain, err := s.g.o.Sealer.Open(ctx, seal.State, sealed)
	if errors.Is(err, seal.ErrNoKey) {
		s.g.logNoKey(ctx, err)
		return st, stateNoKey, nil
	}
	if err != nil || json.Unmarshal(plain, &st) != nil || string(st.Bound) != string(bound) {
		return st, "", errForeignState
	}
	if s.g.o.Now().Unix() > st.Expires {
		return st, stateExpired, nil
	}
	return st, "", nil
}

// asksInput reports whether a result asks for input. A quick check skips most results.
func asksInput(raw json.RawMessage) bool {
	return bytes.Contains(raw, []byte(mcp.ResultInputRequired)) && rawjson.Text(rawjson.Get(raw, "resultType")) == mcp.ResultInputRequired
}

// inputRequired makes a result that asks for input.
func inputRequired(requests rawjson.Object, state json.RawMessage) json.RawMessage {
	return rawjson.Object{
		{Name: "resultType", Value: rawjson.Quote(mcp.ResultInputRequired)},
		{Name: "inputRequests", Value: requests.Bytes()},
		{Name: requestState, Value: state},
	}.Bytes()
}

// answersOf returns the client's answers by question, without values that are not objects.
func answersOf(responses json.RawMessage) map[string]json.RawMessage {
	o, _ := rawjson.Split(responses, rawjson.Lenient) // a value that is not an object has no answers
	out := map[string]json.RawMessage{}
	for _, m := range o {
		if m.Value[0] == '{' {
			out[m.Name] = m.Value
		}
	}
	return out
}
