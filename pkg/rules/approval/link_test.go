package approval_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func TestLink(t *testing.T) {
	const base = "https://x.example"
	for _, c := range []struct {
		base string
		id   tool.ID
		want string
	}{
		{base, tool.ID{Server: "a b/c", Name: "d.e"}, base + "/admin/tools/a%20b%2Fc/d.e"},
		{base, tool.ID{Server: "a", Name: "greet", Kind: tool.Prompt}, base + "/admin/prompts/a/greet"},
		{
			base, tool.ID{Server: "a", Name: "file:///x?y", Kind: tool.Resource},
			base + "/admin/resources/a/e03a885be3b323ae3fd4f6fee245e7a775531c3dc47e51460f0d1150a1586710",
		},
		{"", tool.ID{Server: "a", Name: "b"}, ""},
	} {
		if got := approval.Link(c.base, c.id); got != c.want {
			t.Errorf("Link(%q, %v) = %s, want %s", c.base, c.id, got, c.want)
		}
	}
}
