package unlock_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A slack is a stub of Slack that records messages.
type slack struct {
	URL string

	mu     sync.Mutex
	bodies []string
}

func startSlack(t *testing.T) *slack {
	t.Helper()
	s := &slack{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			http.Error(w, "invalid_payload", http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.bodies = append(s.bodies, string(body))
		s.mu.Unlock()
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL + "/services/T0/B0/secret"
	return s
}

// posted returns the messages so far.
func (s *slack) posted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

// buttons returns the links of the buttons of a message.
func buttons(t testing.TB, body string) (links []string) {
	t.Helper()
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if link, ok := v["url"].(string); ok && v["type"] == "button" {
				links = append(links, link)
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(require.JSON[any](t, body))
	return links
}

// told waits for a message about a request and returns the link of its button, and the message. If
// several messages match, it returns the last.
func (w *world) told(id, says string) (link, body string) {
	w.T.Helper()
	local.Until(w.T, "a message about "+id+" contains "+says, func() bool {
		for _, b := range slices.Backward(w.slack.posted()) {
			if strings.Contains(b, id) && strings.Contains(b, says) && json.Valid([]byte(b)) {
				body = b
				return true
			}
		}
		return false
	})
	links := buttons(w.T, body)
	if len(links) != 1 || links[0] != w.URL+"/admin/requests/"+id {
		w.T.Errorf("the message about %s leads to %q: %s", id, links, body)
	}
	return w.URL + "/admin/requests/" + id, body
}
