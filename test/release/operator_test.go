//go:build unix

package release

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/test/operator"
)

// All commands of an operator work with the program in the archive of the release.
func TestOperatorWithTheRelease(t *testing.T) { operator.Walk(t, unpacked(t)) }
