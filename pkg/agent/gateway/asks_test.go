package gateway_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/seal"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A scripted is an upstream whose calls a test controls.
type scripted struct {
	*gatewaytest.Servers
	call func(context.Context, upstream.Target, upstream.Call) (json.RawMessage, error)
}

func (s *scripted) Call(ctx context.Context, t upstream.Target, c upstream.Call) (json.RawMessage, error) {
	return s.call(ctx, t, c)
}

// sealer returns a Sealer whose key is derived from c.
func sealer(c byte) *seal.Sealer {
	return seal.New(func(context.Context) (seal.Keys, error) {
		return seal.Keys{Current: bytes.Repeat([]byte{c}, seal.MinKey)}, nil
	})
}

// An asker is a gateway with one server, whose calls ask the client questions.
type asker struct {
	*fixture
	up   *scripted
	mu   sync.Mutex
	sent []upstream.Call
}

// pendingQuestion returns an asker whose clients are stateless. call answers its calls, settings
// are the server's settings, and holds says whether a call can wait for its client.
func pendingQuestion(t testing.TB, settings string, holds bool, call func(context.Context, upstream.Target, upstream.Call) (json.RawMessage, error)) *asker {
	a := &asker{fixture: serving(t, settings, "", def("act", "Acts.", ""), def("look", "Looks.", readOnly), def("other", "Acts, too.", ""))}
	a.Clock.Set(time.Time{}, 0)
	a.up = &scripted{a.Servers, func(ctx context.Context, t upstream.Target, c upstream.Call) (json.RawMessage, error) {
		a.mu.Lock()
		a.sent = append(a.sent, c)
		a.mu.Unlock()
		return call(ctx, t, c)
	}}
	a.Upstream = a.up
	a.Options.Sealer, a.Options.Holds = sealer(1), holds
	a.Modern = true
	a.Restart()
	return a
}

// able returns a client that can answer every question.
func able() mcp.Client {
	return mcp.Client{Capabilities: json.RawMessage(`{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{}}`)}
}

// do calls a tool of the server. more has further members of the params.
func (a *asker) do(ctx context.Context, client mcp.Client, tool, args, more string) (json.RawMessage, error) {
	a.T.Helper()
	variant := "call_tool_destructive"
	if tool == "look" {
		variant = "call_tool_read"
	}
	return a.Open().CallTool(ctx, parse(a.T, fmt.Sprintf(`{"name":%q,"arguments":{"name":"s:%s","args":%s}%s}`, variant, tool, args, more)), client)
}

// act calls the tool act.
func (a *asker) act(more string) (json.RawMessage, error) {
	a.T.Helper()
	return a.do(a.T.Context(), able(), "act", `{"n":1}`, more)
}

// A required is a parsed result that asks for input.
type required struct {
	Type  string                     `json:"resultType"`
	Asks  map[string]json.RawMessage `json:"inputRequests"`
	State string                     `json:"requestState"`
}

// asked checks that a result asks for input.
func (a *asker) asked(raw json.RawMessage, err error) required {
	a.T.Helper()
	var r required
	if err != nil || json.Unmarshal(raw, &r) != nil || r.Type != "input_required" || r.State == "" {
		a.T.Fatalf("got %s, %v; want a question", raw, err)
	}
	return r
}

// back returns the members of params with which a client answers r: the state, and the given
// answers, as key, result, ….
func (r required) back(answers ...string) string {
	var o rawjson.Object
	for i := 0; i < len(answers); i += 2 {
		o.Add(answers[i], []byte(answers[i+1]))
	}
	return fmt.Sprintf(`,"inputResponses":%s,"requestState":%q`, o.Bytes(), r.State)
}

const (
	foreign  = "requestState is not one that this gateway gave for this request"
	accept   = `{"action":"accept","content":{"n":9007199254740993}}`
	complete = `{"content":[{"type":"text","text":"done"}]}`
)

// fails returns a check that a request is refused with a text, as a result or an error.
func (a *asker) fails(text string) func(json.RawMessage, error) {
	return func(raw json.RawMessage, err error) {
		a.T.Helper()
		if e, ok := errors.AsType[*mcp.Error](err); ok {
			raw = json.RawMessage(e.Message)
		} else if err != nil || !strings.Contains(string(raw), `"isError":true`) {
			a.T.Errorf("got %s, %v; want a refusal", raw, err)
		}
		if !strings.Contains(string(raw), text) {
			a.T.Errorf("got %s, want %s", raw, text)
		}
	}
}

