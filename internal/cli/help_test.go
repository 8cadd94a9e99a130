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
	app, err := kong.New(&cli{}, kong.Vars{"user": "you", "version": ""}, grammarOptions())
	require.OK(t, err)
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
	app, err := kong.New(&cli{}, kong.Vars{"user": "you", "version": ""}, grammarOptions())
	require.OK(t, err)
	n := 0
	for _, c := range commandsOf(app.Model.Node) {
		if c.Name != "block" && c.Name != "disable" && c.Name != "enable" {
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
