package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/test/golden"
)

// The test generates docs/commands.md from the program's help, and -update writes the file.
// commandsHead is the part of the page that does not come from the help.
func TestCommandsPage(t *testing.T) {
	app := commandLine(t)
	var page strings.Builder
	page.WriteString(commandsHead)
	page.WriteString("\n| command | |\n|---|---|\n")
	for _, c := range app.Model.Children {
		if !c.Hidden {
			fmt.Fprintf(&page, "| [`%s`](#portcullis-%s) | %s |\n", c.Name, c.Name, cell(c.Help))
		}
	}
	common := commonFlags(app.Model.Node)
	fmt.Fprintf(&page, "\nFlags that many commands have:\n\n| flag | |\n|---|---|\n")
	for _, k := range common {
		fmt.Fprintf(&page, "| `%s` | %s |\n", k.text, cell(k.help))
	}
	for _, c := range app.Model.Children {
		if !c.Hidden {
			writeCommand(&page, c, common)
		}
	}
	golden.Check(t, filepath.Join("..", "..", "docs", "commands.md"), page.String())
}

const commandsHead = `# Commands

[Documentation](README.md) › Reference · Reference

This page lists every command of the program, its flags and examples. Read it to look up a flag.
It is generated from the program's help, ` + "`portcullis COMMAND --help`" + `.
A command works on the gateway of the folder ` + "`--dir`" + `, or on the gateway at ` + "`--url`" + `
with the credential in ` + "`PORTCULLIS_TOKEN`" + `. Without these flags it uses the first of these:

1. the gateway at the URL in ` + "`PORTCULLIS_URL`" + `
2. the folder in ` + "`PORTCULLIS_DIR`" + `
3. the current folder, if it has a config
4. your own folder, if it has a config: ` + "`~/.config/portcullis`" + ` on Linux,
   ` + "`~/Library/Application Support/portcullis`" + ` on macOS, ` + "`%AppData%\\portcullis`" + ` on Windows

` + "`init`, `check` and `serve`" + ` use only ` + "`--dir`" + ` and the current folder.
` + "`--dir`, `--url`, `--actor` and `-o`" + ` may come before or after the command.

If a gateway runs on the folder, the command asks it; otherwise the command opens the folder.
Decisions and audit events are the same in both cases. A command that only reads writes nothing
into the folder.

The exit code is 0; 1 if something failed or was refused; 2 if the command line is wrong; 3 if the
compared things differ. Output for programs (` + "`-o json`" + `) goes to standard output.
Messages for people that accompany it go to standard error.
`

// cell returns a text for a cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// writeCommand writes the help of a command and its subcommands, with examples and flags.
func writeCommand(w *strings.Builder, c *kong.Node, common []flagKey) {
	fmt.Fprintf(w, "\n## portcullis %s\n\n%s", c.Name, golden.Wrap(c.Help))
	writeDetail(w, c.Detail)
	leaves := []*kong.Node{c}
	if !c.Leaf() {
		leaves = c.Leaves(true)
		fmt.Fprintf(w, "\n| command | |\n|---|---|\n")
		for _, leaf := range leaves {
			fmt.Fprintf(w, "| `%s` | %s |\n", usage(leaf), cell(leaf.Help+arguments(leaf, "<br>")))
		}
		for _, leaf := range leaves {
			if leaf.Detail != "" {
				fmt.Fprintf(w, "\n### %s\n", leaf.FullPath())
				writeDetail(w, leaf.Detail)
			}
		}
	} else if len(c.Positional) > 0 {
		fmt.Fprintf(w, "\n`%s`\n%s\n", usage(c), arguments(c, "\n- "))
	}
	writeFlags(w, leaves, common)
}

// usage returns a command with its arguments.
func usage(leaf *kong.Node) string {
	path := leaf.FullPath()
	if leaf.Parent.DefaultCmd == leaf {
		path = leaf.Parent.FullPath()
	}
	for _, p := range leaf.Positional {
		path += " " + p.Summary()
	}
	return path
}

