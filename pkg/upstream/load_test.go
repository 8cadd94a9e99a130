package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

func TestLoadTimes(t *testing.T) {
	const sec, ms = time.Second, time.Millisecond
	hang, timeout := upstreamtest.Hang(), outcome.ReasonTimeout
	for _, tt := range []struct {
		name     string
		deadline time.Duration // of the caller; 0: none
		method   string        // the method that fails
		times    int           // -1: always
		fault    upstreamtest.Fault
		pages    int
		reason   string
		attempts int
		took     time.Duration
	}{
		{"an attempt has 5 s, a server 10 s", 0, "server/discover", -1, hang, 1, timeout, 2, 10 * sec},
		{"one attempt that hangs", 0, "server/discover", 1, hang, 3, "", 2, 5250 * ms},
		{"the caller's deadline less 500 ms", 4 * sec, "server/discover", -1, hang, 1, timeout, 1, 3500 * ms},
		{"no time at all", 300 * ms, "server/discover", -1, hang, 1, timeout, 1, 0},
		{"slow, but in time", 0, "server/discover", -1, upstreamtest.Slow(4 * sec), 1, "", 1, 4 * sec},
		{"ten pages of 4 s", 0, "tools/list", -1, upstreamtest.Slow(4 * sec), 10, "", 1, 40 * sec},
		{"60 s for all pages", 0, "tools/list", -1, upstreamtest.Slow(4 * sec), 20, timeout, 1, time.Minute},
		{"the caller's deadline before the last page", 30 * sec, "tools/list", -1, upstreamtest.Slow(4 * sec), 20, timeout, 1, 29500 * ms},
		{"a page of 6 s", 0, "tools/list", -1, upstreamtest.Slow(6 * sec), 2, timeout, 2, 10 * sec},
		{"a second page that hangs once", 0, "tools/list", -1, second(hang), 3, "", 2, 5250 * ms},
	} {
		onFakeClock(t, tt.name, func(t *testing.T) {
			f := newFixture(t, Options{Jitter: noJitter}, upstreamtest.Options{Protocols: upstreamtest.Modern, Tools: tools(tt.pages), PageSize: 1})
			f.servers[0].FailOn(tt.method, tt.times, tt.fault)
			start := time.Now()
			out := f.Load(within(t, tt.deadline), f.targets[0])
			took := time.Since(start)
			if out.Reason != tt.reason || out.Attempts != tt.attempts || took != tt.took || out.Reason == "" && len(out.Tools) != tt.pages {
				t.Errorf("Load = %s %s, %d attempts in %v, %d tools; want %s, %d in %v", out.Status, out.Reason, out.Attempts, took, len(out.Tools), tt.reason, tt.attempts, tt.took)
			}
			if out.Duration != took || !out.CheckedAt.Equal(time.Now()) {
				t.Errorf("Duration = %v, CheckedAt = %v; want %v, now", out.Duration, out.CheckedAt, took)
			}
		})
	}
}

// second makes the second request fail with fault.
func second(fault upstreamtest.Fault) upstreamtest.Fault {
	n := 0
	return func(s *upstreamtest.Server, w http.ResponseWriter, r *http.Request, serve http.Handler) {
		if n++; n == 2 {
			fault(s, w, r, serve)
			return
		}
		serve.ServeHTTP(w, r)
	}
}

func TestLoadAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, upstreamtest.Options{})
		f.servers[0].Fail(upstreamtest.Hang())
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(fmt.Errorf("shutting down")) })
		out := f.Load(ctx, f.targets[0])
		if out.Recorded() || out.Reason != outcome.ReasonAborted || out.Message("s") != "" {
			t.Errorf("Load = %+v, want it aborted and not recorded", out)
		}
	})
}

// If as many loads are stuck as may run at the same time, LoadAll gives them up and loads the other
// servers.
func TestLoadAllStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := newFixture(t, Options{Concurrency: 2, Secrets: secretsFunc(func(string) (string, error) {
			<-release
			return "", io.EOF
		})})
		for range 6 {
			f.add(upstreamtest.Options{Tools: tools(1)})
		}
		for i := range 2 {
			f.targets[i].Headers = map[string]string{"X-Key": "${env:STUCK}"}
		}
		outs, _, took := f.loadAll()
		for i, out := range outs {
			if want := map[bool]outcome.Status{true: transient, false: outcome.Available}[i < 2]; out.Status != want {
				t.Errorf("server %d is %s, want %s", i, out.Status, want)
			}
		}
		if took > 12*time.Second {
			t.Errorf("LoadAll took %v, want about 10 s", took)
		}
		close(release)
		synctest.Wait()
	})
}

