package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify/notifytest"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// People get notices while the gateway runs, including notices from before its last end. An
// unreachable target does not delay notices to other targets.
func TestServeSendsNotices(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	down := true
	room := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		got = append(got, string(body))
	}))
	defer room.Close()
	told := func(text string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(got) > 0 && strings.Contains(got[len(got)-1], text)
		}
	}
	git := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{json.RawMessage(`{"name":"push","description":"x","inputSchema":{"type":"object"}}`)}})
	dir := t.TempDir()
	p := start(t, dir)
	p.configure(fmt.Sprintf(`{"mcpServers": {"git": {"url": %q}}, "notify": [{"type": "slack", "url": %q}]}`, git.URL, room.URL))
	git.SetTools([]json.RawMessage{json.RawMessage(`{"name":"push","description":"y","inputSchema":{"type":"object"}}`)})
	p.Ask(200, "/admin/sync", `{}`, nil)
	local.Until(t, "a target that is down is tried", func() bool { return strings.Contains(p.log.String(), "notice not delivered") })
	if err := p.stop(); err != nil {
		t.Errorf("serve = %v", err)
	}
	if strings.Contains(p.log.String(), room.URL) {
		t.Errorf("the log has the address: %s", p.log)
	}
	mu.Lock()
	down = false
	mu.Unlock()
	left, err := bolt.Open(filepath.Join(dir, folder.ApprovalsFile), nil)
	require.OK(t, err)
	require.OK(t, notify.NewOutbox(left, nil).Put(t.Context(), notifytest.Sample(1)))
	require.OK(t, left.Close())
	p = start(t, dir)
	local.Until(t, "a notice from before the end is sent", told("Agent `ci` asks for `git:git_push` (R-7KQ2M4XD)."))
	p.configure(fmt.Sprintf(`{"mcpServers": {"git": {"url": %q}}, "notify": [{"type": "slack", "url": %q, "events": ["changed", "new"]}]}`, git.URL, room.URL))
	git.SetTools([]json.RawMessage{json.RawMessage(`{"name":"push","description":"y","inputSchema":{"type":"object"}}`), json.RawMessage(`{"name":"tag","description":"y","inputSchema":{"type":"object"}}`)})
	p.Ask(200, "/admin/sync", `{}`, nil)
	local.Until(t, "a new notice is sent", told("Server `git` lists 1 new item: `git:tag`."))
	mu.Lock()
	link := p.URL + "/admin/servers/git"
	// the failed notice is due a minute after its failure
	if len(got) != 2 || !strings.Contains(got[1], link) {
		t.Errorf("the receiver got %q, want a second notice with the link %s", got, link)
	}
	mu.Unlock()
}
