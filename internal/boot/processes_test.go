//go:build unix

package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
)

func TestMain(m *testing.M) {
	stdiotest.Main()
	os.Exit(m.Run())
}

// The config limits the processes of one agent, and the health reports when all are in use.
func TestProcesses(t *testing.T) {
	objects := &objecttest.Mem{}
	_, err := objects.Put(t.Context(), config.Key, []byte(`{"mcpServers": {}, "gateway": {"programs": {"max_per_agent": 1}}}`), "")
	require.OK(t, err)
	p := New(Settings{Access: Access{Ways: []string{"none"}}}, Stores{Objects: objects, Approvals: &approvaltest.Mem{}}, Options{Commands: true})
	t.Cleanup(func() { p.Upstream.EndPrograms(t.Context()) })
	p.States.Refresh(t.Context())
	path, env := stdiotest.Program(t, stdiotest.Legacy)
	call := func(server, agent, tool string, ask func()) error {
		client := mcp.Client{Capabilities: json.RawMessage(`{"elicitation":{}}`), Ask: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			ask()
			return json.RawMessage(`{}`), nil
		}}
		raw, err := p.Upstream.Call(t.Context(), upstream.Target{ID: server, URL: "cmd:1", Command: &upstream.Command{Path: path, Env: env}, Asks: upstream.AsksRelay},
			upstream.Call{Name: tool, Owner: session.Owner{Way: "token", Agent: agent}, Client: client, Arguments: json.RawMessage(`{"text":"elicitation/create"}`)})
		if err == nil && tool == "count" && !strings.Contains(string(raw), `"1 of `) {
			t.Errorf("agent %s on %s: %s, want a process that was just started", agent, server, raw)
		}
		return err
	}
	for _, server := range []string{"a", "b", "a"} { // each call ends the previous call's process
		require.OK(t, call(server, "one", "count", nil))
	}

	const most = 64
	answer, asked, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	for i := range most {
		go func() {
			ended <- call("a", fmt.Sprint("agent ", i), "ask", func() { asked <- struct{}{}; <-answer })
		}()
	}
	for range most {
		select {
		case <-asked:
		case err := <-ended:
			t.Fatal(err)
		}
	}
	full := func() bool {
		return slices.ContainsFunc(p.States.Refresh(t.Context()).Health.Reasons(), func(r state.Reason) bool { return r.Code == "processes_full" && !r.Since.IsZero() })
	}
	if full() {
		t.Error("the health reports refused calls, but no call was refused")
	}
	if err := call("a", "one more", "count", nil); err == nil || !full() {
		t.Errorf("the call of one more agent: %v; the health reports it: %t; want an error and "+
			"true", err, full())
	}
	close(answer)
	for range most {
		require.OK(t, <-ended)
	}
	if full() {
		t.Error("the health still reports refused calls")
	}
	require.OK(t, call("a", "one more", "count", nil))
}
