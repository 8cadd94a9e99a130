package functions_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	bootaws "github.com/portcullis-mcp/portcullis/internal/boot/aws"
	"github.com/portcullis-mcp/portcullis/pkg/store/s3"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// An inProcess is the whole gateway in this process, with the real drivers. It has a separate
// clock, so tests need not wait for timeouts.
type inProcess struct {
	*fixture
	agenttest.Client
	program *boot.Program
	log     *failingLog
	clock   gatewaytest.Clock
}

// failingLog receives the log and the metrics. If err is set, it refuses them.
type failingLog struct {
	mu   sync.Mutex
	err  error
	lost int
}

func (f *failingLog) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		f.lost++
		return 0, f.err
	}
	return len(p), nil
}

func (w *fixture) open(t *testing.T) *inProcess {
	t.Helper()
	h := &inProcess{fixture: w, log: &failingLog{}}
	h.clock.Set(time.Now(), 0)
	t.Setenv("AWS_ENDPOINT_URL", w.proxy.URL)
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	s, err := boot.Load(func(name string) string { return w.Env[name] })
	require.OK(t, err)
	p := boot.New(s, boot.Stores{}, boot.Options{})
	aws, err := bootaws.NewClients(s, p.Log, s3.Open)
	require.OK(t, err)
	h.program = boot.New(s, aws.Stores, boot.Options{Function: "mcp", Log: slog.New(slog.NewJSONHandler(h.log, nil)), Secrets: aws.Secrets, Now: h.clock.Now})
	handler, err := h.program.Public()
	require.OK(t, err)
	h.Client = agenttest.Client{T: t, URL: lambdatest.BaseURL, Transport: agenttest.InProcess(handler), Check: func(a agenttest.Answer) { w.wantQuiet(t, a.Body) }}
	return h
}

// wantReasons checks the reasons of the health, and that /healthz reports whether there are any.
func (h *inProcess) wantReasons(t *testing.T, codes ...string) {
	t.Helper()
	want := `{"status":"ok"}`
	if len(codes) > 0 {
		want = `{"status":"degraded"}`
	}
	if a := h.Send("/healthz", ""); a.Status != http.StatusOK || a.Body != want {
		t.Errorf("/healthz = %d %s, want %s", a.Status, a.Body, want)
	}
	var got []string
	for _, r := range h.program.States.Load(t.Context()).Health.Reasons() {
		got = append(got, r.Code)
	}
	if !slices.Equal(got, codes) {
		t.Errorf("reasons %v, want %v", got, codes)
	}
}

// TestStoresThatFailKeepTheGateShut checks failures that last minutes. It moves the clock, so that
// the test is fast.
func TestStoresThatFailKeepTheGateShut(t *testing.T) {
	g := newSuite(t)
	open := func(t *testing.T) *inProcess {
		h := g.fixture(t).open(t)
		if _, err := h.program.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := h.Call("call_tool_read", searchTool); r.IsError {
			t.Fatalf("before any failure a call answers %+v", r)
		}
		return h
	}
	for name, fault := range faults {
		t.Run("an older config and catalog stay in use while S3 is "+name, func(t *testing.T) {
			h := open(t)
			h.proxy.Set("s3", fault)
			h.clock.Wait(time.Minute)
			if r := h.Call("call_tool_read", searchTool); r.IsError {
				t.Errorf("a call answers %+v", r)
			}
			h.wantReasons(t, "config_unread", "policy_unread", "catalog_unread")
			h.proxy.Set("s3", lambdatest.None)
			h.clock.Wait(time.Minute)
			h.wantReasons(t)
		})
		t.Run("older approvals stay in use for a minute while DynamoDB is "+name, func(t *testing.T) {
			h := open(t)
			h.proxy.Set("dynamodb", fault)
			h.clock.Wait(30 * time.Second)
			if r := h.Call("retrieve_tools", search); !strings.Contains(r.Text, `"call_with":"call_tool_read"`) {
				t.Errorf("after half a minute discovery answers %+v", r)
			}
			h.clock.Wait(45 * time.Second)
			if r := h.Call("retrieve_tools", search); strings.Contains(r.Text, "call_with") || !strings.Contains(r.Text, "disabled_unknown") {
				t.Errorf("after more than a minute discovery answers %+v", r)
			}
			if r := h.Call("call_tool_read", searchTool); !r.IsError || !strings.Contains(r.Text, "disabled_unknown") {
				t.Errorf("a call answers %+v", r)
			}
		})
	}
	t.Run("an invalid policy without an earlier one locks everything", func(t *testing.T) {
		w := g.fixture(t)
		w.Sync(t)
		w.Put("config/policy.cedar", "forbid (")
		h := w.open(t)
		if r := h.Call("call_tool_read", searchTool); !r.IsError || !strings.Contains(r.Text, "disabled_unknown") {
			t.Errorf("a call answers %+v", r)
		}
	})
	t.Run("a config with a fault does not replace a good one", func(t *testing.T) {
		h := open(t)
		h.Configure(`{"mcpServers":{}, "oops":1}`)
		h.clock.Wait(time.Minute)
		if r := h.Call("call_tool_read", searchTool); r.IsError {
			t.Errorf("a call answers %+v", r)
		}
		h.wantReasons(t, "config_refused")
	})
	t.Run("a lost metric does not fail a request", func(t *testing.T) {
		h := open(t)
		h.log.err = errors.New("no space left")
		if r := h.Call("call_tool_read", searchTool); r.IsError || h.log.lost == 0 {
			t.Errorf("a call answers %+v, with %d log lines lost", r, h.log.lost)
		}
	})
	t.Run("a failing server affects only its own tools", func(t *testing.T) {
		h := open(t)
		h.github.Refuse()
		if r := h.Call("call_tool_read", searchTool); !r.IsError || !strings.Contains(r.Text, "github") {
			t.Errorf("a call of the failing server answers %+v", r)
		}
		if r := h.Call("call_tool_write", `{"name":"mail:send_mail","args":{}}`); !strings.Contains(r.Text, "pending_approval") {
			t.Errorf("a call of another server's tool answers %+v", r)
		}
	})
}

// A sync ends with an error when its context ends, even if the store does not answer.
func TestSyncEndsWithItsCaller(t *testing.T) {
	g := newSuite(t)
	h := g.fixture(t).open(t)
	h.proxy.Set("dynamodb", lambdatest.Slow)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := h.program.Sync(ctx); err == nil {
		t.Error("a sync after its deadline returns no error")
	}
}
