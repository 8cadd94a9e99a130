package functions_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/audit"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// freshness is after how long a search sees what was decided and stopped, and slack what a slow
// machine may add.
const freshness, slack = 2 * time.Second, 2 * time.Second

// A person stops a server, an agent and everything in one function; two others that agents call
// refuse the next call, and a search shows it soon. All of it is undone, and in the audit.
func (g suite) peopleStop(t *testing.T) {
	w := g.fixture(t)
	w.Sync(t)
	settings := []string{"PORTCULLIS_AUTH", "token", "PORTCULLIS_TOKEN_KEY", "a key that is for tests alone, of 32 bytes and more"}
	admin := w.Start(t, "admin", settings...)
	both := []*lambdatest.Function{w.Start(t, "mcp", settings...), w.Start(t, "mcp", settings...)}
	bearer := func(name string) string {
		var made struct{ Token string }
		admin.Ask(http.StatusCreated, "/admin/tokens", `{"name":"`+name+`","servers":["*"],"tiers":["read","write","destructive"],"days":1}`, &made)
		return "Authorization: Bearer " + made.Token
	}
	ci, dev := bearer("ci"), bearer("dev")
	works := func(when string, agents ...string) {
		t.Helper()
		for i, f := range both {
			for _, agent := range agents {
				if a := callRead(f, agent); a.Status != http.StatusOK || strings.Contains(a.Body, `"isError":true`) || strings.Contains(a.Body, `"error"`) {
					t.Errorf("%s function %d answers a call with %d %s", when, i, a.Status, a.Body)
				}
			}
		}
	}
	works("before a stop", ci, dev)
	for _, c := range []struct {
		target, reason string
		status         int
	}{
		{`"server":"github"`, "its key is out", http.StatusOK},
		{`"agent":"token:ci"`, "it loops", http.StatusForbidden},
		{`"all":true`, "an incident", http.StatusOK},
	} {
		admin.Ask(http.StatusOK, "/admin/stop", `{`+c.target+`,"reason":"`+c.reason+`"}`, nil)
		stopped := time.Now()
		for i, f := range both {
			a := callRead(f, ci)
			if a.Status != c.status || !strings.Contains(a.Body, c.reason) || c.status == http.StatusOK && !strings.Contains(a.Body, `server_disabled`) {
				t.Errorf("with %s stopped the next call of function %d answers %d %s", c.target, i, a.Status, a.Body)
			}
			w.wantQuiet(t, a.Body)
		}
		if c.status == http.StatusForbidden {
			works("with another agent stopped", dev)
		} else {
			for i, f := range both {
				local.Until(t, "a search shows what is stopped", func() bool { return strings.Contains(searched(f, dev), `"status":"server_disabled"`) })
				if took := time.Since(stopped); took > freshness+slack {
					t.Errorf("function %d shows it after %v", i, took)
				}
			}
		}
		admin.Ask(http.StatusOK, "/admin/stop/undo", `{`+c.target+`}`, nil)
		works("with the stop of "+c.target+" undone", ci, dev)
		undone := time.Now()
		for i, f := range both {
			local.Until(t, "a search shows that the stop is undone", func() bool { return strings.Contains(searched(f, dev), `"call_with":"call_tool_read"`) })
			if took := time.Since(undone); took > freshness+slack {
				t.Errorf("function %d shows it after %v", i, took)
			}
		}
	}
	w.wantStops(t)
	w.proxy.Set("dynamodb", lambdatest.Gone)
	if a := callRead(both[0], dev); !strings.Contains(a.Body, `disabled_unknown`) && a.Status == http.StatusOK {
		t.Errorf("a call while nobody can tell what is stopped answers %d %s", a.Status, a.Body)
	}
	w.proxy.Set("dynamodb", lambdatest.None)
	works("when what is stopped can be read again", dev)
	if w.proxy.Checked() == 0 {
		t.Error("no call was held against a role")
	}
}

// callRead calls a tool that is callable.
func callRead(f *lambdatest.Function, agent string) agenttest.Answer {
	return f.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool_read","arguments":{"name":"github:search_issues","args":{"query":"x"}}}}`, agent)
}

// searched returns what a search with the locked tools finds.
func searched(f *lambdatest.Function, agent string) string {
	a := f.Send("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"retrieve_tools","arguments":{"query":"search issues","include_disabled":true}}}`, agent)
	var said struct {
		Result struct{ Content []struct{ Text string } }
	}
	if json.Unmarshal([]byte(a.Body), &said) != nil || len(said.Result.Content) == 0 {
		return a.Body
	}
	return said.Result.Content[0].Text
}

// wantStops checks that each stop and its end is a deed, newest first.
func (w *fixture) wantStops(t *testing.T) {
	t.Helper()
	deeds, _, err := dynamo.NewDeeds(dynamodb.NewFromConfig(emulator.Config(w.Endpoint)), w.Env["PORTCULLIS_TABLE"], nil).Deeds(t.Context(), audit.Filter{}, "", 100)
	require.OK(t, err)
	var said []string
	for _, d := range deeds {
		if strings.HasPrefix(d.Action, "stop") {
			said = append(said, d.Actor+" "+d.Action+" "+d.Subject+": "+d.Note)
		}
	}
	want := []string{
		"bootstrap stop_undone all: ", "bootstrap stop all: an incident", "bootstrap stop_undone agent:token:ci: ", "bootstrap stop agent:token:ci: it loops",
		"bootstrap stop_undone server:github: ", "bootstrap stop server:github: its key is out",
	}
	if d := cmp.Diff(want, said); d != "" {
		t.Errorf("deeds (-want +got):\n%s", d)
	}
}
