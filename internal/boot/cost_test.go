package boot

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/aws/apigw"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt/bolttest"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// cpuTime returns the processor time of the cheapest of several runs of each function. The runs
// alternate, since other tests use the same processors. It stops when the times are low enough.
func cpuTime(t *testing.T, enough func(least []time.Duration) bool, runs ...func()) []time.Duration {
	t.Helper()
	least := make([]time.Duration, len(runs))
	for round := range 40 {
		for i, run := range runs {
			before := local.OwnCPU(t)
			run()
			if took := local.OwnCPU(t) - before; round == 0 || took < least[i] {
				least[i] = took
			}
		}
		if enough(least) {
			break
		}
	}
	return least
}

// shortKeys returns a tool call of about size bytes with as many names as fit: the most expensive
// body.
func shortKeys(size int) string {
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"":0`)
	for i := 0; b.Len() < size-30; i++ {
		fmt.Fprintf(&b, `,"%x":1`, i)
	}
	return b.String() + `}}}`
}

// The refusal of a request without valid credentials costs hardly more than receiving the request.
func TestCostOfABadToken(t *testing.T) {
	const most = 5 * time.Millisecond
	s, err := Load(environ([]string{"PORTCULLIS_AUTH=token", "PORTCULLIS_TOKEN_KEY=" + testKey}))
	require.OK(t, err)
	folder := t.TempDir()
	approvals := bolttest.Open(t, folder)
	handler, err := New(s, Stores{Objects: dir.New(folder), Approvals: approvals, Tokens: token.NewStore(approvals)}, Options{}).Public()
	require.OK(t, err)
	body, bearer := shortKeys(4<<20), "Bearer "+token.New().Reveal()

	t.Run("on a laptop", func(t *testing.T) {
		cost := cpuTime(t, func(least []time.Duration) bool { return least[0] <= most }, func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", bearer)
			w := httptest.NewRecorder()
			if handler.ServeHTTP(w, r); w.Code != http.StatusUnauthorized && w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), `"id":7`) {
				t.Fatalf("answered %d %s", w.Code, w.Body)
			}
		})[0]
		if t.Logf("%d bytes: %v", len(body), cost); cost > most {
			t.Errorf("a refusal costs %v, want at most %v", cost, most)
		}
	})
	gate := apigw.New(handler, nil)
	for name, base64ed := range map[string]bool{"an event": false, "an event in base64": true} {
		t.Run(name, func(t *testing.T) {
			text := body
			if base64ed {
				text = base64.StdEncoding.EncodeToString([]byte(body))
			}
			event, err := json.Marshal(map[string]any{
				"version": "2.0", "rawPath": "/mcp", "headers": map[string]string{"content-type": "application/json", "authorization": bearer},
				"requestContext": map[string]any{"http": map[string]any{"method": "POST", "path": "/mcp", "sourceIp": "203.0.113.7"}, "stage": "$default"},
				"body":           text, "isBase64Encoded": base64ed,
			})
			require.OK(t, err)
			decode := func() {
				var e struct{ Body string }
				require.OK(t, json.Unmarshal(event, &e))
				if base64ed {
					if _, err := base64.StdEncoding.DecodeString(e.Body); err != nil {
						t.Fatal(err)
					}
				}
			}
			least := cpuTime(t, func(least []time.Duration) bool { return least[1] <= least[0]+most }, decode, func() {
				out, err := gate.Invoke(t.Context(), event)
				if err != nil || !strings.Contains(string(out), `"statusCode":4`) || !strings.Contains(string(out), `\"id\":7`) {
					t.Fatalf("answered %s, %v", out, err)
				}
			})
			once, whole := least[0], least[1]
			if t.Logf("%d bytes: %v, of which decoding the event takes %v", len(event), whole, once); whole > once+most {
				t.Errorf("a refusal costs %v, want at most %v more than decoding the event once, %v", whole, most, once)
			}
		})
	}
}
