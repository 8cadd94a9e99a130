package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
)

// A reply is a tools/call result, read.
type reply struct {
	Raw     string
	Text    string
	IsError bool
	Meta    map[string]json.RawMessage
}

// call calls one of the gateway's tools; arguments is JSON.
func (y *yard) call(name, arguments string) reply {
	y.t.Helper()
	raw, err := y.open().CallTool(y.t.Context(), parse(y.t, fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments)))
	if err != nil {
		y.t.Fatalf("%s %s: %v", name, arguments, err)
	}
	return readReply(y.t, raw)
}

func readReply(t testing.TB, raw json.RawMessage) reply {
	t.Helper()
	var r struct {
		Content []struct{ Type, Text string }
		IsError bool
		Meta    map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	if len(r.Content) != 1 || r.Content[0].Type != "text" {
		t.Fatalf("%s: want one text block", raw)
	}
	return reply{string(raw), r.Content[0].Text, r.IsError, r.Meta}
}

// search is retrieve_tools, which must not fail.
func (y *yard) search(arguments string) found {
	y.t.Helper()
	r := y.call("retrieve_tools", arguments)
	if r.IsError {
		y.t.Fatalf("retrieve_tools %s: %s", arguments, r.Text)
	}
	return readFound(y.t, r.Text)
}

// A found is an answer of retrieve_tools, read.
type found struct {
	Raw   string
	Tools []struct {
		Name, Server, Signature, Description string
		Lossy                                bool
		CallWith                             string          `json:"call_with"`
		InputSchema                          json.RawMessage `json:"input_schema"`
		Score                                *float64
	}
	Total    int
	Disabled []struct {
		Name, Server, Description, Status, Note string
	}
	Remediation map[string]string
	Notice      string
}

func readFound(t testing.TB, text string) found {
	t.Helper()
	var f found
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	f.Raw = text
	return f
}

// names returns the callable names, and the locked ones with their statuses.
func (f found) names() (callable []string, locked map[string]string) {
	locked = map[string]string{}
	for _, t := range f.Tools {
		callable = append(callable, t.Name)
	}
	for _, d := range f.Disabled {
		locked[d.Name] = d.Status
	}
	return callable, locked
}

// counts is a Recorder.
type counts struct {
	mu  sync.Mutex
	all []string
}

func (c *counts) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, fmt.Sprintf(format, args...))
}

func (c *counts) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.all
	c.all = nil
	return out
}

func (c *counts) Discovery(_ context.Context, includeDisabled, nudged bool) {
	c.add("discovery disabled=%v nudged=%v", includeDisabled, nudged)
}
func (c *counts) Call(_ context.Context, tool, tier string) { c.add("call %s %s", tool, tier) }
func (c *counts) Blocked(_ context.Context, tool, status string) {
	c.add("blocked %s %s", tool, status)
}
