package testclients

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// changingTools is the number of tools of the server "changing".
const changingTools = 30

// changingServer starts a server with tools that changeLists disables and enables.
func changingServer(t *testing.T) Server {
	t.Helper()
	tools := make([]json.RawMessage, changingTools)
	for i := range tools {
		tools[i] = upstreamtest.Tool(fmt.Sprintf("t%02d", i), "Does nothing.", "")
	}
	url := upstreamtest.New(t, upstreamtest.Options{Tools: tools}).URL
	return Server{Entry: map[string]any{"url": url, "approval": "off"}}
}

// changeLists changes the list of tools until stop is called: it disables the tools of the server
// "changing" one after another, enables them in the same order, and starts again. So each client
// gets a change after it has connected, however long that takes.
func changeLists(p *programtest.Program) (stop func()) {
	ctx, cancel := context.WithCancel(p.T.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(2 * time.Second):
			}
			action := []string{"disable", "enable"}[i/changingTools%2]
			path := fmt.Sprintf("/admin/tools/changing/t%02d/%s", i%changingTools, action)
			if r := p.Send(path, "{}"); r.Status != http.StatusOK {
				p.T.Errorf("%s: %d %s", path, r.Status, r.Body)
				return
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

var changingTool = regexp.MustCompile(`"changing__t\d\d"`)

// wantChanged checks that two lists of tools differ in the tools of the server "changing".
func wantChanged(t *testing.T, before, after Answer) {
	t.Helper()
	old := changingTool.FindAllString(string(before.Result), -1)
	now := changingTool.FindAllString(string(after.Result), -1)
	if len(old)+len(now) == 0 || slices.Equal(old, now) {
		t.Errorf("after the change, the client lists %q, and before it listed %q", now, old)
	}
}
