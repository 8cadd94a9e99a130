package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// farm is a set of servers on a network in memory, and a client on it.
type farm struct {
	net     upstreamtest.Network
	client  *Client
	servers []*upstreamtest.Server
	targets []Target
}

func newFarm(o Options) *farm {
	f := &farm{}
	f.client = inMemory(&f.net, o)
	return f
}

func (f *farm) add(t *testing.T, o upstreamtest.Options) *upstreamtest.Server {
	t.Helper()
	host := fmt.Sprintf("server%d:80", len(f.servers))
	o.Listener = f.net.Listen(host)
	s, err := upstreamtest.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	f.servers = append(f.servers, s)
	f.targets = append(f.targets, Target{ID: strings.TrimSuffix(host, ":80"), URL: "http://" + host + "/mcp"})
	return s
}

// close ends everything inside the bubble.
func (f *farm) close() {
	f.client.Close()
	for _, s := range f.servers {
		s.Close()
	}
}

func TestLoadTimes(t *testing.T) {
	for _, tt := range []struct {
		name     string
		deadline time.Duration // of the caller; 0: none
		fault    upstreamtest.Fault
		reason   string
		attempts int
		took     time.Duration
	}{
		{"an attempt has 5 s, a server 10 s", 0, upstreamtest.Hang(), outcome.ReasonTimeout, 2, 10 * time.Second},
		{"the caller's deadline less 500 ms", 4 * time.Second, upstreamtest.Hang(), outcome.ReasonTimeout, 1, 3500 * time.Millisecond},
		{"no time at all", 300 * time.Millisecond, upstreamtest.Hang(), outcome.ReasonTimeout, 1, 0},
		{"slow, but in time", 0, upstreamtest.Slow(4 * time.Second), "", 1, 4 * time.Second},
		{"three quick failures", 0, upstreamtest.Status(500, ""), outcome.ReasonHTTP5xx, 3, 750 * time.Millisecond},
		{"a limit that does not fit", 0, upstreamtest.Status(429, "", "Retry-After", "30"), outcome.ReasonRateLimited, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFarm(Options{Jitter: func(time.Duration) time.Duration { return 0 }})
				defer f.close()
				f.add(t, upstreamtest.Options{Era: upstreamtest.Modern}).FailOn("server/discover", -1, tt.fault)
				ctx := t.Context()
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				start := time.Now()
				out := f.client.Load(ctx, f.targets[0])
				took := time.Since(start)
				if out.Reason != tt.reason || out.Attempts != tt.attempts || took != tt.took {
					t.Errorf("Load = %s %s, %d attempts in %v; want %s, %d in %v", out.Status, out.Reason, out.Attempts, took, tt.reason, tt.attempts, tt.took)
				}
				if out.Duration != took || !out.CheckedAt.Equal(time.Now()) {
					t.Errorf("Duration = %v, CheckedAt = %v; want %v, now", out.Duration, out.CheckedAt, took)
				}
				if strings.HasPrefix(tt.name, "a limit") && out.RetryAfter != 30*time.Second {
					t.Errorf("RetryAfter = %v, want 30s", out.RetryAfter)
				}
			})
		})
	}
}

func TestAbortedLoadIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(Options{})
		defer f.close()
		s := f.add(t, upstreamtest.Options{})
		s.Fail(upstreamtest.Hang())
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(fmt.Errorf("shutting down")) })
		out := f.client.Load(ctx, f.targets[0])
		if out.Recorded() || out.Reason != outcome.ReasonAborted || out.Message("s") != "" {
			t.Errorf("Load = %+v, want it aborted and not recorded", out)
		}
	})
}

func TestLoadLeavesBehindWhatIgnoresItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := newFarm(Options{Secrets: secretsFunc(func(context.Context, string) (string, error) {
			<-release
			return "", secret.ErrNotFound
		})})
		defer f.close()
		f.add(t, upstreamtest.Options{})
		f.targets[0].Headers = map[string]string{"X-Key": "${env:STUCK}"}
		start := time.Now()
		out := f.client.Load(t.Context(), f.targets[0])
		if out.Status != outcome.Transient || out.Reason != outcome.ReasonTimeout || time.Since(start) > 11*time.Second {
			t.Errorf("Load = %s %s after %v, want a timeout at about 10 s", out.Status, out.Reason, time.Since(start))
		}
		close(release)
		synctest.Wait()
	})
}

func TestLoadAllKeepsServersApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFarm(Options{Secrets: secretsFunc(func(context.Context, string) (string, error) { panic("boom") })})
		defer f.close()
		for i := range 12 {
			s := f.add(t, upstreamtest.Options{Tools: tools(2)})
			switch i {
			case 0:
				s.Fail(upstreamtest.Hang())
			case 1:
				f.targets[i].Headers = map[string]string{"X-Key": "${env:PANIC}"}
			case 2:
				s.Fail(upstreamtest.Status(403, ""))
			}
		}
		var order []string
		var at []time.Duration
		start := time.Now()
		outs := f.client.LoadAll(t.Context(), f.targets, func(o outcome.Outcome) {
			order = append(order, o.ServerID)
			at = append(at, time.Since(start))
		})
		if len(outs) != 12 || len(order) != 12 {
			t.Fatalf("%d outcomes, %d told, want 12", len(outs), len(order))
		}
		for i, o := range outs {
			want := outcome.Available
			switch i {
			case 0:
				want = outcome.Transient
			case 1:
				want = outcome.Permanent
			case 2:
				want = outcome.Denied
			}
			if o.ServerID != f.targets[i].ID || o.Status != want {
				t.Errorf("outcome %d is of %s: %s %s, want %s", i, o.ServerID, o.Status, o.Reason, want)
			}
		}
		if order[11] != "server0" || at[10] > 500*time.Millisecond {
			t.Errorf("the others ended at %v, the last was %s; want only the hanging one to be late", at[10], order[11])
		}
		if _, n := byStatus(outs); n != 18 {
			t.Errorf("%d tools, want 18", n)
		}
	})
}

func TestLoadAllHoldsItsConcurrencyAndJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wrong atomic.Int64
		f := newFarm(Options{Concurrency: 8, Jitter: func(limit time.Duration) time.Duration {
			if limit != 50*time.Millisecond {
				wrong.Add(1)
			}
			return limit / 2
		}})
		defer f.close()
		var mu sync.Mutex
		var now, most int
		count := func(d int) {
			mu.Lock()
			defer mu.Unlock()
			now += d
			most = max(most, now)
		}
		front := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				count(1)
				time.Sleep(time.Second)
				count(-1)
				next.ServeHTTP(w, r)
			})
		}
		for range 24 {
			f.add(t, upstreamtest.Options{Era: upstreamtest.Modern, Front: front})
		}
		start := time.Now()
		outs := f.client.LoadAll(t.Context(), f.targets, nil)
		for _, o := range outs {
			if o.Status != outcome.Available {
				t.Errorf("%s: %s %s", o.ServerID, o.Status, o.Reason)
			}
		}
		// 3 rounds of 2 requests of 1 s, each after a jitter of 25 ms.
		if took := time.Since(start); most != 8 || took != 3*(2*time.Second+25*time.Millisecond) {
			t.Errorf("%d at once, %v in all, want 8 and 6.075s", most, took)
		}
		if n := wrong.Load(); n != 0 {
			t.Errorf("%d jitters are not below 50ms", n)
		}
	})
}

func TestBadToolsDoNotFailTheirServer(t *testing.T) {
	good := `{"name":"good","inputSchema":{"type":"object"}}`
	list := []json.RawMessage{
		json.RawMessage(good),
		json.RawMessage(`{"name":"bad name"}`),
		json.RawMessage(`{"name":"twice","name":"twice"}`),
		json.RawMessage(`{"name":"good","description":"another"}`),
		json.RawMessage(`"text"`),
		json.RawMessage(`{"name":"header","inputSchema":{"type":"object","properties":{"n":{"type":"number","x-mcp-header":"N"}}}}`),
		json.RawMessage(`{"name":"` + strings.Repeat("long", 100) + `"}`),
		json.RawMessage(`{"name":"elsewhere","inputSchema":{"type":"object","properties":{"a":{"$ref":"https://evil.example/a.json"}}}}`),
		json.RawMessage(`{"name":"output","outputSchema":{"type":"object","$dynamicRef":"other.json#a"}}`),
	}
	s := upstreamtest.New(t, upstreamtest.Options{Tools: list})
	out := quick(t, Options{}).Load(t.Context(), Target{ID: "s", URL: s.URL})
	if out.Status != outcome.Available || len(out.Tools) != 1 || string(out.Tools[0].Raw) != good {
		t.Fatalf("Load = %s %s, tools %v", out.Status, out.Reason, out.Tools)
	}
	if len(out.Refused) != 8 {
		t.Fatalf("refused %+v, want 8", out.Refused)
	}
	for i, want := range []string{`"bad name"`, `"twice"`, `"good"`, `""`, `"header"`, `"longlong`, `"elsewhere"`, `"output"`} {
		r := out.Refused[i]
		if !strings.HasPrefix(r.Name, want) || r.Reason == "" || len(r.Name) > 128 || len(r.Reason) > 256 {
			t.Errorf("refusal %d = %+v, want %s with a reason", i, r, want)
		}
	}
	if want := "another tool of that name"; !strings.Contains(out.Refused[2].Reason, want) {
		t.Errorf("duplicate refused because %q, want %q", out.Refused[2].Reason, want)
	}
	if want := `the input schema has a $ref to "https://evil.example/a.json"`; !strings.HasPrefix(out.Refused[6].Reason, want) {
		t.Errorf("reference refused because %q, want %q", out.Refused[6].Reason, want)
	}
	if want := `the output schema has a $dynamicRef`; !strings.HasPrefix(out.Refused[7].Reason, want) {
		t.Errorf("reference refused because %q, want %q", out.Refused[7].Reason, want)
	}
}

