package functions_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
)

const (
	search     = `{"query":"issues of a repository","include_disabled":true}`
	searchTool = `{"name":"github:search_issues","args":{"query":"x"}}`
)

// A function starts even if a store fails. It refuses all calls until the store works again. The
// tests of the clients and of the state have the other ways in which a store can fail.
func (g suite) failBeforeStart(t *testing.T) {
	t.Run("S3", func(t *testing.T) {
		t.Parallel()
		w := g.fixture(t)
		w.Sync(t)
		w.proxy.Set("s3", lambdatest.Gone)
		f := w.Start(t, "mcp")
		r := f.Call("call_tool_read", searchTool)
		w.wantQuiet(t, r.Text)
		if !r.IsError || len(w.github.Calls()) > 0 {
			t.Errorf("a call without a config answers %+v", r)
		}
		if r := f.Call("retrieve_tools", search); !r.IsError {
			t.Errorf("discovery without a config answers %+v", r)
		}
		if r := f.Send("/healthz", ""); r.Status != http.StatusServiceUnavailable {
			t.Errorf("/healthz = %d %s", r.Status, r.Body)
		}
		w.proxy.Set("s3", lambdatest.None)
		local.Until(t, "the function answers searches after S3 works again", func() bool {
			return !f.Call("retrieve_tools", search).IsError
		})
	})
	t.Run("DynamoDB", func(t *testing.T) {
		t.Parallel()
		w := g.fixture(t)
		w.Sync(t)
		w.proxy.Set("dynamodb", lambdatest.Gone)
		f := w.Start(t, "mcp")
		w.wantRefused(t, f)
		w.proxy.Set("dynamodb", lambdatest.None)
		local.Until(t, "the function allows calls after DynamoDB works again", func() bool {
			return !f.Call("call_tool_read", searchTool).IsError
		})
	})
}

// wantRefused checks that the function refuses a call because it cannot read the approval, and that
// the call does not reach its server. Discovery uses the approvals of the catalog, or the cached
// ones, which are less than a minute old.
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
	r = f.Call("retrieve_tools", search)
	if r.IsError || !strings.Contains(r.Text, `"github:search_issues"`) {
		t.Errorf("discovery without the table answers %+v", r)
	}
}

// failDuringRequests makes DynamoDB fail while functions run.
func (g suite) failDuringRequests(t *testing.T) {
	t.Run("a call", func(t *testing.T) {
		t.Parallel()
		w := g.fixture(t)
		w.Sync(t)
		f := w.Start(t, "mcp")
		f.Call("call_tool_read", searchTool)
		w.proxy.Set("dynamodb", lambdatest.Slow)
		w.wantRefused(t, f)
		w.proxy.Set("dynamodb", lambdatest.None)
		if r := f.Call("call_tool_read", searchTool); r.IsError {
			t.Errorf("a call after DynamoDB works again answers %+v", r)
		}
	})
	t.Run("a sync, and a page", func(t *testing.T) {
		t.Parallel()
		w := g.fixture(t)
		w.Sync(t)
		sync, admin := w.Start(t, "sync"), w.Start(t, "admin")
		w.proxy.Set("dynamodb", lambdatest.Throttled)
		a := sync.Invoke([]byte(`{}`))
		w.wantQuiet(t, string(a.Payload))
		if !a.Failed || !strings.Contains(a.Output, `"Result":"failed"`) {
			t.Errorf("a sync without DynamoDB answers %s", a.Payload)
		}
		r := admin.Send("/admin/tools/mail/send_mail", "")
		w.wantQuiet(t, r.Body)
		if r.Status < 500 {
			t.Errorf("a tool with an unreadable record is shown: %d %s", r.Status, r.Body)
		}
		w.proxy.Set("dynamodb", lambdatest.None)
		if again := sync.Invoke([]byte(`{}`)); again.Failed {
			t.Errorf("a sync after DynamoDB works again answers %s", again.Payload)
		}
	})
}