// stateless answers like a stateless server that asks once.
func stateless(_ context.Context, _ upstream.Target, c upstream.Call) (json.RawMessage, error) {
	if c.Rest.Get("inputResponses") == nil {
		return json.RawMessage(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"sure?"}}},"requestState":"its own"}`), nil
	}
	return json.RawMessage(complete), nil
}

func TestAskedByAResult(t *testing.T) {
	a := pendingQuestion(t, "", false, stateless)
	asked := a.asked(a.act(""))
	if strings.Contains(asked.State, "own") || string(asked.Asks["q"]) != `{"method":"elicitation/create","params":{"message":"sure?"}}` {
		t.Errorf("asked %+v", asked)
	}
	a.succeeds(complete)(a.act(asked.back("q", accept)))
	if got := string(a.sent[1].Rest.Bytes()); got != `{"inputResponses":{"q":`+accept+`},"requestState":"its own"}` {
		t.Errorf("sent %s", got)
	}
	if _, err := a.do(t.Context(), able(), "act", ` { "n" : 1.0 }`, asked.back("q", accept)); err != nil { // same arguments, other JSON
		t.Error(err)
	}
}

func TestStateOfAnotherRequest(t *testing.T) {
	a := pendingQuestion(t, "", false, stateless)
	asked := a.asked(a.act(""))
	back := asked.back("q", accept)
	sent := len(a.sent)
	refused := func(text string) func(json.RawMessage, error) {
		return func(raw json.RawMessage, err error) {
			t.Helper()
			a.fails(text)(raw, err)
			if len(a.sent) != sent {
				t.Errorf("%d requests were sent", len(a.sent)-sent)
			}
		}
	}
	refused(foreign)(a.do(t.Context(), able(), "other", `{"n":1}`, back))
	refused(foreign)(a.do(t.Context(), able(), "act", `{"n":2}`, back))
	elsewhere, err := sealer(1).Seal(t.Context(), seal.Session, []byte(`{}`))
	require.OK(t, err)
	for _, state := range []string{`"` + elsewhere + `"`, `"its own"`, `""`, `7`, `{}`} {
		refused(foreign)(a.act(`,"inputResponses":{},"requestState":` + state))
	}

	mine := a.Agent
	a.Agent.Way = "token"
	refused(foreign)(a.act(back))
	a.Agent = mine

	a.Options.Now = nil
	a.Clock.Set(time.Now().Add(61*time.Minute), 0)
	refused("is too old")(a.act(back))
	a.Clock.Set(time.Time{}, 0)

	a.Decide("s:act", "disable")
	refused("disabled_by_user")(a.act(back))
	a.Decide("s:act", "enable")

	a.Options.Sealer = sealer(2)
	a.Restart()
	refused(foreign)(a.act(back))

	a.Options.Sealer = seal.New(func(context.Context) (seal.Keys, error) { return seal.Keys{}, errors.New("out of reach") })
	a.Restart()
	refused("cannot read its key")(a.act(back))

	a.Options.Sealer = nil
	a.Restart()
	refused(foreign)(a.act(back))
}

// Without a key the gateway passes no question on. If a client sends an answer before any question,
// the answer goes to the server.
func TestAskedWithoutState(t *testing.T) {
	a := pendingQuestion(t, "", false, func(context.Context, upstream.Target, upstream.Call) (json.RawMessage, error) {
		return json.RawMessage(complete), nil
	})
	a.succeeds(complete)(a.act(`,"inputResponses":{"q":` + accept + `,"more":{}}`))
	if got := string(a.sent[0].Rest.Bytes()); got != `{"inputResponses":{"q":`+accept+`,"more":{}}}` {
		t.Errorf("sent %s", got)
	}
	a = pendingQuestion(t, "", false, stateless)
	a.Options.Sealer = nil
	a.Restart()
	a.fails("has no key")(a.act(""))

	a = pendingQuestion(t, `"elicitation": "off"`, true, stateless)
	a.fails("does not allow that")(a.act(""))

	a = pendingQuestion(t, "", false, func(context.Context, upstream.Target, upstream.Call) (json.RawMessage, error) {
		return json.RawMessage(`{"resultType":"input_required","requestState":"` + strings.Repeat("x", 50_000) + `"}`), nil
	})
	a.fails("too long to pass on")(a.act(""))
}

// In a handshake client's request, the members for a state have no meaning, and the gateway does
// not send them to a server.
func TestStateOfAHandshakeClient(t *testing.T) {
	a := pendingQuestion(t, "", true, func(context.Context, upstream.Target, upstream.Call) (json.RawMessage, error) {
		return json.RawMessage(complete), nil
	})
	a.Modern = false
	if raw, err := a.act(`,"inputResponses":{"q":{}},"requestState":"x","later":1`); err != nil || string(raw) != complete || string(a.sent[0].Rest.Bytes()) != `{"later":1}` {
		t.Errorf("got %s, %v; sent %s", raw, err, a.sent[0].Rest.Bytes())
	}
}

func TestHandshakeClientIsAsked(t *testing.T) {
	const unknown = "The call may have had side effects. Check before you call again."
	for _, tt := range []struct {
		name   string
		ask    func(context.Context, string, json.RawMessage) (json.RawMessage, error)
		result string // the server's result until it gets an answer
		want   string
		sent   int
	}{
		{"answers", func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			if method != mcp.MethodElicit || string(params) != `{"message":"sure?"}` {
				t.Errorf("asked %s %s", method, params)
			}
			return json.RawMessage(accept), nil
		}, "", complete, 2},
		{"refuses", func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return nil, &mcp.Error{Code: -1, Message: "not\nnow"}
		}, "", `the client refused to give it: \"not\\nnow\". ` + unknown, 1},
		{"does not answer", func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, "", "nobody gave it within 5 minutes. " + unknown, 1},
		{"is disconnected", func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return nil, errors.New("gone")
		},
			"", "the client could not be asked. " + unknown, 1},
		{"undeclared capability", nil, `{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"tools":[]}}}}`,
			"has not declared that it can give it: sampling", 1},
		{"too many questions", nil, `{"resultType":"input_required","inputRequests":{` + strings.Repeat(`"q":{"method":"roots/list"},`, 16) + `"q":{}}}`, "too long to pass on", 1},
		{"repeats without a question", nil, `{"resultType":"input_required","requestState":"busy"}`, "asked for input too often", 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := pendingQuestion(t, "", true, func(ctx context.Context, target upstream.Target, c upstream.Call) (json.RawMessage, error) {
					if tt.result != "" {
						return json.RawMessage(tt.result), nil
					}
					return stateless(ctx, target, c)
				})
				a.Modern = false
				client := able()
				client.Ask = func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
					return tt.ask(ctx, method, params)
				}
				raw, err := a.do(t.Context(), client, "act", `{}`, "")
				if err != nil || !strings.Contains(string(raw), tt.want) || len(a.sent) != tt.sent {
					t.Errorf("got %s, %v after %d requests; want %s after %d", raw, err, len(a.sent), tt.want, tt.sent)
				}
			})
		})
	}
}

