package bootaws

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/store/s3"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// If a store does not answer a call, the client sends the call again, even if the caller has no
// deadline. So one lost answer does not block a sync or a decision.
func TestStoresThatDoNotAnswer(t *testing.T) {
	var calls atomic.Int64
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil && calls.Add(1) == 1 {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(store.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": store.URL, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"} {
		t.Setenv(name, value)
	}
	aws, err := NewClients(boot.Settings{Bucket: "bucket", Table: "table"}, slog.New(slog.DiscardHandler), s3.Open)
	require.OK(t, err)
	if _, err := stop.Read(t.Context(), aws.Stores.Approvals); err != nil || calls.Load() != 2 {
		t.Errorf("after %d calls: %v", calls.Load(), err)
	}
}

// A start restores the setting of the garbage collector, even if the start fails.
func TestStartRestoresCollector(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	env := map[string]string{"PORTCULLIS_AUTH": "none", "PORTCULLIS_STREAMING": "url"}
	if _, err := start(t.Context(), "mcp", s3.OpenReader, func(key string) string { return env[key] }, io.Discard); err == nil {
		t.Error("the function starts without a bucket")
	}
	if after := debug.SetGCPercent(100); after != 100 {
		t.Errorf("GC percent after the start = %d, want %d", after, 100)
	}
}

// A function that only reads the bucket writes nothing there.
func TestReaderWritesNothing(t *testing.T) {
	r := s3.OpenReader(functionConfig(slog.New(slog.DiscardHandler)), "bucket")
	_, put := r.Put(t.Context(), "key", nil, "")
	_, list := r.List(t.Context(), "folder")
	for _, err := range []error{put, list, r.Delete(t.Context(), "key")} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a write or a list returns %v, want ErrUnsupported", err)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want int64
	}{
		"elsewhere":           {nil, 0},
		"a function":          {map[string]string{"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024"}, 858993456},
		"no number":           {map[string]string{"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "much"}, 0},
		"set by the operator": {map[string]string{"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024", "GOMEMLIMIT": "500MiB"}, 0},
	} {
		if got := memoryLimit(func(key string) string { return c.env[key] }); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}
