package console_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// upgraded returns a fixture in which pg is another version of a package: two tools are unchanged,
// one of them destructive, and one has changed.
func upgraded(t *testing.T) *fixture {
	h := newFixture(t)
	tool := gatewaytest.Tool
	version := func(v, moved string) {
		h.Serve("pg", tool("read", "Reads.", gatewaytest.ReadOnly), tool("drop", "Drops.", ""), tool("moved", moved, ""))
		h.Put(config.Key, `{"mcpServers": {"pg": {"command": "uvx", "args": ["pg==`+v+`"]}}}`)
		h.Sync()
	}
	version("1.0", "Moves.")
	version("1.1", "Moves all.")
	return h
}

func TestUpgradedServer(t *testing.T) {
	h := upgraded(t)
	for _, page := range []string{"/admin", queue} {
		says(t, h.Page(http.StatusOK, page), "Same server, new version", "<b>pg</b> 2 unchanged definitions", "approved in pg==1.0; pg==1.1 lists the same", "Approve these 2…")
	}
	lacks(t, h.Page(http.StatusOK, "/admin/tools"), "new version")
	sheet := h.Submit("/admin/tools/bulk", url.Values{"action": {"carry"}, "server": {"pg"}}).Body
	says(t, sheet, "pg: 1 read, 1 not annotated", "pg:<b>drop</b>", "pg:<b>read</b>", "Approve the ticked tools")
	lacks(t, sheet, "pg:moved")
	if h.Status("pg:read") != lock.PendingApproval {
		t.Fatal("the bulk page already decided about pg:read")
	}
	form := url.Values{"action": {"carry"}, "server": {"pg"}, "item": items(sheet)}
	moved := h.Record("pg:moved")
	form.Add("item", "pg:moved "+string(moved.CurrentHash)+" 2")
	done := h.Submit("/admin/tools", form).Body
	says(t, done, "Approved 2 tools.", "pg:moved",
		"Nothing was decided: only a definition that waits because")
	for id, want := range map[string]lock.Status{"pg:read": lock.None, "pg:drop": lock.None, "pg:moved": lock.PendingApproval} {
		if got := h.Status(id); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	lacks(t, h.Page(http.StatusOK, "/admin"), "Same server, new version")
}
