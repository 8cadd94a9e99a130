package cli

import (
	"fmt"
	"io"

	"github.com/portcullis-mcp/portcullis/internal/boot"
)

// A versionCmd is portcullis version.
type versionCmd struct {
	outputFlag
}

// Run prints the program's version.
func (c versionCmd) Run(env *environment) error {
	b := boot.ThisBuild()
	if c.json() {
		return printJSON(env.stdout, b)
	}
	return printWhole(env.stdout, func(w io.Writer) {
		line := func(name, value string) {
			if value != "" {
				fmt.Fprintf(w, "%-10s %s\n", name, inLine(value))
			}
		}
		line("portcullis", b.Version)
		if b.Modified {
			b.Commit += ", with changes that are in no commit"
		}
		line("commit", b.Commit)
		line("date", b.Date)
		line("go", b.Go)
		line("platform", b.Platform)
	})
}
