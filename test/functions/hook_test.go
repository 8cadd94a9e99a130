package functions_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A codeDeploy is a fake of Lambda and CodeDeploy for the hook. It invokes functions by their
// qualifier, and records the verdicts.
type codeDeploy struct {
	*httptest.Server
	functions map[string]*lambdatest.Function

	mu       sync.Mutex
	verdicts []string
}

func newCodeDeploy(t *testing.T, functions map[string]*lambdatest.Function) *codeDeploy {
	t.Helper()
	c := &codeDeploy{functions: functions}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /2015-03-31/functions/{arn}/invocations", c.invoke)
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		c.verdicts = append(c.verdicts, r.Header.Get("X-Amz-Target")+" "+string(body))
		c.mu.Unlock()
		_, _ = io.WriteString(w, "{}")
	})
	c.Server = httptest.NewServer(mux)
	t.Cleanup(c.Close)
	return c
}

func (c *codeDeploy) invoke(w http.ResponseWriter, r *http.Request) {
	arn, err := url.PathUnescape(r.PathValue("arn"))
	f := c.functions[arn[strings.LastIndex(arn, ":")+1:]]
	if err != nil || f == nil {
		http.Error(w, arn, http.StatusNotFound)
		return
	}
	payload, _ := io.ReadAll(r.Body)
	if !f.Ready() { // the answer of Lambda if a process ends before it requests an event
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		_, _ = io.WriteString(w, `{"errorType":"Runtime.ExitError","errorMessage":"exit status 1"}`)
		return
	}
	a := f.Invoke(payload)
	if a.Failed {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
	}
	if a.Stream != nil {
		_, _ = fmt.Fprintf(w, `{"statusCode":%d}`+strings.Repeat("\x00", 8), a.Stream.Status)
	}
	_, _ = w.Write(a.Payload)
}

// The hook invokes the old and the new version of the mcp function, and reports a verdict to
// CodeDeploy.
func TestHook(t *testing.T) {
	endpoint := emulator.Start(t)
	programs := lambdatest.Build(t, repo.Path("."), "mcp", "sync", "hook")
	well := lambdatest.NewStack(t, endpoint, programs, map[string]string{"PORTCULLIS_AUTH": "none"})
	well.Configure(`{"mcpServers":{}}`)
	well.Sync(t)
	broken := lambdatest.NewStack(t, endpoint, programs, map[string]string{"PORTCULLIS_AUTH": "none"}) // has no config
	for _, c := range []struct {
		name     string
		old, new *lambdatest.Function
		want     string
	}{
		{"a version that answers", well.Start(t, "mcp"), well.Start(t, "mcp"), "Succeeded"},
		{"a version that streams", well.Start(t, "mcp"), well.Start(t, "mcp", "PORTCULLIS_STREAMING", "url", "PORTCULLIS_BASE_URL", ""), "Succeeded"},
		{"a version that does not start", well.Start(t, "mcp"), well.Start(t, "mcp", "PORTCULLIS_AUTH", ""), "Failed"},
		{"a version that fails while the old version works", well.Start(t, "mcp"), broken.Start(t, "mcp"), "Failed"},
		{"a version that fails like the old version", broken.Start(t, "mcp"), broken.Start(t, "mcp"), "Succeeded"},
		{"a version that starts while the old version does not", well.Start(t, "mcp", "PORTCULLIS_AUTH", ""), broken.Start(t, "mcp"), "Succeeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			aws := newCodeDeploy(t, map[string]*lambdatest.Function{"live": c.old, "7": c.new})
			hook := lambdatest.Start(t, filepath.Join(programs, "hook"), map[string]string{
				"AWS_ENDPOINT_URL": aws.URL, "PORTCULLIS_NEW_VERSION": "arn:aws:lambda:us-east-1:123456789012:function:gate-McpFunction:7",
			})
			a := hook.Invoke([]byte(`{"DeploymentId":"d-1","LifecycleEventHookExecutionId":"x-1"}`))
			if a.Failed || len(aws.verdicts) != 1 {
				t.Fatalf("the hook answers %s and reports %q", a.Payload, aws.verdicts)
			}
			target, body, _ := strings.Cut(aws.verdicts[0], " ")
			got := require.JSON[map[string]string](t, body)
			if !strings.HasSuffix(target, ".PutLifecycleEventHookExecutionStatus") || got["status"] != c.want || got["deploymentId"] != "d-1" || got["lifecycleEventHookExecutionId"] != "x-1" {
				t.Errorf("the hook reports %s %s, want %s; its log:\n%s", target, body, c.want, a.Output)
			}
			if strings.Contains(a.Output, "GET /healthz with 503") && !strings.Contains(a.Output, "deploy a release between the two first") {
				t.Errorf("the refusal names no step:\n%s", a.Output)
			}
			if refused := strings.Contains(a.Output, "new version refused"); refused != (c.want == "Failed") {
				t.Errorf("log of the hook:\n%s", a.Output)
			}
		})
	}
	t.Run("CodeDeploy that does not answer", func(t *testing.T) {
		aws := newCodeDeploy(t, map[string]*lambdatest.Function{"7": well.Start(t, "mcp")})
		hook := lambdatest.Start(t, filepath.Join(programs, "hook"), map[string]string{
			"AWS_ENDPOINT_URL_LAMBDA": aws.URL, "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1",
			"PORTCULLIS_NEW_VERSION": "arn:aws:lambda:us-east-1:123456789012:function:gate-McpFunction:7",
		})
		var said struct{ ErrorMessage string }
		a := hook.Invoke([]byte(`{}`))
		if err := json.Unmarshal(a.Payload, &said); err != nil || !a.Failed || !strings.HasPrefix(said.ErrorMessage, "tell CodeDeploy Succeeded: ") {
			t.Errorf("the hook answers %s (%v)", a.Payload, err)
		}
	})
}
