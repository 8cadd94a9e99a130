package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

func at(second int) time.Time { return time.Date(2026, 3, 4, 5, 6, second, 0, time.UTC) }

func TestCallEvent(t *testing.T) {
	const empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" // of {}
	for _, test := range []struct {
		name string
		do   func(e *audit.CallEvent)
		want audit.Line
	}{
		{"nothing is known", func(*audit.CallEvent) {}, audit.Line{}},
		{"a lock", func(e *audit.CallEvent) {
			e.Tool = "git:git_push"
			e.Lock("pending_approval", []string{"tools.disabled[0]"})
		}, audit.Line{Tool: "git:git_push", Decision: audit.Locked, Status: "pending_approval", Rules: []string{"tools.disabled[0]"}}},
		{"without arguments, sent", func(e *audit.CallEvent) {
			e.SetArguments(nil)
			e.Allow("d1")
			e.SetSentArguments(nil)
			e.Outcome = "available"
		}, audit.Line{Decision: audit.Allowed, Definition: "d1", ArgsAsked: empty, ArgsSent: empty, Outcome: "available"}},
		{"locked after Allow", func(e *audit.CallEvent) {
			e.SetArguments(nil)
			e.Allow("d1")
			e.SetSentArguments(nil)
			e.Lock("disabled_by_user", nil)
		}, audit.Line{Decision: audit.Locked, Status: "disabled_by_user", Definition: "d1", ArgsAsked: empty, ArgsSent: empty}},
		{"the sent arguments differ, and the requested ones are kept redacted", func(e *audit.CallEvent) {
			e.SetArguments(json.RawMessage(`{"a":1}`))
			e.SetSentArguments(json.RawMessage(`{}`))
			e.Redacted = true
		}, audit.Line{ArgsAsked: "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862", ArgsSent: empty, Arguments: json.RawMessage(`{"a":"‹number›"}`)}},
		{"refused", func(e *audit.CallEvent) { e.Refuse() }, audit.Line{Decision: audit.Refused}},
		{"stopped", func(e *audit.CallEvent) {
			e.Decide(audit.Stopped, "")
			e.Lock("server_disabled", []string{"x"})
		}, audit.Line{Decision: audit.Stopped, Status: "server_disabled"}},
		{"a refusal is no second decision", func(e *audit.CallEvent) {
			e.Decide(audit.Scope, "")
			e.Refuse()
		}, audit.Line{Decision: audit.Scope}},
		{"found", func(e *audit.CallEvent) {
			e.Found = &audit.Matches{Callable: 2, Locked: map[string]int{"pending_approval": 1}}
		},
			audit.Line{Found: &audit.Matches{Callable: 2, Locked: map[string]int{"pending_approval": 1}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := new(audit.CallEvent)
			test.do(e)
			test.want.V, test.want.Time, test.want.Kind = 1, at(1), audit.KindCall
			if d := cmp.Diff(test.want, e.End(at(1))); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestHashArguments(t *testing.T) {
	// printf %s "$json" | sha256sum, of the canonical form
	const sum = "09ad9fd2fb648cb2f62141215828ea00a62c299db05d20aa9ade2f527a301cc6"
	t.Run("two spellings of the same JSON have one hash", func(t *testing.T) {
		for _, args := range []string{`{"a":1,"b":"é"}`, "{ \"b\": \"\\u00e9\",\n\"a\": 1.0 }"} {
			if got := audit.HashArguments(json.RawMessage(args)); got != sum {
				t.Errorf("%s: %s", args, got)
			}
		}
	})
	t.Run("JSON without a canonical form has the hash of its bytes", func(t *testing.T) {
		a, b := audit.HashArguments(json.RawMessage("\"\xff\"")), audit.HashArguments(json.RawMessage("\"\xfe\""))
		if len(a) != 64 || a == b {
			t.Errorf("%s %s", a, b)
		}
	})
}

// A broken sink fails all writes.
type broken struct{ error }

func (b broken) Write(context.Context, audit.Line) error { return b.error }

func (b broken) Ready(context.Context) error { return b.error }

// kept keeps lines in memory.
type kept struct{ lines []audit.Line }

func (k *kept) Write(_ context.Context, l audit.Line) error {
	k.lines = append(k.lines, l)
	return nil
}

func TestLog(t *testing.T) {
	k, full := &kept{}, errors.New("full")
	l := audit.NewLog(broken{full}, k)
	if err := l.Write(t.Context(), audit.Line{Tool: "a:b"}); !errors.Is(err, full) || len(k.lines) != 1 {
		t.Errorf("Write = %v, and the other sink has %v", err, k.lines)
	}
	if err := l.Ready(t.Context()); !errors.Is(err, full) {
		t.Errorf("Ready = %v", err)
	}
	if err := audit.NewLog(k).Ready(t.Context()); err != nil {
		t.Errorf("Ready of a sink without Ready = %v", err)
	}
	var none *audit.Log
	if err := errors.Join(none.Write(t.Context(), audit.Line{}), none.Ready(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestRedact(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"values", `{"path":"/etc/é","n":-1.5e3,"yes":true,"no":false,"none":null}`, `{"path":"‹6 chars›","n":"‹number›","yes":"‹boolean›","no":"‹boolean›","none":null}`},
		{"nested", `{"a":{"b":["x","yy"]}}`, `{"a":{"b":["‹1 char›","‹2 chars›"]}}`},
		{"long list", `[1,2,3,4,5,6]`, `["‹number›","‹number›","‹number›","‹number›","‹2 more values›"]`},
		{"names that are data", `{"kim@example.com":1,"":2,"` + strings.Repeat("k", 33) + `":3,"ok-1":4}`, `{"‹name 1, 15 chars›":"‹number›","‹name 2, 0 chars›":"‹number›","‹name 3, 33 chars›":"‹number›","ok-1":"‹number›"}`},
		{"a name that is an API key", `{"sk-live-0a1b2c3d4e5f":1,"oauth2_sha256":2}`, `{"‹name 1, 20 chars›":"‹number›","oauth2_sha256":"‹number›"}`},
		{"deep", strings.Repeat(`[`, 20) + strings.Repeat(`]`, 20), `[[[[[[[["‹list›"]]]]]]]]`},
		{"no JSON", `{"a"`, `"‹not JSON›"`},
		{"invalid UTF-8", "{\"a\":\"\xff\xfe\"}", `{"a":"‹2 chars›"}`},
		{"none", ``, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := string(audit.Redact(json.RawMessage(test.in))); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	t.Run("much", func(t *testing.T) {
		many := strings.Repeat(`{"secret":"swordfish","inner":`, 50_000) + `1` + strings.Repeat(`}`, 50_000)
		wide := `{"a":1` + strings.Repeat(`,"swordfish.x":"swordfish"`, 50_000) + `}`
		for _, in := range []string{many[:30*5000] + `1` + strings.Repeat(`}`, 5000), wide} {
			got := audit.Redact(json.RawMessage(in))
			if len(got) > 5<<10 || !json.Valid(got) || strings.Contains(string(got), "swordfish") {
				t.Errorf("%d bytes, valid %v: %.300s", len(got), json.Valid(got), got)
			}
		}
	})
}

func TestFilter(t *testing.T) {
	call := audit.Line{Time: at(5), Kind: audit.KindCall, Agent: "ci", Tool: "git:git_push"}
	own := audit.Line{Time: at(5), Kind: audit.KindCall, Agent: "ci", Tool: "retrieve_tools"}
	event := audit.Line{Time: at(5), Kind: audit.KindEvent, Actor: "kim", Action: "stop", Subject: "server:git"}
	for name, test := range map[string]struct {
		f    audit.Filter
		want []bool // call, own, event
	}{
		"zero":           {audit.Filter{}, []bool{true, true, true}},
		"kind":           {audit.Filter{Kind: audit.KindEvent}, []bool{false, false, true}},
		"agent":          {audit.Filter{Actor: "ci"}, []bool{true, true, false}},
		"actor":          {audit.Filter{Actor: "kim"}, []bool{false, false, true}},
		"action":         {audit.Filter{Action: "stop"}, []bool{false, false, true}},
		"server":         {audit.Filter{Server: "git"}, []bool{true, false, true}},
		"no server":      {audit.Filter{Server: "retrieve_tools"}, []bool{false, false, false}},
		"tool":           {audit.Filter{Tool: "git:git_push"}, []bool{true, false, false}},
		"since its time": {audit.Filter{Since: at(5)}, []bool{true, true, true}},
		"since later":    {audit.Filter{Since: at(6)}, []bool{false, false, false}},
		"until its time": {audit.Filter{Until: at(5)}, []bool{false, false, false}},
		"until later":    {audit.Filter{Until: at(6)}, []bool{true, true, true}},
		"two members":    {audit.Filter{Actor: "ci", Server: "fs"}, []bool{false, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			got := []bool{test.f.Wants(call), test.f.Wants(own), test.f.Wants(event)}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
