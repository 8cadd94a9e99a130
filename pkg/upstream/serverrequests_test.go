package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

const (
	toldResult = `{"content":[{"type":"text","text":%s}]}`
	failed     = `{"content":[{"type":"text","text":%s}],"isError":true}`
	allOfThem  = `{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{"tools":{}}}`
)

type askFunc = func(context.Context, string, json.RawMessage) (json.RawMessage, error)

func answers(result string) askFunc {
	return func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(result), nil
	}
}

func refuses(err error) askFunc {
	return func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, err }
}

// unanswering is a client that does not answer.
func unanswering(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestServerRequests(t *testing.T) {
	note := noteJSON + `],"isError":true}`
	for _, tt := range []struct {
		name, method string
		ask          askFunc // nil: the client answers nothing
		result       string
		answer       string // in the server's answer from its client
		end          string // of the result
		took         time.Duration
	}{
		{"ping", "ping", nil, failed, `\"result\":{}`, `],"isError":true}`, 0},
		{"elicitation, no client", mcp.MethodElicit, nil, failed, `\"code\":-32601`, note, 0},
		{"another method, no client", "tasks/strange", nil, failed, `\"code\":-32601`, note, 0},
		{"the tool succeeds without an answer", mcp.MethodElicit, nil, toldResult, `\"code\":-32601`, `}"}]}`, 0},
		{"no content", mcp.MethodElicit, nil, `{"structuredContent":{"told":%s},"isError":true}`, `\"code\":-32601`, `"content":[` + noteJSON + `]}`, 0},
		{"empty content", mcp.MethodListRoots, nil, `{"x":%s,"isError":true,"content":[ ]}`, `\"code\":-32601`, `"content":[ ` + noteJSON + `]}`, 0},
		{"elicitation", mcp.MethodElicit, answers(`{"action":"accept","content":{"n":9007199254740993}}`), toldResult, `\"result\":{\"action\":\"accept\",\"content\":{\"n\":9007199254740993}}`, `"}]}`, 0},
		{"sampling", mcp.MethodSample, answers(`{"role":"assistant"}`), toldResult, `\"result\":{\"role\":\"assistant\"}`, `"}]}`, 0},
		{"roots", mcp.MethodListRoots, answers(`{"roots":[]}`), toldResult, `\"result\":{\"roots\":[]}`, `"}]}`, 0},
		{"another method", "tasks/strange", answers(`{}`), failed, `\"code\":-32601`, note, 0},
		{"the client refuses", mcp.MethodElicit, refuses(&mcp.Error{Code: -1, Message: "User rejected", Data: json.RawMessage(`{"a":1}`)}), failed,
			`\"error\":{\"code\":-1,\"message\":\"User rejected\",\"data\":{\"a\":1}}`, `"}],"isError":true}`, 0},
		{"the client has not declared it", mcp.MethodSample, refuses(&mcp.Error{Code: mcp.CodeMissingCapability}), failed, `\"code\":-32601`, note, 0},
		{"the client cannot be reached", mcp.MethodSample, refuses(errors.New("https://secret.example is down")), failed, `the client cannot be reached`, note, 0},
		{"the client sends an invalid answer", mcp.MethodSample, answers(`[]`), failed, `the client cannot be reached`, note, 0},
		{"nobody answers", mcp.MethodElicit, unanswering, failed, `nobody answered within 5 minutes`, `{"type":"text","text":"` + outcome.UnansweredNote + `"}],"isError":true}`, 5 * time.Minute},
	} {
		for _, sessions := range []bool{true, false} {
			onFakeClock(t, fmt.Sprintf("%s, sessions %v", tt.name, sessions), func(t *testing.T) {
				f := newFixture(t, Options{Holds: tt.ask != nil}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: sessions})
				f.servers[0].FailOn("tools/call", 1, upstreamtest.Ask(tt.method, tt.result))
				start := time.Now()
				got, err := f.call(Call{Name: "x", Client: mcp.Client{Ask: tt.ask}})
				if err != nil || !strings.Contains(got, tt.answer) || !strings.HasSuffix(got, tt.end) {
					t.Errorf("Call = %s, %v; want the answer %s and the end %s", got, err, tt.answer, tt.end)
				}
				if !json.Valid([]byte(got)) || strings.Count(got, `"isError":true`) > 1 {
					t.Errorf("result %s", got)
				}
				if took := time.Since(start); took != tt.took {
					t.Errorf("the call took %v, want %v", took, tt.took)
				}
				if got := f.servers[0].Received(mcp.NotificationCancelled); got != nil {
					t.Errorf("the call was cancelled")
				}
			})
		}
	}
}

