package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const (
	readOnly = gatewaytest.ReadOnly
	mildly   = gatewaytest.Additive
)

var (
	def   = gatewaytest.Tool
	parse = gatewaytest.Request
)

// A fixture is a gateway in memory that counts.
type fixture struct {
	*gatewaytest.Gateway
	counts *counts
}

func newFixture(t testing.TB) *fixture {
	gw := &fixture{gatewaytest.New(t), &counts{}}
	gw.Options.Recorder = gw.counts
	gw.Restart()
	return gw
}

// serving returns a gateway with one server, s, that lists these definitions. settings are those
// of the server, rest is put into the file.
func serving(t testing.TB, settings, rest string, definitions ...string) *fixture {
	gw := newFixture(t)
	gw.Serve("s", definitions...)
	var more []string
	if rest != "" {
		more = []string{rest}
	}
	gw.Configure(map[string]string{"s": settings}, more...)
	gw.Sync()
	return gw
}

// sentNothing checks that no call reached a server.
func (gw *fixture) sentNothing() {
	gw.T.Helper()
	if got := gw.Sent(); len(got) != 0 {
		gw.T.Errorf("calls reached servers: %v", got)
	}
}

// search is retrieve_tools, which must not fail.
func (gw *fixture) search(arguments string) found {
	gw.T.Helper()
	r := gw.Call("retrieve_tools", arguments)
	if r.IsError {
		gw.T.Fatalf("retrieve_tools %s: %s", arguments, r.Text)
	}
	return readFound(gw.T, r.Text)
}

// A found is an answer of retrieve_tools, read.
type found struct {
	Raw   string
	Tools []struct {
		Name, Signature, Description string
		Lossy                        bool
		CallWith                     string          `json:"call_with"`
		InputSchema                  json.RawMessage `json:"input_schema"`
		Score                        *float64
	}
	More     []string
	Total    int
	Disabled []struct {
		Name, Description, Status, Note string
	}
	Remediation map[string]string
	Notice      string
}

func readFound(t testing.TB, text string) found {
	t.Helper()
	f := require.JSON[found](t, text)
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
