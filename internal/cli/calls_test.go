package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The audit has the calls of two runs of the program. If lines are required but cannot be written,
// the gateway refuses all calls.
func TestServeKeepsCalls(t *testing.T) {
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, `{"mcpServers": {}, "audit": {"required": true, "days": 7}}`)
	calls := func() []audit.Line {
		lines, _, err := audit.Folder(filepath.Join(dir, folder.AuditFolder)).Read(t.Context(), audit.Filter{Kind: audit.KindCall}, "", 100)
		require.OK(t, err)
		return lines
	}
	p := start(t, dir)
	p.Call("retrieve_tools", `{"query":"first"}`)
	require.OK(t, p.stop())
	p = start(t, dir)
	p.Call("retrieve_tools", `{"query":"second"}`)
	local.Until(t, "both are written", func() bool { return len(calls()) == 2 })
	for _, l := range calls() {
		if l.Tool != "retrieve_tools" || l.Decision != audit.Allowed || !l.Delivered || l.Source != "127.0.0.1" || l.Agent != "anonymous" || time.Since(l.Time) > time.Hour {
			t.Errorf("%+v", l)
		}
	}
	var page struct{ Lines []audit.Line }
	p.Ask(200, "/admin/audit?kind=call", "", &page)
	if len(page.Lines) != 2 || page.Lines[0].Tool != "retrieve_tools" {
		t.Errorf("/admin/audit has %+v", page.Lines)
	}
	require.OK(t, os.RemoveAll(filepath.Join(dir, folder.AuditFolder)))
	require.OK(t, os.WriteFile(filepath.Join(dir, folder.AuditFolder), nil, 0o600))
	if r := p.Call("retrieve_tools", `{"query":"third"}`); !r.IsError || !strings.Contains(r.Text, "Nothing was called") {
		t.Errorf("it answers %s", r.Text)
	}
	local.Until(t, "the log reports the lost line", func() bool { return strings.Contains(p.log.String(), "a line of the audit is lost") })
}

// If the audit has reached audit.max_bytes and lines are required, the gateway refuses calls, and
// the agent gets the reason. If lines are not required, the gateway deletes the oldest day.
func TestServeAtTheAuditLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := func(required string) string {
		return `{"mcpServers": {}, "audit": {"required": ` + required + `, "days": 36500, "max_bytes": 16777216}}`
	}
	programtest.WriteConfig(t, dir, config("true"))
	old := filepath.Join(dir, folder.AuditFolder, "2020-01-01.jsonl")
	require.OK(t, os.MkdirAll(filepath.Dir(old), 0o700))
	require.OK(t, os.WriteFile(old, append(make([]byte, 16<<20), '\n'), 0o600))
	p := start(t, dir)
	if r := p.Call("retrieve_tools", `{"query":"first"}`); !r.IsError || !strings.Contains(r.Text, "the audit has reached the size that the operator set") {
		t.Errorf("it answers %s", r.Text)
	}
	codes := func() (all []string) {
		var health struct{ Reasons []struct{ Code string } }
		p.Ask(200, "/admin/health", "", &health)
		for _, r := range health.Reasons {
			all = append(all, r.Code)
		}
		return all
	}
	local.Until(t, "audit_full", func() bool { return slices.Contains(codes(), "audit_full") })
	if a := p.Send("/healthz", ""); a.Status != 503 {
		t.Errorf("/healthz: %d %s", a.Status, a.Body)
	}
	p.configure(config("false"))
	if r := p.Call("retrieve_tools", `{"query":"second"}`); r.IsError {
		t.Errorf("it answers %s", r.Text)
	}
	local.Until(t, "the oldest day is removed", func() bool { _, err := os.Stat(old); return errors.Is(err, fs.ErrNotExist) })
	local.Until(t, "the health no longer reports audit_full", func() bool { return !slices.Contains(codes(), "audit_full") })
}
