package cli

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
)

func TestStopSession(t *testing.T) {
	d := newItemGateway(t)
	d.do(0, "stop")
	d.do(0, "stop", "fs", "--reason", "key leaked")
	d.do(0, "stop", "fs", "--reason", "it is slow")
	d.do(0, "tools", "--server", "fs", "--kind", "prompt")
	d.do(0, "stop", "agent:token:ci", "--reason", "runs wild")
	d.do(0, "stop")
	d.do(0, "stop", "-o", "json")
	d.do(0, "stop", "undo", "fs")
	d.do(1, "stop", "undo", "fs")
	d.do(0, "stop", "everything", "--reason", "we look at it", "-o", "json")
	d.do(0, "stop", "undo", "every")
	d.do(0, "stop", "undo", "every")
	d.do(1, "stop", "files", "--reason", "no")
	d.do(1, "stop", "tickets", "fs:read_file", "--reason", "no")
	d.do(1, "stop", "token:ci", "--reason", "no")
	d.do(1, "stop", "*", "--reason", "no")
	d.do(2, "stop", "fs")
	d.do(2, "stop", "fs", "--reason", "one\ntwo")
	d.do(2, "stop", "--reason", "no")
	d.do(2, "stop", "undo")
	d.do(0, "audit", "--action", "stop")
	d.do(0, "audit", "--action", "stop_undone")
	programtest.WriteConfig(t, d.dir, `{"mcpServers": {"fs": {"url": "`+d.fs.URL+`"}}, "stop": {"servers": ["fs"], "reason": "in the file"}}`)
	d.Ask(200, "/admin/sync", `{}`, nil)
	d.do(0, "stop")
	d.do(1, "stop", "undo", "fs")
	d.refusals("stop")
	d.check("stop")
}
