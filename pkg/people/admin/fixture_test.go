package admin_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

// A fixture is the API of an in-memory gateway.
type fixture struct{ *admintest.Fixture }

func newFixture(t *testing.T) *fixture { return &fixture{admintest.New(t)} }

func approveBody(hash tool.Hash) string { return fmt.Sprintf(`{"hash":%q,"note":"seen"}`, hash) }

func onGet(err error) func(context.Context, string) error {
	return func(context.Context, string) error { return err }
}
