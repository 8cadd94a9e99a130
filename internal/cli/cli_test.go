package cli

import (
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// For each line, parseServe returns the same result as the grammar of all commands, or leaves the
// line to that grammar.
func TestParseServe(t *testing.T) {
	for _, tt := range []struct {
		line []string
		left bool
	}{
		{[]string{"serve"}, false},
		{[]string{"serve", "--dir", "gate", "--addr=127.0.0.1:0", "--allow-commands"}, false},
		{[]string{"serve", "--demo", "--actor", "ann"}, false},
		{[]string{"serve", "--help"}, true},
		{[]string{"serve", "--version"}, true},
		{[]string{"serve", "--actor="}, true},
		{[]string{"serve", "--dire", "gate"}, true},
		{[]string{"serve", "gate"}, true},
		{[]string{"--version"}, true},
		{[]string{"check"}, true},
		{nil, true},
	} {
		vars := kong.Vars{"user": "somebody", "version": "1"}
		command := parseServe(tt.line, []kong.Option{kong.Name("portcullis"), vars})
		if left := command == nil; left != tt.left {
			t.Errorf("%q is left to the whole grammar: %t, want %t", tt.line, left, tt.left)
		}
		if command == nil {
			continue
		}
		parser, err := kong.New(&cli{}, vars, grammarOptions())
		require.OK(t, err)
		whole, err := parser.Parse(tt.line)
		require.OK(t, err)
		read := func(c *kong.Context) any { return c.Selected().Target.Interface() }
		if diff := cmp.Diff(read(whole), read(command)); diff != "" {
			t.Errorf("parseServe and the whole grammar read %q differently:\n%s", tt.line, diff)
		}
	}
}
