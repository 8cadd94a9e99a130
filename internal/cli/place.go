package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
)

// The variables that name the gateway of a command without --dir and --url.
const (
	urlVariable = "PORTCULLIS_URL"
	dirVariable = "PORTCULLIS_DIR"
)

// findGateway returns the URL or the folder of the gateway that no flag names. Both are "" for the
// current folder.
func (env *environment) findGateway() (url, dir string, err error) {
	if url = env.getenv(urlVariable); url != "" {
		_, err = client.Endpoint(url)
		return url, "", err
	}
	return "", env.findFolder(), nil
}

// findFolder returns the gateway's folder that no flag names; "" is the current folder.
func (env *environment) findFolder() string {
	if dir := env.getenv(dirVariable); dir != "" || folder.HasGateway(".") || env.ownConfig == nil {
		return dir
	}
	if own, err := env.ownConfig(); err == nil &&
		folder.HasGateway(filepath.Join(own, "portcullis")) {
		return filepath.Join(own, "portcullis")
	}
	return ""
}

// resolve implements [kong.ResolverFunc] for the flags with the tag "place". The value "folder" of
// the tag means that the command works only on a folder.
func (env *environment) resolve(c *kong.Context, _ *kong.Path, f *kong.Flag) (any, error) {
	if !f.Tag.Has("place") || slices.ContainsFunc(c.Path, func(p *kong.Path) bool {
		return p.Flag != nil && p.Flag.Tag.Has("place")
	}) {
		return nil, nil //nolint:nilnil // kong's word for a flag without a value
	}
	url, dir, err := env.findGateway()
	switch {
	case f.Tag.Get("place") == "folder":
		dir = env.findFolder()
	case err != nil && f.Name == "url":
		return nil, fmt.Errorf("%s: %w", urlVariable, err)
	}
	if value := map[string]string{"url": url, "dir": dir}[f.Name]; value != "" {
		return value, nil
	}
	return nil, nil //nolint:nilnil // as above
}

// printPlace tells a person at a terminal which gateway the command uses, if no flag names it.
func (env *environment) printPlace(c *kong.Context) {
	for _, p := range c.Path {
		if p.Resolved && env.terminal {
			fmt.Fprintf(env.stderr, "gateway: %s\n", inLine(p.Flag.Target.String()))
		}
	}
}

// placed are the flags that may also come before the command. Each has a value.
var placed = []string{"--dir", "--url", "--actor", "--output", "-o"}

// placeLast moves the flags that come before a command, or between a command and its subcommand,
// behind the command: kong accepts them only there.
func placeLast(root *kong.Node, args []string) []string {
	var path, flags []string
	for node := root; len(args) > 0; {
		word, more := args[0], 1
		name, _, isSet := strings.Cut(word, "=")
		switch next := child(node, word); {
		case next != nil:
			node, path = next, append(path, word)
			args = args[1:]
			continue
		case slices.Contains(placed, name) && !isSet:
			more = min(2, len(args))
		case !slices.Contains(placed, name) && (!strings.HasPrefix(word, "-o") || len(word) == 2):
			return slices.Concat(path, flags, args)
		}
		flags, args = append(flags, args[:more]...), args[more:]
	}
	if path == nil {
		return nil // kong lists the commands
	}
	return append(path, flags...)
}
