package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// A script plays the server in a call, and returns a part of the result. Its function ask sends a
// question to the client, and returns the answer.
type script func(ctx context.Context, c upstream.Call, ask func(params string) string) string

// parking returns a gateway with a server of the handshake protocol, which play acts for. If the
// server asks a question, its call stays open until the client's next request. cancelled counts the
// cancelled calls.
func parking(t *testing.T, play script) (a *asker, cancelled *atomic.Int32) {
	cancelled = new(atomic.Int32)
	a = pendingQuestion(t, "", true, func(ctx context.Context, _ upstream.Target, c upstream.Call) (json.RawMessage, error) {
		text := play(ctx, c, func(params string) string {
			// package upstream has the same limit
			own, cancel := context.WithTimeout(ctx, 5*time.Minute)
			defer cancel()
			answer, err := c.Client.Ask(own, mcp.MethodElicit, json.RawMessage(params))
			if err != nil {
				return "error"
			}
			return string(answer)
		})
		if ctx.Err() != nil {
			cancelled.Add(1)
			return nil, &outcome.CallError{Delivered: true, Outcome: outcome.Outcome{Reason: outcome.ReasonAborted}}
		}
		return json.RawMessage(`{"content":[],"got":` + text + `}`), nil
	})
	return a, cancelled
}

func TestParkedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cancelled := parking(t, func(_ context.Context, c upstream.Call, ask func(string) string) string {
			c.Client.Notify("one", nil)
			first := ask(`{"message":"one?"}`)
			c.Client.Notify("two", nil)
			return "[" + first + "," + ask(`{"message":"two?"}`) + "]"
		})
		var told []string
		client := func(name string) mcp.Client {
			c := able()
			c.Notify = func(method string, _ rawjson.Object) { told = append(told, name+" "+method) }
			return c
		}
		first := a.counting()
		one := a.asked(a.do(t.Context(), client("a"), "act", `{}`, ""))
		rest := a.counting()
		if got := string(one.Asks["question-1"]); got != `{"method":"elicitation/create","params":{"message":"one?"}}` {
			t.Errorf("asked %s", got)
		}
		time.Sleep(4 * time.Minute)
		two := a.asked(a.do(t.Context(), client("b"), "act", `{}`, one.back("question-1", `{"action":"accept"}`, "question-9", `{}`)))
		time.Sleep(4 * time.Minute)
		// the tool has asked its second question since, so an answer to the first is too late
		a.fails("Answer the latest result")(
			a.do(t.Context(), able(), "act", `{}`, one.back("question-2", accept)),
		)
		raw, err := a.do(t.Context(), client("c"), "act", `{}`, two.back("question-2", accept))
		if err != nil || string(raw) != `{"content":[],"got":[{"action":"accept"},`+accept+`]}` {
			t.Errorf("got %s, %v", raw, err)
		}
		if got := strings.Join(told, ", "); got != "a one, b two" || len(a.sent) != 1 || cancelled.Load() != 0 {
			t.Errorf("notifications %s; %d calls, %d cancelled", got, len(a.sent), cancelled.Load())
		}
		for _, r := range []required{one, two} { // each question accepts one answer
			a.fails("earlier request answered this question")(
				a.do(t.Context(), able(), "act", `{}`, r.back("question-1", accept)),
			)
		}
		if first.Called.Name != "s:act" || rest.Called.Name != "" {
			t.Errorf("counted %+v, then %+v", first.Called, rest.Called)
		}
	})
}

func TestParkedQuestionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := parking(t, func(_ context.Context, _ upstream.Call, ask func(string) string) string {
			var wg sync.WaitGroup
			got := make([]string, 3)
			for i := range got {
				wg.Go(func() { got[i] = ask(fmt.Sprintf(`{"n":%d}`, i)) })
			}
			wg.Wait()
			return "[" + strings.Join(got, ",") + "]"
		})
		r, answered := a.asked(a.act("")), map[string]bool{}
		var raw json.RawMessage
		for range 4 { // each round has the maximum; questions without an answer are repeated
			for key := range r.Asks {
				answered[key] = true
				var err error
				if raw, err = a.act(r.back(key, accept)); err != nil {
					t.Fatal(err)
				}
				break
			}
			if !strings.Contains(string(raw), "input_required") {
				break
			}
			r = a.asked(raw, nil)
		}
		if want := `{"content":[],"got":[` + strings.Join([]string{accept, accept, accept}, ",") + `]}`; string(raw) != want || len(answered) != 3 {
			t.Errorf("got %s after %v, want %s", raw, answered, want)
		}
	})
}

func TestParkedCallExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cancelled := parking(t, func(ctx context.Context, _ upstream.Call, ask func(string) string) string {
			ask(`{}`)
			<-ctx.Done()
			return ""
		})
		r := a.asked(a.act(""))
		time.Sleep(5*time.Minute + time.Second)
		if cancelled.Load() != 1 {
			t.Errorf("%d calls were cancelled", cancelled.Load())
		}
		a.fails("No answer came within 5 minutes, and the gateway cancelled the call. No request was sent. The earlier call may have had side effects.")(
			a.act(r.back("question-1", accept)))
	})
}

// If a server continues without an answer, the gateway keeps the server's result for five minutes.
func TestParkedCallContinuesWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cancelled := parking(t, func(ctx context.Context, c upstream.Call, _ func(string) string) string {
			own, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() { _, _ = c.Client.Ask(own, mcp.MethodElicit, json.RawMessage(`{}`)) }()
			time.Sleep(time.Minute)
			return `"without"`
		})
		r, late := a.asked(a.act("")), a.asked(a.act(""))
		time.Sleep(2 * time.Minute)
		raw, err := a.act(r.back("question-1", accept))
		if err != nil || string(raw) != `{"content":[],"got":"without"}` {
			t.Errorf("got %s, %v", raw, err)
		}
		time.Sleep(4 * time.Minute)
		a.fails("kept its result for 5 minutes")(a.act(late.back("question-1", accept)))
		if cancelled.Load() != 0 {
			t.Errorf("%d calls were cancelled", cancelled.Load())
		}
	})
}

func TestParkedCallAnsweredTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cancelled := parking(t, func(ctx context.Context, _ upstream.Call, ask func(string) string) string {
			answer := ask(`{}`)
			if answer != "error" {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
			return answer
		})
		r := a.asked(a.act(""))
		back := r.back("question-1", accept)

		// The client sends the same answer twice at the same time. One request gets the result, the
		// other a text that says that an earlier request answered the question.
		type answer struct {
			raw json.RawMessage
			err error
		}
		answers := make(chan answer, 2)
		for range 2 {
			go func() {
				raw, err := a.act(back)
				answers <- answer{raw, err}
			}()
		}
		var texts []string
		for range 2 {
			got := <-answers
			texts = append(texts, fmt.Sprint(string(got.raw), got.err))
		}
		slices.Sort(texts)
		if !strings.Contains(texts[1], "earlier request answered this question") || texts[0] != `{"content":[],"got":`+accept+`}<nil>` {
			t.Errorf("got %s", texts)
		}

		r = a.asked(a.act(""))
		a.Restart() // another process
		a.fails("The gateway restarted")(a.act(r.back("question-1", accept)))
		time.Sleep(5*time.Minute + time.Second)
		if cancelled.Load() != 1 {
			t.Errorf("%d calls were cancelled", cancelled.Load())
		}
	})
}

// If a tool is locked while its call waits for an answer, the call does not continue.
func TestParkedCallOfALockedTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cancelled := parking(t, func(_ context.Context, _ upstream.Call, ask func(string) string) string { return ask(`{}`) })
		r := a.asked(a.act(""))
		a.Decide("s:act", "disable")
		a.fails("disabled_by_user")(a.act(r.back("question-1", accept)))
		synctest.Wait()
		if cancelled.Load() != 1 {
			t.Errorf("%d calls were cancelled", cancelled.Load())
		}
		a.Decide("s:act", "enable")
		a.fails("The tool was locked, and the gateway cancelled the call.")(
			a.act(r.back("question-1", accept)),
		)
	})
}