// The time of a person does not count against the server.
func TestClockStopsDuringQuestion(t *testing.T) {
	onFakeClock(t, "", func(t *testing.T) {
		f := newFixture(t, Options{Holds: true}, upstreamtest.Options{Protocols: upstreamtest.Legacy})
		s := f.servers[0]
		s.FailOn("tools/call", 1, func(s *upstreamtest.Server, w http.ResponseWriter, r *http.Request, serve http.Handler) {
			time.Sleep(12 * time.Second)
			upstreamtest.Ask(mcp.MethodElicit, toldResult)(s, w, r, serve)
		})
		slow := func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			time.Sleep(4 * time.Minute)
			return json.RawMessage(`{"action":"cancel"}`), nil
		}
		start := time.Now()
		got, err := f.call(Call{Name: "x", Client: mcp.Client{Ask: slow}})
		if err != nil || time.Since(start) != 4*time.Minute+12*time.Second {
			t.Errorf("Call = %s, %v after %v", got, err, time.Since(start))
		}
		// The rest of the 20 s continues after the answer.
		s.FailOn("tools/call", 1, func(_ *upstreamtest.Server, w http.ResponseWriter, r *http.Request, _ http.Handler) {
			time.Sleep(12 * time.Second)
			upstreamtest.Says("", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`)(s, w, r, nil)
		})
		start = time.Now()
		_, err = f.call(Call{Name: "x", Client: mcp.Client{Ask: slow}})
		if e := callError(t, err); e.Message("s") != "No answer after 260 s. "+unknown || time.Since(start) != 260*time.Second {
			t.Errorf("Call = %s after %v", e.Message("s"), time.Since(start))
		}
	})
}

// If a caller gives up during a question, the server and the client are notified immediately.
func TestGivenUpWhileAsked(t *testing.T) {
	onFakeClock(t, "", func(t *testing.T) {
		f := newFixture(t, Options{Holds: true}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true})
		f.servers[0].FailOn("tools/call", 1, upstreamtest.Ask(mcp.MethodElicit, "%s"))
		ctx, cancel := context.WithCancel(t.Context())
		withdrawn := make(chan time.Time, 1)
		time.AfterFunc(time.Minute, cancel)
		start := time.Now()
		_, err := f.Call(ctx, f.targets[0], Call{Name: "x", Client: mcp.Client{Ask: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			withdrawn <- time.Now()
			return nil, ctx.Err()
		}}})
		if e := callError(t, err); e.Outcome.Reason != outcome.ReasonAborted || (<-withdrawn).Sub(start) != time.Minute || time.Since(start) != time.Minute {
			t.Errorf("Call = %v after %v", e, time.Since(start))
		}
		if got := f.servers[0].Received(mcp.NotificationCancelled); len(got) != 1 {
			t.Errorf("cancellations at the server = %v, want 1", got)
		}
	})
}

// handed returns the ids of the answers that the first server received.
func (f *fixture) handed() string {
	var ids []string
	for _, r := range f.servers[0].Requests() {
		if r.Method == "" && r.Verb == http.MethodPost {
			kind := "result"
			if rawjson.Get(r.Body, "error") != nil {
				kind = "error"
			}
			ids = append(ids, kind+" "+string(rawjson.Get(r.Body, "id")))
		}
	}
	return strings.Join(ids, ", ")
}

func ask(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
}

func TestServersThatAskAndMisbehave(t *testing.T) {
	elicit := func(id string) string { return ask(id, mcp.MethodElicit, `{}`) }
	var many []string
	for i := range 1000 {
		many = append(many, elicit(fmt.Sprint(i)))
	}
	for _, tt := range []struct {
		name      string
		ask       askFunc
		result    string
		says      []string
		questions int
		handed    string
	}{
		{"answers the call without the client's answer", unanswering, done, []string{elicit("1"), elicit("2")}, 2, ""},
		{"withdraws its question", unanswering, "", []string{elicit("1"), notification("cancelled", `{"requestId":1,"reason":"never mind"}`)}, 1, ""},
		{"withdraws an unknown question", unanswering, "", []string{elicit(`"a"`), notification("cancelled", `{"requestId":"b"}`), notification("cancelled", `{}`), notification("cancelled", `[]`)}, 1, `error "a"`},
		{"uses the id of an open question again", unanswering, "", []string{elicit("1"), elicit("1")}, 1, "error 1"},
		{"has too many open questions", unanswering, "", []string{elicit("1"), elicit("2"), elicit("3"), elicit("4"), elicit("5")}, 4, "error 5, error 1, error 2, error 3, error 4"},
		{"sends a question that is too long", answers(`{}`), "", []string{ask("1", mcp.MethodElicit, `{"message":"`+strings.Repeat("x", maxQuestion)+`"}`)}, 0, "error 1"},
		{"params are no object", answers(`{}`), "", []string{ask("1", mcp.MethodElicit, `[1]`)}, 0, "error 1"},
		{"params are null", answers(`{}`), "", []string{ask("1", mcp.MethodListRoots, `null`)}, 0, "error 1"},
		{"no params", answers(`{}`), "", []string{`{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage"}`}, 0, "error 3"},
		{"an invalid id", answers(`{}`), "", []string{ask("null", mcp.MethodElicit, `{}`), ask("{}", mcp.MethodElicit, `{}`)}, 0, ""},
		{"asks without end", unanswering, done, many, 4, "-"},
	} {
		onFakeClock(t, tt.name, func(t *testing.T) {
			f := newFixture(t, Options{Holds: true}, upstreamtest.Options{Protocols: upstreamtest.Legacy, Sessions: true})
			f.servers[0].FailOn("tools/call", 1, upstreamtest.Says(tt.result, tt.says...))
			var mu sync.Mutex
			questions := 0
			_, err := f.call(Call{Name: "x", Client: mcp.Client{Ask: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
				mu.Lock()
				questions++
				mu.Unlock()
				return tt.ask(ctx, method, params)
			}}})
			if (err == nil) != (tt.result != "") {
				t.Errorf("Call = %v", err)
			}
			synctest.Wait()
			handed := f.handed()
			if tt.handed == "-" { // answers before the end of the call depend on timing
				handed = tt.handed
			}
			first, rest, _ := strings.Cut(handed, ", ")
			wantFirst, wantRest, _ := strings.Cut(tt.handed, ", ")
			if questions != tt.questions || first != wantFirst || len(rest) != len(wantRest) {
				t.Errorf("%d questions, want %d; answers %q, want %q", questions, tt.questions, handed, tt.handed)
			}
		})
	}
}

// In the stateless protocol a server must not send requests on a stream, and gets no answer.
func TestStatelessServersDoNotAsk(t *testing.T) {
	f := newFixture(t, Options{Holds: true}, upstreamtest.Options{Protocols: upstreamtest.Modern})
	f.servers[0].FailOn("tools/call", 1, upstreamtest.Says(done, ask("1", mcp.MethodElicit, `{}`), ask("2", "ping", `{}`)))
	got, err := f.call(Call{Name: "x", Client: mcp.Client{Ask: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		t.Error("asked")
		return nil, context.Canceled
	}}})
	if err != nil || got != done || f.handed() != "" {
		t.Errorf("Call = %s, %v; handed %s", got, err, f.handed())
	}
}

func TestElicitedByURL(t *testing.T) {
	complete := func(id string) string {
		return notification("elicitation/complete", `{"elicitationId":"`+id+`"}`)
	}
	f := newFixture(t, Options{Holds: true}, upstreamtest.Options{Protocols: upstreamtest.Legacy})
	f.servers[0].FailOn("tools/call", 1, upstreamtest.Says(done, complete("e1"), ask("1", mcp.MethodElicit, `{"mode":"url","url":"https://x.example","elicitationId":"e1"}`), complete("e2"), complete("e1")))
	var l listener
	if got, err := f.call(Call{Name: "x", Client: mcp.Client{Ask: unanswering, Notify: l.notify}}); err != nil || got != done {
		t.Errorf("Call = %s, %v", got, err)
	}
	if got := strings.Join(l.notes(), "\n"); got != `elicitation/complete {"elicitationId":"e1"}` {
		t.Errorf("told %s", got)
	}
}

func TestDeclared(t *testing.T) {
	form := `{"elicitation":{"form":{}}}`
	for _, tt := range []struct {
		name      string
		protocol  upstreamtest.Protocols
		holds     bool
		asks      Asks
		client    string // capabilities; "": no session of its own
		load      string
		call      string
		stateless string // capabilities of a stateless call
	}{
		{"a function", upstreamtest.Legacy, false, AsksRelay, "", `{}`, `{}`, ""},
		{"a function that replays", upstreamtest.Legacy, false, AsksReplay, "", form, form, ""},
		{"a laptop", upstreamtest.Legacy, true, AsksRelay, "", allOfThem, allOfThem, ""},
		{"a laptop, no questions", upstreamtest.Legacy, true, AsksOff, allOfThem, `{}`, `{}`, ""},
		{"a session for one client", upstreamtest.Legacy, true, AsksRelay, `{"elicitation":{},"roots":{"listChanged":true},"sampling":null,"tasks":{}}`, allOfThem, `{"elicitation":{},"roots":{}}`, ""},
		{"a client without capabilities", upstreamtest.Legacy, true, "", `{}`, allOfThem, `{}`, ""},
		{"a stateless server", upstreamtest.Modern, false, AsksRelay,
			`{"elicitation":{}}`, allOfThem, "", `{"elicitation":{}}`},
		{"a stateless server, a client with apps", upstreamtest.Modern, false, AsksRelay,
			`{"extensions":{"io.modelcontextprotocol/ui":{}}}`, allOfThem, "", `{}`},
		{"a stateless server, no questions", upstreamtest.Modern, false, AsksOff,
			`{"elicitation":{},"x":{}}`, `{}`, "", `{}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, Options{Holds: tt.holds}, upstreamtest.Options{Protocols: tt.protocol, Sessions: true, Tools: tools(1)})
			f.targets[0].Asks = tt.asks
			f.available()
			call := Call{Owner: owner("a"), Name: "tool_aa"}
			if tt.client != "" {
				call.Owner.Client = "c"
				call.Client = mcp.Client{Capabilities: json.RawMessage(tt.client), Ask: unanswering}
			}
			if _, err := f.call(call); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range f.servers[0].Requests() {
				switch r.Method {
				case mcp.MethodInitialize:
					got = append(got, string(rawjson.Get(r.Params, "capabilities")))
				case mcp.MethodListTools, mcp.MethodCallTool:
					if v := rawjson.Get(rawjson.Get(r.Params, "_meta"), mcp.MetaClientCapabilities); v != nil {
						got = append(got, string(v))
					}
				}
			}
			want := []string{tt.load, tt.call}
			if tt.stateless != "" {
				want = []string{tt.load, tt.stateless}
			}
			for i, declared := range want { // every declaration ends with the extensions
				const apps = `"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`
				extensions := `"extensions":{` + apps
				if tt.stateless != "" && i == 0 { // a sync of a stateless server accepts tasks, too
					extensions = `"extensions":{"io.modelcontextprotocol/tasks":{},` + apps
				}
				declared = strings.TrimSuffix(declared, "}") + "," + extensions
				want[i] = strings.Replace(declared, "{,", "{", 1)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("declared %v, want %v", got, want)
			}
		})
	}
}

