package decide_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token/tokentest"
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
		isLocked := got.Lock() != nil && got.Lock().Name == tt.tool
		if got.Decision != tt.decision || isLocked != (tt.decision == audit.Locked) {
			t.Errorf("%s: decision %q, lock %+v", name, got.Decision, got.Lock())
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
	for args, want := range map[string]string{
		`{"a":1,"a":2}`: "the call failed: ", `[1]`: "arguments must be a JSON object",
		`"x"`: "arguments must be", `null`: "arguments must be", `{`: "arguments must be",
	} {
		_, err := f.service.Call(f.ctx, decide.CallQuery{Tool: "fs:wipe", Arguments: []byte(args)})
		if e, ok := errors.AsType[*decide.Error](err); !ok ||
			e.Status != http.StatusUnprocessableEntity || !strings.HasPrefix(e.Detail, want) {
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

// A call can have the scope of an agent. The caller stays the person.
func TestCallWithScopeOfAgent(t *testing.T) {
	d, kept := admintest.New(t), new(lines)
	d.Serve(
		"web",
		gatewaytest.Tool("read", "Read a page.", gatewaytest.ReadOnly),
		gatewaytest.Tool("wipe", "", ""),
	)
	d.Put(config.Key, `{"mcpServers": {
		"web": {"url": "https://web.example.com/mcp", "approval": "off"},
		"fs": {"url": "https://fs.example.com/mcp", "approval": "off"}}}`)
	tokens := token.NewStore(d.Approvals)
	registry := token.Registry{Store: tokens, Keys: token.OneKey(tokentest.Key(t))}
	_, _, err := registry.Make(t.Context(), "ann", token.Spec{
		Name: "ci", Servers: []string{"web"}, Tiers: []string{"read"}, Days: 1,
	})
	require.OK(t, err)
	d.Decide.Agents = identity.Names{Tokens: tokens, Claims: &identity.ClaimMap{}}
	d.Decide.Caller, d.Decide.Audit = d.MCP, audit.NewLog(kept)
	d.Open()
	d.Sync()
	f := fixtureOf(d)
	for id, want := range map[string]string{
		"web:read": audit.Allowed, "fs:read_file": audit.Scope, "web:wipe": audit.Tier,
	} {
		*kept = nil
		got, err := f.service.Call(f.ctx, decide.CallQuery{Tool: id, Agent: "token:ci"})
		if want == audit.Tier {
			if err == nil || !strings.Contains(err.Error(), "may not call destructive tools") {
				t.Errorf("%s: %v", id, err)
			}
		} else if err != nil || got.Decision != want || got.Agent != "person:ann" {
			t.Errorf("%s: %+v, %v, want %s", id, got, err, want)
		}
		if l := (*kept)[0]; l.Decision != want || l.Agent != "person:ann" ||
			l.Note != "with the scope of the agent token:ci" {
			t.Errorf("%s: the audit has %+v", id, l)
		}
	}
	if sent := d.Sent(); len(sent) != 1 {
		t.Errorf("the servers got %+v", sent)
	}
	refused := func(agent string, status int, want string) {
		t.Helper()
		*kept = nil
		_, err := f.service.Call(f.ctx, decide.CallQuery{Tool: "web:read", Agent: agent})
		e, ok := errors.AsType[*decide.Error](err)
		if !ok || e.Status != status || !strings.Contains(e.Detail, want) ||
			len(*kept)+len(d.Sent()) > 0 {
			t.Errorf("%s: %v, %v", agent, err, *kept)
		}
	}
	refused("token:gone", http.StatusUnprocessableEntity,
		`agent: the gateway does not know what "token:gone" may call, and nothing was called`)
	stoptest.Put(t, d.Approvals, stoptest.Agent("token:ci"))
	d.Clock.Wait(time.Minute)
	refused("token:ci", http.StatusConflict, `the agent "token:ci" is stopped`)
}