// If a client disconnects or its time is over after it sent an answer and before the result came,
// the gateway cancels the call.
func TestParkedCallIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, cancelled := parking(t, func(ctx context.Context, _ upstream.Call, ask func(string) string) string {
			answer := ask(`{}`)
			<-ctx.Done()
			return answer
		})
		r := a.asked(a.act(""))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, context.Canceled)
		defer cancel()
		leaves, leave := context.WithCancel(ctx)
		time.AfterFunc(time.Second/2, leave)
		raw, err := a.do(leaves, able(), "act", `{"n":1}`, r.back("question-1", accept))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %s, %v", raw, err)
		}
		synctest.Wait()
		a.fails("ended before the result came. The gateway cancelled the call.")(
			a.act(r.back("question-1", accept)),
		)
		r = a.asked(a.act(""))
		late, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		a.fails("The call was sent and may have taken effect; check before calling again.")(
			a.do(late, able(), "act", `{"n":1}`, r.back("question-1", accept)),
		)
		synctest.Wait()
		if cancelled.Load() != 2 {
			t.Errorf("%d calls were cancelled", cancelled.Load())
		}
	})
}

// The number of waiting calls has a limit for each agent and a limit in total. At the total limit,
// the gateway cancels the oldest waiting call of the agent with the most waiting calls.
func TestParkedCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		size := 10
		a, cancelled := parking(t, func(_ context.Context, _ upstream.Call, ask func(string) string) string {
			return ask(`{"m":"` + strings.Repeat("x", size) + `"}`)
		})
		as := func(agent string, more string) (json.RawMessage, error) {
			t.Helper()
			a.Agent.ID = agent
			return a.act(more)
		}
		goesOn := func(agent string, r required) {
			t.Helper()
			a.succeeds(accept)(as(agent, r.back("question-1", accept)))
		}
		light := a.asked(as("light", ""))
		var calls []required
		for range 16 {
			calls = append(calls, a.asked(as("heavy", "")))
		}
		a.fails("too many calls wait for input already. The gateway cancelled the call.")(
			as("heavy", ""),
		)
		for i := range 8 { // these calls exceed the total limit by one
			for range 14 {
				a.asked(as(fmt.Sprint("agent ", i), ""))
			}
		}
		synctest.Wait()
		if cancelled.Load() != 2 {
			t.Errorf("%d calls were cancelled, want 2: heavy's 17th call, and its oldest call", cancelled.Load())
		}
		const most = "too many calls wait for answers, and this agent has the most of them. No request was sent."
		a.fails(most)(as("heavy", calls[0].back("question-1", accept)))
		goesOn("heavy", calls[1])
		goesOn("light", light)
		a.asked(as("heavy", "")) // the calls are below the limits again
		time.Sleep(6 * time.Minute)

		// The size of the open questions has the same two kinds of limits.
		size = 3 << 20
		calls = []required{a.asked(as("heavy", "")), a.asked(as("heavy", ""))}
		if raw, err := as("heavy", ""); err != nil || string(raw) != `{"content":[],"got":error}` {
			t.Errorf("got %.100s, %v", raw, err)
		}
		for i := range 9 {
			a.asked(as(fmt.Sprint("agent ", i), ""))
		}
		a.fails("too many calls wait for answers")(as("heavy", calls[0].back("question-1", accept)))
		goesOn("heavy", calls[1])
		time.Sleep(6 * time.Minute)
		for range 4 { // ended calls do not count
			goesOn("heavy", a.asked(as("heavy", "")))
		}
	})
}

// The gateway refuses a server's question of a kind that the client has not declared. If the client
// has declared no kind of question, the call cannot ask at all.
func TestParkableCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := parking(t, func(ctx context.Context, c upstream.Call, _ func(string) string) string {
			if c.Client.Ask == nil {
				return `"nobody"`
			}
			if _, err := c.Client.Ask(ctx, mcp.MethodSample, json.RawMessage(`{}`)); err != nil {
				return string(rawjson.Quote(err.Error()[:40]))
			}
			return `""`
		})
		for capabilities, want := range map[string]string{
			`{"elicitation":{}}`:   `{"content":[],"got":"The tool asks its client for input, and "}`,
			`{"elicitation":null}`: `{"content":[],"got":"nobody"}`,
			``:                     `{"content":[],"got":"nobody"}`,
		} {
			client := mcp.Client{Capabilities: json.RawMessage(capabilities)}
			a.succeeds(want)(a.do(t.Context(), client, "act", `{}`, ""))
		}
	})
}
