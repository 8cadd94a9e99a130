package functions_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
)

const (
	search     = `{"query":"issues of a repository","include_disabled":true}`
	searchTool = `{"name":"github:search_issues","args":{"query":"x"}}`
)

var faults = map[string]lambdatest.Fault{"gone": lambdatest.Gone, "slow": lambdatest.Slow, "throttled": lambdatest.Throttled}

// A function starts even if a store fails. It refuses all calls until the store works again.
func (g suite) failBeforeStart(t *testing.T) {
	for name, fault := range faults {
		t.Run("S3 "+name, func(t *testing.T) {
			t.Parallel()
			g.fixture(t).startWithoutS3(t, fault)
		})
		t.Run("DynamoDB "+name, func(t *testing.T) {
			t.Parallel()
			g.fixture(t).startWithoutDynamoDB(t, fault)
		})
	}
}

func (w *fixture) startWithoutS3(t *testing.T, fault lambdatest.Fault) {
	w.Sync(t)
	w.proxy.Set("s3", fault)
	f := w.Start(t, "mcp")
	if f.Started > 9*time.Second {
		t.Errorf("the start took %v; Lambda ends it after 10 s", f.Started)
	}
	r := f.Call("call_tool_read", searchTool)
	w.wantQuiet(t, r.Text)
	if !r.IsError || len(w.github.Calls()) > 0 {
		t.Errorf("a call without a config answers %+v", r)
	}
	if fault != lambdatest.Slow { // these requests would wait until their timeout
		if r := f.Call("retrieve_tools", search); !r.IsError {
			t.Errorf("discovery without a config answers %+v", r)
		}
		if r := f.Send("/healthz", ""); r.Status != http.StatusServiceUnavailable {
			t.Errorf("/healthz = %d %s", r.Status, r.Body)
		}
	}
	w.proxy.Set("s3", lambdatest.None)
	local.Until(t, "the function answers searches after S3 works again", func() bool { return !f.Call("retrieve_tools", search).IsError })
}

func (w *fixture) startWithoutDynamoDB(t *testing.T, fault lambdatest.Fault) {
	w.Sync(t)
	w.proxy.Set("dynamodb", fault)
	f := w.Start(t, "mcp")
	w.wantRefused(t, f)
	// The catalog contains the approvals of its sync, which was less than a minute ago.
	if r := f.Call("retrieve_tools", search); r.IsError || !strings.Contains(r.Text, `"github:search_issues"`) {
		t.Errorf("discovery without the table answers %+v", r)
	}
	w.proxy.Set("dynamodb", lambdatest.None)
	local.Until(t, "the function allows calls after DynamoDB works again", func() bool { return !f.Call("call_tool_read", searchTool).IsError })
}

// wantRefused checks that the function refuses a call because it cannot read the approval, and that
// the call does not reach its server.
func (w *fixture) wantRefused(t *testing.T, f *lambdatest.Function) {
	t.Helper()
	w.github.ForgetRequests()
	r := f.Call("call_tool_read", searchTool)
	w.wantQuiet(t, r.Text)
	if !r.IsError || !strings.Contains(r.Text, "disabled_unknown") {
		t.Errorf("a call whose approval cannot be read answers %+v", r)
	}
	if n := len(w.github.Calls()); n > 0 {
		t.Errorf("the call went upstream %d times", n)
	}
}

// failDuringRequests makes stores fail while functions run.
func (g suite) failDuringRequests(t *testing.T) {
	for name, fault := range faults {
		t.Run("DynamoDB "+name, func(t *testing.T) {
			t.Parallel()
			w := g.fixture(t)
			w.Sync(t)
			f := w.Start(t, "mcp")
			f.Call("call_tool_read", searchTool)
			w.proxy.Set("dynamodb", fault)
			w.wantRefused(t, f)
			if r := f.Call("retrieve_tools", search); r.IsError || !strings.Contains(r.Text, `"github:search_issues"`) {
				t.Errorf("discovery with the cached state answers %+v", r)
			}
			w.proxy.Set("dynamodb", lambdatest.None)
			if r := f.Call("call_tool_read", searchTool); r.IsError {
				t.Errorf("a call after DynamoDB works again answers %+v", r)
			}
		})
		for _, service := range []string{"s3", "dynamodb"} {
			if fault == lambdatest.Slow {
				continue // a sync waits for a slow store until its function times out
			}
			t.Run("sync without "+service+" "+name, func(t *testing.T) {
				t.Parallel()
				g.fixture(t).syncWithout(t, service, fault)
			})
		}
	}
	t.Run("the answer to people hides the cause", func(t *testing.T) {
		t.Parallel()
		w := g.fixture(t)
		w.Sync(t)
		f := w.Start(t, "admin")
		w.proxy.Set("dynamodb", lambdatest.Throttled)
		r := f.Send("/admin/tools/mail/send_mail", "")
		w.wantQuiet(t, r.Body)
		if r.Status < 500 {
			t.Errorf("the API shows a tool with an unreadable record: %d %s", r.Status, r.Body)
		}
	})
}

func (w *fixture) syncWithout(t *testing.T, service string, fault lambdatest.Fault) {
	f := w.Start(t, "sync")
	w.proxy.Set(service, fault)
	a := f.Invoke([]byte(`{}`))
	w.proxy.Set(service, lambdatest.None)
	w.wantQuiet(t, string(a.Payload))
	if !a.Failed || !strings.Contains(a.Output, `"Result":"failed"`) {
		t.Errorf("a sync without %s answers %s", service, a.Payload)
	}
	if again := f.Invoke([]byte(`{}`)); again.Failed {
		t.Errorf("a sync after %s works again answers %s", service, again.Payload)
	}
}
