package cli

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// helpTexts holds the texts that --help prints below the first line of each command. The text of a
// command follows a line with its name.
//
//go:embed help.txt
var helpTexts string

// grammarOptions sets the text of each command, and the values of choice flags.
func grammarOptions() kong.Option {
	vars := kong.Vars{}
	for name, values := range map[string][]string{
		"statuses": decide.Statuses(), "states": decide.States(), "tiers": decide.Tiers(),
		"kinds": decide.Kinds(), "sorts": decide.Sorts(),
	} {
		vars[name], vars[name+"_list"] = strings.Join(values, ","), strings.Join(values, ", ")
	}
	return kong.OptionFunc(func(k *kong.Kong) error {
		return errors.Join(vars.Apply(k), kong.PostBuild(addHelp).Apply(k))
	})
}

// addHelp sets the text of each command.
func addHelp(app *kong.Kong) error {
	texts := map[string]string{}
	for part := range strings.SplitSeq(helpTexts, "== ") {
		name, body, _ := strings.Cut(part, "\n")
		texts[app.Model.Name+" "+name] = strings.TrimSpace(body)
	}
	return kong.Visit(app.Model, func(n kong.Visitable, next kong.Next) error {
		if c, ok := n.(*kong.Command); ok && c.Detail == "" {
			c.Detail = texts[c.FullPath()]
		}
		return next(nil)
	})
}

// printHelp implements [kong.HelpPrinter]. It breaks the lines that kong leaves longer than the
// terminal: an example stays a command for a shell.
func (env *environment) printHelp(o kong.HelpOptions, c *kong.Context) error {
	o.WrapUpperBound = columnsOf(env.stdout)
	if n, err := strconv.Atoi(env.getenv("COLUMNS")); err == nil && n > 0 {
		o.WrapUpperBound = n
	}
	if o.WrapUpperBound == 0 {
		o.WrapUpperBound = 80
	}
	var out bytes.Buffer
	c.Stdout = &out
	err := kong.DefaultHelpPrinter(o, c)
	c.Stdout = env.stdout
	if err != nil {
		return err
	}
	return printWhole(env.stdout, func(w io.Writer) {
		for line := range strings.Lines(out.String()) {
			end := ""
			if strings.HasPrefix(line, "    ") {
				end = ` \`
			}
			fmt.Fprintln(w, fold(strings.TrimRight(line, "\n"), end, o.WrapUpperBound))
		}
	})
}

// fold breaks a line that has more than columns characters between words, but not in quotes. Each
// broken line ends with end.
func fold(line, end string, columns int) string {
	if utf8.RuneCountInString(line) <= columns {
		return line
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	out, width := indent, len(indent)
	for n, word := range quotedWords(line) {
		k := utf8.RuneCountInString(word)
		switch {
		case n == 0:
		case width+1+k > columns-len(end):
			out += end + "\n" + indent + "  "
			width = len(indent) + 2
		default:
			out += " "
			width++
		}
		out += word
		width += k
	}
	return out
}

// quotedWords returns the words of a line; a text in double quotes is part of one word.
func quotedWords(line string) (words []string) {
	isOpen := false
	for word := range strings.FieldsSeq(line) {
		if isOpen {
			words[len(words)-1] += " " + word
		} else {
			words = append(words, word)
		}
		isOpen = isOpen != (strings.Count(word, `"`)%2 == 1)
	}
	return words
}
