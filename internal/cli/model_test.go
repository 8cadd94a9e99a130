package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// commandLine returns kong's model of the program's command line.
func commandLine(t *testing.T) *kong.Kong {
	t.Helper()
	app, err := kong.New(&cli{}, kong.Name("portcullis"), grammarOptions(), kong.Vars{"user": "NAME", "version": ""})
	require.OK(t, err)
	return app
}

// Every command has help with an example, and flags in the common style.
func TestEveryCommandHasHelp(t *testing.T) {
	meanings := map[string]string{} // help of a flag → its name
	flagName := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		path := strings.TrimPrefix(n.FullPath(), "portcullis ")
		if n.Hidden {
			return
		}
		if n.Type == kong.CommandNode {
			if n.Help == "" || !strings.HasSuffix(n.Help, ".") {
				t.Errorf("%s: help %q: want a sentence", path, n.Help)
			}
			example := "portcullis " + path
			if n.Parent.DefaultCmd == n { // the default command also works without its name
				example = strings.TrimSuffix(example, " "+n.Name)
			}
			if !strings.Contains(n.Detail, example) {
				t.Errorf("%s: Help() has no example that begins with %q", path, example)
			}
		}
		for _, f := range n.Flags {
			if f.Name == "help" {
				continue
			}
			if f.Short != 0 && f.Short != 'o' && f.Short != 'q' {
				t.Errorf("%s: -%c: only -o and -q are short", path, f.Short)
			}
			if !flagName.MatchString(f.Name) || f.Help == "" || !strings.HasSuffix(f.Help, ".") {
				t.Errorf("%s: --%s, %q: want a name of small letters and a sentence", path, f.Name, f.Help)
			}
			if other, ok := meanings[f.Help]; ok && other != f.Name {
				t.Errorf("%s: --%s means what --%s means elsewhere: one of the names is enough", path, f.Name, other)
			}
			meanings[f.Help] = f.Name
		}
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(commandLine(t).Model.Node)
}
