package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// The help of each command begins with one imperative line, and the text below does not repeat that
// line.
func TestHelpDoesNotRepeatItself(t *testing.T) {
	app := commandLine(t)
	// an imperative verb does not end in s; only a dot within a file name is allowed
	line := regexp.MustCompile(`^[A-Z][a-z]*[a-rt-z],? [^;:.]*(\.[a-z]+[^;:.]*)*\.$`)
	word := regexp.MustCompile(`[a-z]{4,}`)
	all := commandsOf(app.Model.Node)
	if len(all) < 40 {
		t.Errorf("the test checked %d commands, want 40 or more", len(all))
	}
	for _, c := range all {
		if !line.MatchString(c.Help) || len(c.Help) > 80 {
			t.Errorf("%s: the first line is not one short imperative sentence: %s", c.FullPath(), c.Help)
		}
		first, _, _ := strings.Cut(strings.ToLower(c.Detail), ". ")
		first, _, _ = strings.Cut(first, "example")
		verb := strings.ToLower(strings.Fields(c.Help)[0])
		if begin, _, _ := strings.Cut(first, " "); begin == verb || begin == verb+"s" || begin == verb+"es" {
			t.Errorf("%s: the text begins with the same verb as the first line: %s",
				c.FullPath(), first)
		}
		same, words := 0, word.FindAllString(strings.ToLower(c.Help), -1)
		for _, w := range words {
			if strings.Contains(first, w) {
				same++
			}
		}
		if 2*same > len(words) {
			t.Errorf("%s: the text repeats the first line %q: %s", c.FullPath(), c.Help, first)
		}
	}
}

// commandsOf returns all visible commands below a node.
func commandsOf(n *kong.Node) (all []*kong.Node) {
	for _, c := range n.Children {
		if !c.Hidden {
			all = append(append(all, c), commandsOf(c)...)
		}
	}
	return all
}

// Commands that share flags with approve have their own help for these flags.
func TestHelpIsOfItsCommand(t *testing.T) {
	app := commandLine(t)
	n := 0
	for _, c := range commandsOf(app.Model.Node) {
		if c.Parent != app.Model.Node ||
			c.Name != "block" && c.Name != "disable" && c.Name != "enable" {
			continue
		}
		n++
		for _, f := range flagsOf(c) {
			if strings.Contains(strings.ToLower(f.help), "approve ") {
				t.Errorf("%s: --%s: %s", c.Name, f.text, f.help)
			}
		}
	}
	if n != 3 {
		t.Errorf("the test checked %d commands, want 3", n)
	}
}

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
			if f.Short != 0 && f.Short != 'o' && f.Short != 'q' && f.Short != 'f' {
				t.Errorf("%s: -%c: only -o, -q and -f are short", path, f.Short)
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
