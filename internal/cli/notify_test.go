package cli

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify/notifytest"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// The gateway tries to send a notice while it runs. At the next start it sends the notices from
// before its end. The log does not contain the address of a target.
func TestServeSendsNotices(t *testing.T) {
	t.Parallel()
	room := &listener{down: true}
	at := httptest.NewServer(room)
	defer at.Close()
	git := upstreamtest.New(t, upstreamtest.Options{Tools: toolsNamed("push")})
	dir := t.TempDir()
	p := start(t, dir)
	p.configure(
		fmt.Sprintf(
			`{"mcpServers": {"git": {"url": %q}}, "notify": [{"type": "slack", "url": %q}]}`,
			git.URL,
			at.URL,
		),
	)
	git.SetTools(rawTools("push"))
	p.Ask(200, "/admin/sync", `{}`, nil)
	local.Until(t, "a target that is down is tried", func() bool {
		return strings.Contains(p.log.String(), "notice not delivered")
	})
	require.OK(t, p.stop())
	if strings.Contains(p.log.String(), at.URL) {
		t.Errorf("the log has the address: %s", p.log)
	}
	room.mu.Lock()
	room.down = false
	room.mu.Unlock()
	left, err := bolt.Open(filepath.Join(dir, folder.ApprovalsFile), nil)
	require.OK(t, err)
	require.OK(t, notify.NewOutbox(left, nil).Put(t.Context(), notifytest.Sample(1)))
	require.OK(t, left.Close())
	start(t, dir)
	local.Until(t, "a notice from before the end is sent", func() bool {
		return room.count("Agent `ci` asks for `git:git_push` (R-7KQ2M4XD") == 1
	})
}
