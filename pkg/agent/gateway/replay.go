package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A replay is a call that the gateway repeats each time its client comes back with an answer. It is
// for processes in which a call cannot wait. A replay has the answers so far. A question without an
// answer cancels the call.
type replay struct {
	client  mcp.Client
	cancel  context.CancelFunc
	answers map[string]json.RawMessage // by the key of the question

	mu    sync.Mutex
	asked rawjson.Object // open questions from [mcp.InputRequest], by key
}

// replay makes a call with the known answers, and returns its result or its next question.
func (s *Session) replay(ctx context.Context, t upstream.Target, c upstream.Call, st inputState, answers map[string]json.RawMessage) (json.RawMessage, error) {
	if st.Round >= maxRounds {
		return nil, &inputError{askTooOften}
	}
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	x := &replay{client: c.Client, cancel: cancel, answers: map[string]json.RawMessage{}}
	maps.Copy(x.answers, st.Answers)
	for _, key := range st.Asked { // only open questions can have answers
		if a := answers[key]; a != nil {
			x.answers[key] = a
		}
	}
	c.Client.Ask = x.ask
	raw, err := s.callServer(own, t, c)
	questions := x.questions()
	if err == nil || len(questions) == 0 || ctx.Err() != nil {
		if err != nil {
			return nil, err
		}
		return s.sealQuestion(ctx, t, c, raw)
	}
	next := inputState{Bound: callHash(t, c), Replay: true, Round: st.Round + 1, Answers: x.answers}
	for _, q := range questions {
		next.Asked = append(next.Asked, q.Name)
	}
	state, message := s.sealState(ctx, next)
	if message != "" {
		return nil, &inputError{message}
	}
	s.event.Outcome = audit.InputRequired
	return inputRequired(questions, state), nil
}

// ask implements [mcp.Client].
func (x *replay) ask(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	key := questionKey(method, params)
	if a := x.answers[key]; a != nil {
		return a, nil
	}
	if refused := mcp.UndeclaredQuestion(method, params, x.client.Capabilities); refused != nil {
		return nil, refused
	}
	x.mu.Lock()
	x.asked.Set(key, mcp.InputRequest(method, params))
	x.mu.Unlock()
	x.cancel()
	return nil, context.Canceled
}

func (x *replay) questions() rawjson.Object {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.asked)
}

// questionKey returns a key of a question that stays the same when the gateway repeats the call.
// The key omits metadata, because metadata belongs to one connection.
func questionKey(method string, params json.RawMessage) string {
	if o, err := rawjson.Split(params, rawjson.Lenient); err == nil {
		o.Delete("_meta")
		params = o.Bytes()
	}
	if canonical, err := tool.Canonical(params); err == nil {
		params = canonical
	}
	sum := sha256.Sum256(append([]byte(method+"\x00"), params...))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}
