package cli

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/lockfile"
)

// If the output cannot be written, the error must still say whether anything was done.
func TestApplySaysTruthOnFullDisk(t *testing.T) {
	for dry, want := range map[bool]string{true: "nothing was changed", false: "the plan was carried out"} {
		env := quiet()
		env.stdout = fullDisk{}
		c := approvalsApplyCmd{DryRun: dry}
		c.Output = "json"
		if err := c.report(env, lockfile.File{}, plan{}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("dry %v: %v, want %q", dry, err, want)
		}
	}
}