// Load refuses invalid tools of a server, and still returns the server's valid tools.
func TestLoadBadTools(t *testing.T) {
	good := `{"name":"good","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}`
	list := []json.RawMessage{json.RawMessage(good)}
	refused := []struct{ raw, name, reason string }{
		{`{"name":"bad name"}`, `"bad name"`, ""},
		{`{"name":"twice","name":"twice"}`, `"twice"`, ""},
		{`{"name":"good","description":"another"}`, `"good"`, "the server lists another tool of that name"},
		{`"text"`, `""`, ""},
		{`{"name":"header","inputSchema":{"type":"object","properties":{"n":{"type":"number","x-mcp-header":"N"}}}}`, `"header"`, ""},
		{`{"name":"` + strings.Repeat("long", 100) + `"}`, `"longlong`, ""},
		{`{"name":"elsewhere","inputSchema":{"type":"object","properties":{"a":{"$ref":"https://evil.example/a.json"}}}}`, `"elsewhere"`,
			`the input schema has a $ref to "https://evil.example/a.json"`},
		{`{"name":"output","outputSchema":{"type":"object","$dynamicRef":"other.json#a"}}`, `"output"`, "the output schema has a $dynamicRef"},
		{`{"name":"task","execution":{"taskSupport":"required"}}`, `"task"`, outcome.RefusedTask},
	}
	for _, r := range refused {
		list = append(list, json.RawMessage(r.raw))
	}
	load := func(p upstreamtest.Protocols) outcome.Outcome {
		return newFixture(t, Options{}, upstreamtest.Options{Tools: list, Protocols: p}).available()
	}
	out := load(upstreamtest.Modern)
	if got := out.Tools; len(got) != 2 || got[1].Name != "task" || len(out.Refused) != len(refused)-1 {
		t.Errorf("Load of a stateless server accepts %v, want also the one with tasks", got)
	}
	out = load(upstreamtest.Legacy)
	if len(out.Tools) != 1 || string(out.Tools[0].Raw) != good || len(out.Refused) != len(refused) {
		t.Fatalf("Load accepts %v and refuses %+v, want only the first tool accepted",
			out.Tools, out.Refused)
	}
	for i, want := range refused {
		r := out.Refused[i]
		if !strings.HasPrefix(r.Name, want.name) || r.Reason == "" || !strings.HasPrefix(r.Reason, want.reason) || len(r.Name) > 128 || len(r.Reason) > 256 {
			t.Errorf("refusal %d = %+v, want %s because %q", i, r, want.name, want.reason)
		}
	}
}

func TestLoadKeepsBytes(t *testing.T) {
	raw := `{ "zeta":1e2, "name":"exact" ,"x":{"b":9007199254740993,"a":[1.0,1.50]},"inputSchema":{"type":"object","é":"\u00e9\/"}}`
	for _, o := range []upstreamtest.Options{{Protocols: upstreamtest.Modern}, {Protocols: upstreamtest.Legacy, SSE: true}} {
		o.Tools = []json.RawMessage{json.RawMessage(raw)}
		out := newFixture(t, Options{}, o).load()
		if len(out.Tools) != 1 || string(out.Tools[0].Raw) != raw {
			t.Errorf("definition = %s %s, want the bytes %s", out.Status, out.Error, raw)
		}
	}
}

func TestErrorsAndLogs(t *testing.T) {
	const token, query, password = "t0p-secret-token", "api_key=query-secret", "pass-word-secret"
	log, text := logged()
	f := newFixture(t, Options{Log: log, Secrets: secretsFunc(func(string) (string, error) { return token, nil })}, upstreamtest.Options{})
	f.servers[0].Fail(func(_ *upstreamtest.Server, w http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.Error(w, fmt.Sprintf("database is down; you sent %v to %s", r.Header, r.URL), http.StatusInternalServerError)
	})
	f.targets[0].URL = strings.Replace(f.targets[0].URL, "http://", "http://someone:"+password+"@", 1) + "?" + query
	f.targets[0].Headers = map[string]string{"X-Token": "Bearer ${ssm:/x}", "X-Plain": "plain-header-value"}
	out := f.load()
	f.servers[0].Refuse()
	refused, failed := f.load(), f.fails(Call{Name: "t"})
	for _, got := range []string{out.Error, refused.Error, failed.Error(), text.String()} {
		for _, secret := range []string{token, query, "query-secret", password, "plain-header-value", "someone"} {
			if strings.Contains(got, secret) {
				t.Errorf("secret %q is in %s", secret, got)
			}
		}
	}
	for _, want := range []string{"http status 500", "database is down"} {
		if !strings.Contains(out.Error, want) || !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in the error %s or not in the log", want, out.Error)
		}
	}
	if !strings.Contains(refused.Error, "connection refused") {
		t.Errorf("error = %s, want the cause in it", refused.Error)
	}
	for line := range bytes.Lines(text.Bytes()) {
		var m map[string]any
		if json.Unmarshal(line, &m) != nil || m["server"] != "server0" || m["status"] == nil || m["reason"] == nil {
			t.Errorf("log line without server0, status or reason: %s", line)
		}
	}
}

func TestObserve(t *testing.T) {
	var events []outcome.Outcome
	f := newFixture(t, Options{Observe: func(_ context.Context, o outcome.Outcome) { events = append(events, o) }}, upstreamtest.Options{})
	f.available()
	f.servers[0].Fail(upstreamtest.Status(403, ""))
	f.fails(Call{Name: "x"})
	if len(events) != 2 || events[0].Status != outcome.Available || events[0].ServerID != "server0" ||
		events[1].Status != denied || events[1].Reason != forbidden || events[1].HTTPStatus != 403 || events[1].Attempts != 1 {
		t.Errorf("events = %+v", events)
	}
	for _, e := range events {
		if e.Reason != "" && !slices.Contains(outcome.Reasons(), e.Reason) {
			t.Errorf("reason %q is not in outcome.Reasons", e.Reason)
		}
	}
}
