package functions_test

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
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
	clock   gatewaytest.Clock
}

func (w *fixture) open(t *testing.T) *inProcess {
	t.Helper()
	h := &inProcess{fixture: w}
	h.clock.Set(time.Now(), 0)
	t.Setenv("AWS_ENDPOINT_URL", w.proxy.URL)
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	s, err := boot.Load(func(name string) string { return w.Env[name] })
	require.OK(t, err)
	log := slog.New(slog.DiscardHandler)
	aws, err := bootaws.NewClients(s, log, s3.Open)
	require.OK(t, err)
	h.program = boot.New(s, aws.Stores, boot.Options{
		Function: "mcp", Log: log, Secrets: aws.Secrets, Now: h.clock.Now,
	})
	handler, err := h.program.Public()
	require.OK(t, err)
	h.Client = agenttest.Client{
		T: t, URL: lambdatest.BaseURL, Transport: agenttest.InProcess(handler),
		Check: func(a agenttest.Answer) { w.wantQuiet(t, a.Body) },
	}
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

// TestStoresThatFailKeepTheGateShut checks failures that last minutes, with the real clients. It
// moves the clock, so that the test is fast.
func TestStoresThatFailKeepTheGateShut(t *testing.T) {
	g := newSuite(t)
	open := func(t *testing.T) *inProcess {
		t.Helper()
		w := g.fixture(t)
		w.Sync(t)
		h := w.open(t)
		if r := h.Call("call_tool_read", searchTool); r.IsError {
			t.Fatalf("before any failure a call answers %+v", r)
		}
		return h
	}
	t.Run("an older config and catalog stay in use while S3 is gone", func(t *testing.T) {
		h := open(t)
		h.proxy.Set("s3", lambdatest.Gone)
		h.clock.Wait(time.Minute)
		if r := h.Call("call_tool_read", searchTool); r.IsError {
			t.Errorf("a call answers %+v", r)
		}
		h.wantReasons(t, "config_unread", "policy_unread", "catalog_unread")
		h.proxy.Set("s3", lambdatest.None)
		h.clock.Wait(time.Minute)
		h.wantReasons(t)
	})
	t.Run("older approvals stay in use for a minute while DynamoDB is gone", func(t *testing.T) {
		h := open(t)
		h.proxy.Set("dynamodb", lambdatest.Gone)
		h.clock.Wait(30 * time.Second)
		r := h.Call("retrieve_tools", search)
		if !strings.Contains(r.Text, `"call_with":"call_tool_read"`) {
			t.Errorf("after half a minute discovery answers %+v", r)
		}
		h.clock.Wait(45 * time.Second)
		r = h.Call("retrieve_tools", search)
		if strings.Contains(r.Text, "call_with") || !strings.Contains(r.Text, "disabled_unknown") {
			t.Errorf("after more than a minute discovery answers %+v", r)
		}
	})
	t.Run("a sync ends with its context while DynamoDB does not answer", func(t *testing.T) {
		h := open(t)
		h.proxy.Set("dynamodb", lambdatest.Slow)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := h.program.Sync(ctx); err == nil {
			t.Error("a sync after its deadline returns no error")
		}
	})
}
