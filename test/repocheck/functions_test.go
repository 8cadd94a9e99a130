package repocheck

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// notInFunctions are modules that only the program links. In a function they would make its zip
// larger and its start slower.
var notInFunctions = []string{
	"github.com/prometheus/", "github.com/modelcontextprotocol/go-sdk", "go.etcd.io/bbolt",
	"google.golang.org/protobuf", "github.com/alecthomas/kong",
}

// No function links a module that only the program needs.
func TestFunctionsLinkNoServerModules(t *testing.T) {
	list := func(packages string) string {
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", packages)
		cmd.Dir = root
		out, err := cmd.Output()
		require.OK(t, err)
		return "\n" + string(out)
	}
	functions, program := list("./functions/..."), list("./cmd/portcullis")
	for _, module := range notInFunctions {
		if strings.Contains(functions, "\n"+module) {
			t.Errorf("a function links %s: find the import with go list -deps, and move it to a "+
				"package that only internal/cli imports", module)
		}
		if !strings.Contains(program, "\n"+module) {
			t.Errorf("the program does not link %s: remove it from the list", module)
		}
	}
}
