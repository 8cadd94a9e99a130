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

// A function that starts while a store fails still starts. It refuses all calls, and serves as soon
// as the store is back.
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
		t.Errorf("it took %v to start; Lambda gives up after 10 s", f.Started)
	}
	r := f.Call("call_tool_read", searchTool)
	w.wantQuiet(t, r.Text)
	if !r.IsError || len(w.github.Calls()) > 0 {
		t.Errorf("a call without a config answers %+v", r)
	}
	if fault != lambdatest.Slow { // each of these waits for the store as long as a request may
		if r := f.Call("retrieve_tools", search); !r.IsError {
			t.Errorf("discovery without a config answers %+v", r)
		}
		if r := f.Send("/healthz", ""); r.Status != http.StatusServiceUnavailable {
			t.Errorf("/healthz = %d %s", r.Status, r.Body)
		}
	}
	w.proxy.Set("s3", lambdatest.None)
	local.Until(t, "it serves once S3 is back", func() bool { return !f.Call("retrieve_tools", search).IsError })
}

func (w *fixture) startWithoutDynamoDB(t *testing.T, fault lambdatest.Fault) {
	w.Sync(t)
	w.proxy.Set("dynamodb", fault)
	f := w.Start(t, "mcp")
	w.wantRefused(t, f)
	// The catalog holds the approvals as of its sync, which was less than a minute ago.
	if r := f.Call("retrieve_tools", search); r.IsError || !strings.Contains(r.Text, `"github:search_issues"`) {
		t.Errorf("discovery without the table answers %+v", r)
	}
	w.proxy.Set("dynamodb", lambdatest.None)
	local.Until(t, "calls go through once DynamoDB is back", func() bool { return !f.Call("call_tool_read", searchTool).IsError })
}

// wantRefused checks that a call is refused because nobody can say whether it is approved,
// and that it does not reach its server.
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

// failDuringRequests takes stores away from functions that run.
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
				t.Errorf("discovery by what is held answers %+v", r)
			}
			w.proxy.Set("dynamodb", lambdatest.None)
			if r := f.Call("call_tool_read", searchTool); r.IsError {
				t.Errorf("a call after DynamoDB is back answers %+v", r)
			}
		})
		for _, service := range []string{"s3", "dynamodb"} {
			if fault == lambdatest.Slow {
				continue // a sync waits for a slow store as long as its function lives
			}
			t.Run("sync without "+service+" "+name, func(t *testing.T) {
				t.Parallel()
				g.fixture(t).syncWithout(t, service, fault)
			})
		}
	}
	t.Run("people read no cause", func(t *testing.T) {
		t.Parallel()
		w := g.fixture(t)
		w.Sync(t)
		f := w.Start(t, "admin")
		w.proxy.Set("dynamodb", lambdatest.Throttled)
		r := f.Send("/admin/tools/mail/send_mail", "")
		w.wantQuiet(t, r.Body)
		if r.Status < 500 {
			t.Errorf("a tool whose record cannot be read is shown: %d %s", r.Status, r.Body)
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
		t.Errorf("a sync after %s is back answers %s", service, again.Payload)
	}
}