// If client and server both use the handshake protocol, the gateway passes the server's question to
// the client, if the client has declared that it can answer.
func TestHandshakeServerAsksItsClient(t *testing.T) {
	a := pendingQuestion(t, "", true, func(ctx context.Context, _ upstream.Target, c upstream.Call) (json.RawMessage, error) {
		if _, err := c.Client.Ask(ctx, mcp.MethodListRoots, nil); err == nil {
			t.Error("Ask accepts roots, which the client has not declared")
		} else if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != mcp.CodeMissingCapability {
			t.Errorf("Ask for roots = %v, want a missing capability", err)
		}
		return c.Client.Ask(ctx, mcp.MethodElicit, json.RawMessage(`{}`))
	})
	a.Modern, a.Session = false, "client"
	client := mcp.Client{Capabilities: json.RawMessage(`{"elicitation":{}}`), Ask: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(accept), nil
	}}
	raw, err := a.do(t.Context(), client, "act", `{}`, "")
	if err != nil || string(raw) != accept || a.sent[0].Owner.Client != "client" {
		t.Errorf("got %s, %v", raw, err)
	}
}

func TestReplay(t *testing.T) {
	cancelled := 0
	ask := func(ctx context.Context, c upstream.Call, params string) (json.RawMessage, error) {
		answer, err := c.Client.Ask(ctx, mcp.MethodElicit, json.RawMessage(params))
		if err != nil && ctx.Err() != nil {
			cancelled++
			return nil, &outcome.CallError{Delivered: true, Outcome: outcome.Outcome{Reason: outcome.ReasonAborted}}
		}
		return answer, err
	}
	odd := 0
	script := func(ctx context.Context, _ upstream.Target, c upstream.Call) (json.RawMessage, error) {
		if c.Client.Ask == nil {
			return json.RawMessage(`{"content":[],"isError":true}`), nil
		}
		first, err := ask(ctx, c, `{"message":"one?","_meta":{"x":`+fmt.Sprint(len(c.Meta))+`}}`)
		if err != nil {
			return nil, err
		}
		second, err := ask(ctx, c, fmt.Sprintf(`{"message":"two?","n":%d}`, odd))
		if err != nil {
			return nil, err
		}
		return json.RawMessage(fmt.Sprintf(`{"content":[],"got":[%s,%s]}`, first, second)), nil
	}
	a := pendingQuestion(t, `"elicitation": "replay"`, false, script)
	look := func(more string) (json.RawMessage, error) {
		return a.do(t.Context(), able(), "look", `{}`, more)
	}
	key := func(r required) string {
		for k := range r.Asks {
			return k
		}
		return ""
	}
	one := a.asked(look(""))
	two := a.asked(look(one.back(key(one), `{"action":"accept"}`, "made-up", `{}`)))
	if !strings.Contains(string(two.Asks[key(two)]), "two?") || cancelled != 2 {
		t.Errorf("asked %+v, cancelled %d times", two, cancelled)
	}
	raw, err := look(two.back(key(two), accept))
	if err != nil || string(raw) != `{"content":[],"got":[{"action":"accept"},`+accept+`]}` || len(a.sent) != 3 {
		t.Errorf("got %s, %v after %d calls", raw, err, len(a.sent))
	}
	// If each repeat asks another question, the gateway refuses the call after maxRounds.
	next := two
	for range 6 {
		odd++
		next = a.asked(look(next.back(key(next), accept)))
	}
	odd++
	a.fails("asked for input too often")(look(next.back(key(next), accept)))

	// The gateway sends a call that is not safe to repeat without a way to ask, so the server fails
	// it.
	a.fails("")(a.act(""))
	a.fails("")(a.do(t.Context(), mcp.Client{}, "look", `{}`, ""))
	a.Options.Sealer = nil
	a.Restart()
	a.fails("")(look(""))
}

