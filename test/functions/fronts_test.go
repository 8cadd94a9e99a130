package functions_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// A streaming function and a buffered function send identical bytes if the answer has one part.
func (g suite) frontsAnswerAlike(t *testing.T) {
	w := g.fixture(t)
	w.Sync(t)
	whole, streaming := w.Start(t, "mcp"), w.Start(t, "mcp", "PORTCULLIS_STREAMING", "url")
	files, err := filepath.Glob(filepath.Join(events, "http", "*.json"))
	if err != nil || len(files) < 9 {
		t.Fatalf("%d events, %v", len(files), err)
	}
	type answer struct {
		StatusCode int
		Headers    map[string]string
		Body       string
	}
	for _, file := range files {
		payload, err := os.ReadFile(file)
		require.OK(t, err)
		want := require.JSON[answer](t, whole.Invoke(payload).Payload)
		a := streaming.Invoke(payload)
		if a.Stream == nil {
			t.Fatalf("%s: the answer is not streamed: %s", file, a.Payload)
		}
		got := answer{a.Stream.Status, map[string]string{}, string(a.Payload)}
		for name, values := range a.Stream.Header {
			got.Headers[name] = strings.Join(values, ",")
		}
		for _, h := range []map[string]string{want.Headers, got.Headers} {
			delete(h, "Content-Length") // only whole answers have one
			for name, value := range h {
				h[name] = strings.ReplaceAll(value, ", ", ",")
			}
			delete(h, "Mcp-Session-Id") // differs in each answer
		}
		if d := cmp.Diff(want, got); d != "" || a.Failed {
			t.Errorf("%s (-whole +streaming):\n%s", file, d)
		}
		ofREST, err := os.ReadFile(filepath.Join(events, "rest", filepath.Base(file)))
		if os.IsNotExist(err) { // only a Function URL sends this event
			continue
		}
		require.OK(t, err)
		if b := streaming.Invoke(ofREST); b.Stream == nil || b.Stream.Status != a.Stream.Status || string(b.Payload) != string(a.Payload) {
			t.Errorf("%s: the answer through a REST API is %s, want %s", file, b.Payload, a.Payload)
		}
	}
}
