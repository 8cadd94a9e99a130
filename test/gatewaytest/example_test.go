package gatewaytest_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

func Example() {
	var t *testing.T // the argument of the test

	gw := gatewaytest.New(t)
	gw.Serve("files", gatewaytest.Tool("read_file", "Read a file.", gatewaytest.ReadOnly))
	gw.Configure(map[string]string{"files": `"approval": "manual"`})
	gw.Sync()
	if r := gw.Call("call_tool_read", `{"name": "files:read_file"}`); !r.IsError {
		t.Error("the tool was called before its approval")
	}
	gw.Decide("files:read_file", "approve")
	if r := gw.Call("call_tool_read", `{"name": "files:read_file"}`); r.IsError || len(gw.Sent()) != 1 {
		t.Errorf("an approved tool answers %s", r.Text)
	}
}