func TestDefinitionsKeepTheirBytes(t *testing.T) {
	raw := `{ "zeta":1e2, "name":"exact" ,"x":{"b":9007199254740993,"a":[1.0,1.50]},"inputSchema":{"type":"object","é":"\u00e9\/"}}`
	for _, o := range []upstreamtest.Options{{Era: upstreamtest.Modern}, {Era: upstreamtest.Legacy, SSE: true}} {
		o.Tools = []json.RawMessage{json.RawMessage(raw)}
		s := upstreamtest.New(t, o)
		out := quick(t, Options{}).Load(t.Context(), Target{ID: "s", URL: s.URL})
		if len(out.Tools) != 1 || string(out.Tools[0].Raw) != raw {
			t.Errorf("definition = %s %s, want the bytes %s", out.Status, out.Error, raw)
		}
	}
}

func TestErrorsAndLogsHoldTheCauseAndNoSecret(t *testing.T) {
	const token, query, password = "t0p-secret-token", "api_key=query-secret", "pass-word-secret"
	echo := func(_ *upstreamtest.Server, w http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.Error(w, fmt.Sprintf("database is down; you sent %v to %s", r.Header, r.URL), http.StatusInternalServerError)
	}
	s := upstreamtest.New(t, upstreamtest.Options{})
	s.Fail(echo)
	log, text := logged()
	c := quick(t, Options{Log: log, Secrets: secretsFunc(func(context.Context, string) (string, error) { return token, nil })})
	target := Target{
		ID:      "s",
		URL:     strings.Replace(s.URL, "http://", "http://someone:"+password+"@", 1) + "?" + query,
		Headers: map[string]string{"X-Token": "Bearer ${ssm:/x}", "X-Plain": "plain-header-value"},
	}
	out := c.Load(t.Context(), target)
	s.Refuse()
	refused := c.Load(t.Context(), target)
	_, callErr := c.Call(t.Context(), target, Call{Name: "t"})
	for _, got := range []string{out.Error, refused.Error, callErr.Error(), text.String()} {
		for _, secret := range []string{token, query, "query-secret", password, "plain-header-value", "someone"} {
			if strings.Contains(got, secret) {
				t.Errorf("%q is in %s", secret, got)
			}
		}
	}
	for _, want := range []string{"http status 500", "database is down"} {
		if !strings.Contains(out.Error, want) || !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in the error %s or not in the log", want, out.Error)
		}
	}
	if !strings.Contains(refused.Error, "connection refused") {
		t.Errorf("error = %s, want its cause", refused.Error)
	}
	for line := range bytes.Lines(text.Bytes()) {
		var m map[string]any
		if json.Unmarshal(line, &m) != nil || m["server"] != "s" || m["status"] == nil || m["reason"] == nil {
			t.Errorf("log line %s", line)
		}
	}
}

func TestObserveIsToldOfEveryEnd(t *testing.T) {
	var events []Event
	s := upstreamtest.New(t, upstreamtest.Options{Tools: tools(1)})
	c := quick(t, Options{Observe: func(_ context.Context, e Event) { events = append(events, e) }})
	target := Target{ID: "s", URL: s.URL}
	c.Load(t.Context(), target)
	s.Fail(upstreamtest.Status(403, ""))
	_, _ = c.Call(t.Context(), target, Call{Name: "tool_aa"})
	if len(events) != 2 || events[0].Op != "load" || events[0].Status != outcome.Available || events[1].Op != "call" ||
		events[1].Status != outcome.Denied || events[1].Reason != outcome.ReasonForbidden || events[1].HTTPStatus != 403 || events[1].Attempts != 1 {
		t.Errorf("events = %+v", events)
	}
	for _, e := range events {
		if e.Reason != "" && !slices.Contains(outcome.Reasons(), e.Reason) {
			t.Errorf("reason %q is none of outcome.Reasons", e.Reason)
		}
	}
}
