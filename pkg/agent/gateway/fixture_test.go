package gateway_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/golden"
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

// A fixture is a gateway in memory.
type fixture struct{ *gatewaytest.Gateway }

func newFixture(t testing.TB) *fixture { return &fixture{gatewaytest.New(t)} }

// counting returns the counts to which the next requests add.
func (gw *fixture) counting() *observe.Counts {
	gw.Event = new(audit.CallEvent)
	return &gw.Event.Counts
}

// load stores a config and runs a sync.
func (gw *fixture) load(settings map[string]string, rest ...string) {
	gw.T.Helper()
	gw.Configure(settings, rest...)
	gw.Sync()
}

// reconfigure stores a config, and waits until the gateway reads it.
func (gw *fixture) reconfigure(settings map[string]string, rest ...string) {
	gw.T.Helper()
	gw.Configure(settings, rest...)
	gw.Clock.Wait(time.Minute)
}

// serving returns a gateway with one server, s, that lists definitions. settings are the server's
// settings. If rest is not "", it is added to the config file.
func serving(t testing.TB, settings, rest string, definitions ...string) *fixture {
	gw := newFixture(t)
	gw.Serve("s", definitions...)
	var more []string
	if rest != "" {
		more = []string{rest}
	}
	gw.load(map[string]string{"s": settings}, more...)
	return gw
}

// sentNothing checks that no call reached a server.
func (gw *fixture) sentNothing() {
	gw.T.Helper()
	if got := gw.Sent(); len(got) != 0 {
		gw.T.Errorf("calls reached servers: %v", got)
	}
}

// succeeds returns a check that a request has a result with a text.
func (gw *fixture) succeeds(text string) func(json.RawMessage, error) {
	return func(raw json.RawMessage, err error) {
		gw.T.Helper()
		if err != nil || !strings.Contains(string(raw), text) {
			gw.T.Errorf("got %s, %v; want %s", raw, err, text)
		}
	}
}

// search calls retrieve_tools, which must not fail.
func (gw *fixture) search(arguments string) found {
	gw.T.Helper()
	r := gw.Call("retrieve_tools", arguments)
	if r.IsError {
		gw.T.Fatalf("retrieve_tools %s: %s", arguments, r.Text)
	}
	return readFound(gw.T, r.Text)
}

// A found is a parsed answer of retrieve_tools.
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

// checkAnswer compares an answer, which is compact JSON, with its golden file.
func checkAnswer(t *testing.T, name, answer string) {
	t.Helper()
	golden.JSON(t, filepath.Join("testdata", name+".json"), answer)
	if strings.Contains(answer, "\n") {
		t.Error("the answer is not compact JSON")
	}
}

// same checks that two values are equal.
func same[T any](t testing.TB, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
