package boot_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
)

// A store that leaves one call without an answer is asked again, although the caller has no deadline:
// a sync or a decision does not hang because of one lost answer.
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
	aws, err := boot.NewAWS(boot.Settings{Bucket: "bucket", Table: "table"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stop.Read(t.Context(), aws.Stores.Approvals); err != nil || calls.Load() != 2 {
		t.Errorf("after %d calls: %v", calls.Load(), err)
	}
}
