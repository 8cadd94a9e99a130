package local_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestMany(t *testing.T) {
	const n = 64_000 // some servers have two copies
	many, first := local.Many(t, n), local.Tools(t)
	count, seen := 0, map[string]bool{}
	for server, tools := range many {
		names := map[string]bool{}
		for i, raw := range tools {
			d, err := tool.ParseItem(tool.Tool, raw)
			require.OK(t, err)
			if seen[string(raw)] || names[d.Name] {
				t.Fatalf("%s has %s twice", server, d.Name)
			}
			seen[string(raw)], names[d.Name] = true, true
			if of := first[server]; i < len(of) && string(of[i]) != string(raw) {
				t.Fatalf("the first copy of %s has changed", server)
			}
			count++
		}
	}
	if again := local.Many(t, n); count != n || string(again["airbnb-7"][0]) != string(many["airbnb-7"][0]) {
		t.Errorf("%d tools, want %d, the same each time", count, n)
	}
}
