//go:build unix

package release

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/test/operator"
)

// The whole way of an operator is walked with the program out of the archive.
func TestOperatorWithTheRelease(t *testing.T) { operator.Walk(t, unpacked(t)) }
