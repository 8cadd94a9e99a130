package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/audit"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The calls of two runs of the program are in one chain of lines; where they are required and cannot be
// written, nothing is called, and the health says why.
func TestServeKeepsCalls(t *testing.T) {
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, `{"mcpServers": {}, "audit": {"required": true, "days": 7}}`)
	calls := func() []audit.Line {
		lines, _, err := audit.Folder(filepath.Join(dir, auditFolder)).Read(t.Context(), audit.Filter{Kind: audit.KindCall}, "", 100)
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
	require.OK(t, os.RemoveAll(filepath.Join(dir, auditFolder)))
	require.OK(t, os.WriteFile(filepath.Join(dir, auditFolder), nil, 0o600))
	if r := p.Call("retrieve_tools", `{"query":"third"}`); !r.IsError || !strings.Contains(r.Text, "Nothing was called") {
		t.Errorf("it answers %s", r.Text)
	}
	local.Until(t, "the log says so", func() bool { return strings.Contains(p.log.String(), "a line of the audit is lost") })
	require.OK(t, os.Remove(filepath.Join(dir, auditFolder)))
	time.Sleep(1100 * time.Millisecond) // it is tried again each second
	if r := p.Call("retrieve_tools", `{"query":"fourth"}`); r.IsError {
		t.Errorf("it can be written again: %s", r.Text)
	}
	require.OK(t, p.stop())
	if _, err := os.Stat(filepath.Join(dir, auditFolder)); errors.Is(err, fs.ErrNotExist) || len(calls()) != 1 {
		t.Errorf("%v, %d lines", err, len(calls()))
	}
}
