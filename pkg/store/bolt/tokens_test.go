package bolt_test

import (
	"path/filepath"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/token"
	"github.com/portcullis-mcp/portcullis/pkg/token/tokentest"
)

func TestTokens(t *testing.T) {
	tokentest.Run(t, func(t *testing.T) token.Store {
		return open(t, filepath.Join(t.TempDir(), "approvals.db"), nil)
	})
}