// A server of the official SDK sends every request that a client can answer, and gets the answers.
func TestOfficialServersAreAnswered(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "all"}, func(ctx context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		textResult := func(text string) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, nil
		}
		_ = req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Data: "asking"})                                                     //nolint:staticcheck // servers of the handshake protocol use it
		_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 1, Total: 2}) // a client that is gone reads nothing
		e, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "sure?"})
		if err != nil {
			return textResult("elicit: " + err.Error())
		}
		r, err := req.Session.ListRoots(ctx, nil) //nolint:staticcheck // servers of the handshake protocol ask for it
		if err != nil {
			return textResult("roots: " + err.Error())
		}
		return textResult(e.Action + " " + r.Roots[0].URI)
	})
	s := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	defer s.Close()
	c := newClient(t, Options{Holds: true})
	defer c.Close()
	var l listener
	client := mcp.Client{Progress: true, LogLevel: "info", Notify: l.notify, Capabilities: json.RawMessage(allOfThem), Ask: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
		if method == mcp.MethodElicit {
			return json.RawMessage(`{"action":"accept","content":{}}`), nil
		}
		return json.RawMessage(`{"roots":[{"uri":"file:///a"}]}`), nil
	}}
	got, err := c.Call(t.Context(), Target{ID: "s", URL: s.URL, Handshake: true}, Call{Name: "all", Client: client})
	if err != nil || !strings.Contains(string(got), "accept file:///a") {
		t.Errorf("Call = %s, %v", got, err)
	}
	// A client that answers nothing does not make the server wait.
	got, err = c.Call(t.Context(), Target{ID: "alone", URL: s.URL, Handshake: true}, Call{Name: "all"})
	if err != nil || !strings.Contains(string(got), "elicit: ") {
		t.Errorf("Call of a client that answers nothing = %s, %v", got, err)
	}
	if got := strings.Join(l.notes(), "\n"); got != `message {"data":"asking","level":"warning"}`+"\n"+`progress {"progress":1,"total":2}` {
		t.Errorf("told %s", got)
	}
}