// arguments returns the help of a command's arguments, each after sep.
func arguments(leaf *kong.Node, sep string) string {
	var s string
	for _, p := range leaf.Positional {
		if p.Help != "" {
			s += fmt.Sprintf("%s`%s`: %s", sep, p.Summary(), p.Help)
		}
	}
	return s
}

// A flagKey is a flag in command-line syntax, and its help.
type flagKey struct{ text, help string }

// flagsOf returns the flags of a command.
func flagsOf(leaf *kong.Node) (all []flagKey) {
	for _, group := range leaf.AllFlags(true) {
		for _, f := range group {
			if f.Name != "help" && f.Name != "version" {
				all = append(all, flagKey{flagText(f), f.Help})
			}
		}
	}
	return all
}

// commonFlags returns the flags that many commands share.
func commonFlags(app *kong.Node) (common []flagKey) {
	n := map[flagKey]int{}
	for _, leaf := range app.Leaves(true) {
		for _, k := range flagsOf(leaf) {
			if n[k]++; n[k] == 7 {
				common = append(common, k)
			}
		}
	}
	return common
}

// writeFlags writes the flags of some commands, each once. If only some of the commands have a
// flag, it names these commands.
func writeFlags(w *strings.Builder, leaves []*kong.Node, common []flagKey) {
	var order []flagKey
	of := map[flagKey][]string{}
	for _, leaf := range leaves {
		for _, k := range flagsOf(leaf) {
			if of[k] == nil {
				order = append(order, k)
			}
			of[k] = append(of[k], leaf.Name)
		}
	}
	var also []string
	order = slices.DeleteFunc(order, func(k flagKey) bool {
		if slices.Contains(common, k) {
			also = append(also, "`"+k.text+"`")
			return true
		}
		return false
	})
	if len(order) > 0 {
		fmt.Fprintf(w, "\n| flag | |\n|---|---|\n")
	}
	for _, k := range order {
		only := ""
		if len(of[k]) < len(leaves) {
			only = " (" + strings.Join(of[k], ", ") + ")"
		}
		fmt.Fprintf(w, "| `%s`%s | %s |\n", k.text, only, cell(k.help))
	}
	if len(also) > 0 {
		fmt.Fprintf(w, "\n%s", golden.Wrap("And "+strings.Join(also, ", ")+"."))
	}
}

// flagText returns a flag in command-line syntax.
func flagText(f *kong.Flag) string {
	s := "--" + f.Name
	if f.Short != 0 {
		s = "-" + string(f.Short) + ", " + s
	}
	if f.IsBool() {
		return s
	}
	return s + " " + strings.TrimSuffix(strings.Trim(f.FormatPlaceHolder(), `"`), ",...")
}

// writeDetail writes the longer help: indented lines are commands or output, and the rest is prose.
func writeDetail(w *strings.Builder, detail string) {
	var prose, block []string
	flush := func() {
		text := strings.Join(prose, " ")
		if text = strings.TrimSuffix(strings.TrimSuffix(text, "Examples:"), "Example:"); text != "" {
			fmt.Fprintf(w, "\n%s", golden.Wrap(text))
		}
		if block = slices.DeleteFunc(block, func(s string) bool { return strings.TrimSpace(s) == "" }); len(block) > 0 {
			fmt.Fprintf(w, "\n```sh\n%s\n```\n", strings.Join(block, "\n"))
		}
		prose, block = nil, nil
	}
	for line := range strings.Lines(detail) {
		line = strings.TrimRight(line, "\n")
		switch indented := strings.HasPrefix(line, " "); {
		case indented:
			block = append(block, strings.TrimPrefix(line, "  "))
		case line == "" && len(block) == 0:
			flush()
		case line != "":
			if len(block) > 0 {
				flush()
			}
			prose = append(prose, line)
		}
	}
	flush()
}
