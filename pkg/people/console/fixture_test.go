package console_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

const (
	browser = admintest.Browser
	form    = admintest.Form
)

// A fixture is /admin of a gateway in memory.
type fixture struct {
	*admintest.Fixture
	Location string // where the last form redirected
}

func newFixture(t testing.TB) *fixture { return &fixture{Fixture: admintest.New(t)} }

func approveBody(hash tool.Hash) string { return fmt.Sprintf(`{"hash":%q,"note":"seen"}`, hash) }

// copies is a store. It counts how often a person copied it.
type copies int

func (c *copies) Copy(context.Context) (io.ReadCloser, int64, int, error) {
	*c++
	return io.NopCloser(strings.NewReader("copy")), 4, 1, nil
}
