package audittest_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit/audittest"
)

func TestMem(t *testing.T) {
	audittest.Run(t, func(*testing.T) audit.Events { return new(audittest.Mem) })
}
