package cli

import (
	_ "embed"
	"errors"
	"strings"

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
