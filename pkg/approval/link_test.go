package approval_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

func TestLink(t *testing.T) {
	if got := approval.Link("https://x.example", tool.ID{Server: "a b/c", Name: "d.e"}); got != "https://x.example/admin/tools/a%20b%2Fc/d.e" {
		t.Error(got)
	}
	if got := approval.Link("", tool.ID{Server: "a", Name: "b"}); got != "" {
		t.Error(got)
	}
}
