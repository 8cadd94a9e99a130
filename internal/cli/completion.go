package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
)

// A completionCmd is portcullis completion.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"bash, zsh, fish or powershell."`
}

// scripts are the scripts of each shell. Each script passes the words up to the cursor to
// complete-words. If the answer is empty, the shell completes file names.
var scripts = map[string]string{
	"bash": `# completion of portcullis for bash: source <(portcullis completion bash)
_portcullis() {
  local value
  COMPREPLY=()
  while IFS= read -r value; do COMPREPLY+=("$value"); done \
    < <("$1" complete-words bash "$COMP_WORDBREAKS" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
}
complete -o default -F _portcullis portcullis
`,
	"zsh": `#compdef portcullis
# completion of portcullis for zsh: a file _portcullis in a folder of $fpath, or source it after compinit
_portcullis() {
  local -a found
  found=("${(@f)$("${(Q)words[1]}" complete-words zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then _describe portcullis found; else _files; fi
}
if [ "$funcstack[1]" = "_portcullis" ]; then _portcullis "$@"; else compdef _portcullis portcullis; fi
`,
	"fish": `# completion of portcullis for fish: ~/.config/fish/completions/portcullis.fish
function __portcullis_words
    set -l words (commandline -opc)
    set -l found ($words[1] complete-words fish -- $words[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c portcullis -f -a '(__portcullis_words)'
`,
	// The line goes through standard input: older versions of PowerShell change the quotes of
	// arguments, and leave out empty arguments.
	"powershell": `# completion of portcullis for PowerShell: a line in $PROFILE
Register-ArgumentCompleter -Native -CommandName 'portcullis' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $length = $cursorPosition - $commandAst.Extent.StartOffset
    $line = "$commandAst".PadRight($length).Substring(0, $length)
    $line | & "$($commandAst.CommandElements[0])" complete-words powershell 2>$null | ForEach-Object {
        $value, $help = $_ -split [char]9, 2
        if (-not $help) { $help = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $help)
    }
}
`,
}

// Run prints the script.
func (c completionCmd) Run(env *environment) error {
	_, err := io.WriteString(env.stdout, scripts[c.Shell])
	return err
}

// A wordsCmd is the command that the scripts call.
type wordsCmd struct {
	Shell string   `arg:""`
	Words []string `arg:"" optional:"" passthrough:""`
}

// maxLine is the longest line in bytes for which PowerShell gets completions.
const maxLine = 64 << 10

