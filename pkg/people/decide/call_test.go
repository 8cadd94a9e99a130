package decide_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// lines is an audit.Sink in memory.
type lines []audit.Line

func (l *lines) Write(_ context.Context, line audit.Line) error {
	*l = append(*l, line)
	return nil
}

// A person's call passes the checks of an agent's call, and the audit has it under the person's
// name.
func TestCall(t *testing.T) {
	d, kept := admintest.New(t), new(lines)
	d.Serve(
		"fs",
		gatewaytest.Tool("wipe", "Wipe a disk.", ""),
		gatewaytest.Tool("format_disk", "", ""),
	)
	d.Serve("mail", gatewaytest.Tool("send", "Send a mail.", ""))
	d.Put(config.Key, `{"mcpServers": {
		"fs": {"url": "https://fs.example.com/mcp",
			"disabled_tools": ["format_*"], "approval": "off"},
		"mail": {"url": "https://mail.example.com/mcp", "approval": "manual"}}}`)
	d.Decide.Caller, d.Decide.Audit = d.MCP, audit.NewLog(kept)
	d.Open()
	d.Sync()
	f := fixtureOf(d)
	for name, tt := range map[string]struct {
		tool, args string
		decision   string
		says       string
	}{
		"destructive tool": {"fs:wipe", `{"disk":9007199254740993}`, audit.Allowed, "wipe did it"},
		"no arguments":     {"fs:wipe", "", audit.Allowed, "content"},
		"denied":           {"fs:format_disk", "{}", audit.Locked, `"isError":true`},
		"not approved":     {"mail:send", "{}", audit.Locked, "pending_approval"},
		"unknown tool":     {"fs:nothing", "{}", audit.Scope, "was not found"},
		"no id":            {"nothing", "{}", audit.Scope, "was not found"},
	} {
		*kept = nil
		got, err := f.service.Call(
			f.ctx,
			decide.CallQuery{Tool: tt.tool, Arguments: []byte(tt.args)},
		)
		require.OK(t, err)
		if got.Agent != "person:ann" || !strings.Contains(string(got.Result), tt.says) {
			t.Errorf("%s: %s, want %q in it", name, got.Result, tt.says)
		}
		if len(*kept) != 1 || (*kept)[0].Decision != tt.decision || (*kept)[0].Human != "ann" ||
			(*kept)[0].Agent != "person:ann" || (*kept)[0].Path != "/admin/call" {
			t.Errorf("%s: the audit has %+v", name, *kept)
		}
	}
	sent := d.Sent() // of the calls above
	if len(sent) != 2 || !slices.ContainsFunc(sent, func(s gatewaytest.Sent) bool {
		return strings.Contains(s.Params, `"arguments":{"disk":9007199254740993}`)
	}) {
		t.Errorf("the server got %+v", sent)
	}
	for _, args := range []string{`{"a":1,"a":2}`, `[1]`, `"x"`} {
		_, err := f.service.Call(f.ctx, decide.CallQuery{Tool: "fs:wipe", Arguments: []byte(args)})
		if e, ok := errors.AsType[*decide.Error](err); !ok ||
			e.Status != http.StatusUnprocessableEntity {
			t.Errorf("arguments %s: %v", args, err)
		}
	}
	stoptest.Put(t, d.Approvals, stoptest.Server("fs"))
	got, err := f.service.Call(f.ctx, decide.CallQuery{Tool: "fs:wipe"})
	sent = d.Sent()
	if err != nil || !strings.Contains(string(got.Result), "stopped") || len(sent) != 0 {
		t.Errorf("a stopped server: %s, %v, calls %+v", got.Result, err, sent)
	}
	_, err = newFixture(t).service.Call(f.ctx, decide.CallQuery{Tool: "fs:wipe"})
	if e, ok := errors.AsType[*decide.Error](err); !ok || e.Status != http.StatusNotImplemented {
		t.Errorf("a process without calls: %v", err)
	}
}
