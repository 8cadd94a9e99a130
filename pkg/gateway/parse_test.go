package gateway_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/mcp"
)

// parse makes a tools/call of a params object.
func parse(t testing.TB, params string) mcp.Request {
	t.Helper()
	r, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`))
	if err != nil {
		t.Fatalf("params %s: %v", params, err)
	}
	return r
}
