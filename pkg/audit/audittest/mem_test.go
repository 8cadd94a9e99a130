package audittest_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/audit"
	"github.com/portcullis-mcp/portcullis/pkg/audit/audittest"
)

func TestMem(t *testing.T) {
	audittest.Run(t, func(*testing.T) audit.Deeds { return new(audittest.Mem) })
}