// Run prints the completions of the last word, in the shell's format.
func (c wordsCmd) Run(ctx context.Context, command *kong.Context, env *environment) error {
	words, breaks := c.Words, ""
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	switch c.Shell {
	case "bash": // it passes its word breaks and the line
		if len(words) != 2 {
			return nil
		}
		breaks, words = words[0], splitLine(words[1])[1:]
	case "powershell": // its lines have backslashes in paths
		line, err := io.ReadAll(io.LimitReader(env.stdin, maxLine))
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(strings.TrimRight(string(line), "\r\n"), `\`, `\\`)
		words = splitLine(text)[1:]
	}
	if len(words) == 0 {
		return nil
	}
	last := words[len(words)-1]
	found := (&completer{ctx: ctx, env: env, root: command.Model.Node}).complete(words[:len(words)-1], last)
	return printWhole(env.stdout, func(w io.Writer) {
		for _, f := range found {
			help, _, _ := strings.Cut(f.help, ". ")
			help = text.Clip(text.Line(strings.TrimSuffix(help, ".")), 70)
			switch c.Shell {
			case "zsh":
				value := strings.ReplaceAll(f.value, ":", `\:`)
				if help != "" {
					value += ":" + help
				}
				fmt.Fprintln(w, value)
			case "fish", "powershell":
				fmt.Fprintf(w, "%s\t%s\n", f.value, help)
			default: // bash replaces only the text after the last break
				fmt.Fprintln(w, f.value[broken(f.value, last, breaks):])
			}
		}
	})
}

// broken returns the length of the part of value before the last word break of typed.
func broken(value, typed, breaks string) int {
	if i := strings.LastIndexFunc(typed, func(r rune) bool { return strings.ContainsRune(":=", r) && strings.ContainsRune(breaks, r) }); i >= 0 && strings.HasPrefix(value, typed[:i+1]) {
		return i + 1
	}
	return 0
}

// splitLine returns the words of a line as a shell would; it handles quotes and backslashes. The
// last word is the word being typed, and may be empty.
func splitLine(line string) []string {
	words := []string{""}
	var quote rune
	inWord, escaped := false, false
	for _, r := range line {
		last := &words[len(words)-1]
		switch {
		case escaped:
			*last += string(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				*last += string(r)
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t':
			if inWord {
				words, inWord = append(words, ""), false
			}
		default:
			*last += string(r)
			inWord = true
		}
	}
	return words
}

// A completion is one possible completion.
type completion struct{ value, help string }

// A completer finds the completions at the end of a command line.
type completer struct {
	ctx  context.Context
	env  *environment
	root *kong.Node

	node       *kong.Node // the command so far
	positional int        // number of values so far
	folder     string     // of --dir
	remote     bool       // --url is set: the folder belongs to another gateway
}

// complete returns the words that begin with typed and are possible after words.
func (c *completer) complete(words []string, typed string) []completion {
	c.node = c.root
	moved := placeLast(c.root, words)
	if n := len(words); n > 0 && slices.Contains(placed, words[n-1]) && moved == nil {
		return nil // the value of a flag before the command: a file, for the shell
	}
	flag, plain := c.walk(moved)
	var all []completion
	prefix := ""
	switch {
	case flag != nil:
		all = c.values(flag.Value)
	case plain:
		all = c.positionals()
	case strings.HasPrefix(typed, "--") && strings.Contains(typed, "="):
		name, _, _ := strings.Cut(typed, "=")
		if f := c.flag(name); f != nil {
			prefix, all = name+"=", c.values(f.Value)
		}
	case strings.HasPrefix(typed, "-"):
		all = c.flags()
	default:
		all = append(c.commands(), c.positionals()...)
	}
	var out []completion
	for _, f := range all {
		if f.value = prefix + f.value; strings.HasPrefix(f.value, typed) && !strings.ContainsFunc(f.value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			out = append(out, f)
		}
	}
	return out
}

// walk follows the words. It returns the flag whose value comes next, if any. plain reports whether
// only values follow, after a "--".
func (c *completer) walk(words []string) (flag *kong.Flag, plain bool) {
	for _, w := range words {
		switch {
		case flag != nil:
			c.note(flag, w)
			flag = nil
		case !plain && w == "--":
			plain = true
		case !plain && len(w) > 1 && w[0] == '-':
			name, value, set := strings.Cut(w, "=")
			f := c.flag(name)
			switch {
			case f == nil, !set && (f.IsBool() || f.IsCounter()):
			case set:
				c.note(f, value)
			default:
				flag = f
			}
		default:
			if next := child(c.node, w); next != nil && !plain && c.positional == 0 {
				c.node = next
			} else {
				c.positional++
			}
		}
	}
	return flag, plain
}

// note stores a flag that selects the gateway: names come from the catalog in its folder.
func (c *completer) note(f *kong.Flag, value string) {
	switch f.Name {
	case "dir":
		c.folder = value
	case "url":
		c.remote = true
	}
}

// child returns the command with the name below n.
func child(n *kong.Node, name string) *kong.Node {
	for _, x := range n.Children {
		if x.Name == name || slices.Contains(x.Aliases, name) {
			return x
		}
	}
	return nil
}

// nodes returns the command so far, and its default command.
func (c *completer) nodes() []*kong.Node {
	if c.node.DefaultCmd != nil {
		return []*kong.Node{c.node, c.node.DefaultCmd}
	}
	return []*kong.Node{c.node}
}

// eachFlag calls the function do with every flag that is possible here.
func (c *completer) eachFlag(do func(*kong.Flag)) {
	for _, n := range c.nodes() {
		for _, group := range n.AllFlags(true) {
			for _, f := range group {
				do(f)
			}
		}
	}
}

func (c *completer) flag(name string) (found *kong.Flag) {
	c.eachFlag(func(f *kong.Flag) {
		if "--"+f.Name == name || f.Short != 0 && "-"+string(f.Short) == name {
			found = f
		}
	})
	return found
}

func (c *completer) flags() (out []completion) {
	if c.node == c.root {
		for _, name := range placed {
			out = append(out, completion{name, ""})
		}
	}
	seen := map[string]bool{}
	c.eachFlag(func(f *kong.Flag) {
		if !seen[f.Name] && !f.Hidden {
			out = append(out, completion{"--" + f.Name, f.Help})
		}
		seen[f.Name] = true
	})
	return out
}

func (c *completer) commands() (out []completion) {
	if c.positional > 0 {
		return nil
	}
	for _, n := range c.node.Children {
		if !n.Hidden {
			out = append(out, completion{n.Name, n.Help})
		}
	}
	return out
}

// positionals returns the values of the next argument.
func (c *completer) positionals() []completion {
	for _, n := range c.nodes() {
		if i := min(c.positional, len(n.Positional)-1); i >= 0 && (i == c.positional || n.Positional[i].IsCumulative()) {
			return c.values(n.Positional[i])
		}
	}
	return nil
}

// values returns the known values of a flag or an argument.
func (c *completer) values(v *kong.Value) (out []completion) {
	for _, name := range v.EnumSlice() {
		if name != "" {
			out = append(out, completion{name, ""})
		}
	}
	if out != nil || c.remote {
		return out
	}
	switch strings.TrimSuffix(v.Name, "s") {
	case "server":
		return c.names(false)
	case "tool", "item", "id":
		return c.names(true)
	}
	return nil
}

// names returns the names of the servers, or of the tools, in the folder's catalog.
func (c *completer) names(tools bool) (out []completion) {
	if c.folder == "" {
		if at, dir, _ := c.env.findGateway(); at == "" {
			c.folder = cmp.Or(dir, ".")
		}
	}
	snap, err := catalog.Load(c.ctx, dir.New(c.folder), nil)
	if err != nil {
		return nil // a completion cannot show an error
	}
	for _, s := range snap.Servers() {
		if !tools {
			out = append(out, completion{s.Name, text.Count(len(slices.Collect(s.Numbers())), "tool")})
			continue
		}
		for i := range s.Numbers() {
			out = append(out, completion{snap.ID(i).String(), snap.Tool(i).Definition.Description})
		}
	}
	return out
}