var _ gateway.Upstream = (*scripted)(nil)

// Questions about prompts and resources work the same way. If the gateway cannot pass on a
// question, the request returns an error.
func TestItemsThatAsk(t *testing.T) {
	a := &asker{fixture: everyItem(t)}
	a.Clock.Set(time.Time{}, 0)
	a.Upstream = &scripted{a.Servers, stateless}
	a.Modern, a.Options.Sealer = true, sealer(1)
	a.Restart()
	read := func(more string) (json.RawMessage, error) {
		r, refused := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"open:///it"` + more + `}}`))
		if refused != nil {
			t.Fatal(refused)
		}
		return a.Open().GetItem(t.Context(), r, able())
	}
	asked := a.asked(read(""))
	a.succeeds(complete)(read(asked.back("q", accept)))
	a.fails(foreign)(read(`,"requestState":"its own"`))
	a.Options.Sealer = nil
	a.Restart()
	raw, err := read("")
	if e, ok := errors.AsType[*mcp.Error](err); !ok || e.Code != mcp.CodeUpstream || !strings.HasPrefix(e.Message, "The server asks for input, but this gateway has no key") {
		t.Errorf("got %s, %v", raw, err)
	}
}

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
					a.fails(foreign)(look(back))
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
	a.succeeds(complete)(a.act(back))
	a.Agent = actsFor(a.Agent, "ann")
	a.fails(foreign)(a.act(back))
}
