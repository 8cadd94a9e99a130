//go:build unix

package operator_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/operator"
	"github.com/portcullis-mcp/portcullis/test/repo"
)

// installed contains the program, installed from the source into an empty folder.
var installed struct{ bin string }

func TestMain(m *testing.M) {
	os.Exit(install(m.Run))
}

func install(run func() int) int {
	bin, err := os.MkdirTemp("", "operator")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(bin)
	installed.bin = bin
	if built := repo.Programs(); built != "" {
		if err := os.Symlink(filepath.Join(built, "portcullis"), filepath.Join(bin, "portcullis")); err != nil {
			panic(err)
		}
		return run()
	}
	cmd := exec.Command("go", "install", "./cmd/portcullis")
	cmd.Dir = repo.Path(".")
	cmd.Env = append(os.Environ(), "GOBIN="+bin)
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Printf("go install ./cmd/portcullis: %v\n%s", err, out)
		return 1
	}
	return run()
}

func TestWay(t *testing.T) { operator.Walk(t, filepath.Join(installed.bin, "portcullis")) }
