package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/object/dir"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
	"github.com/portcullis-mcp/portcullis/pkg/toolset"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
)

// errCheck ends a check that found faults; they are printed by then.
var errCheck = errors.New("the folder cannot be deployed as it is")

// shown is how many tools of a rule are named.
const shown = 10

// check reads config and policy of a folder as a sync would, prints every
// fault with its file, line and path, and says what the rules deny in the
// folder's catalog. It returns an error if there is a fault.
func check(ctx context.Context, folder string, out io.Writer) error {
	cfg, bad := checkConfig(folder, out)
	rules, badPolicy := checkPolicy(folder, out)
	if bad || badPolicy {
		return errCheck
	}
	snap, err := catalog.Load(ctx, dir.New(folder), nil)
	if errors.Is(err, object.ErrNotFound) {
		fmt.Fprintf(out, "no catalog in %s yet: what the rules match is known after the first sync\n", folder)
		return nil
	}
	if err != nil {
		return err
	}
	tools, universe := inventory(cfg, snap)
	bound, err := toolset.Compile(cfg, universe)
	if err != nil {
		printFaults(out, filepath.Join(folder, config.Key), err)
		return errCheck
	}
	for _, w := range bound.Warnings() {
		fmt.Fprintf(out, "warning: %s\n", w)
	}
	matches := rules.Matches(cfg, tools)
	for _, m := range matches {
		printMatch(out, m)
	}
	for _, name := range policy.Exposed(cfg, tools, matches) {
		fmt.Fprintf(out, "warning: server %q: no rule denies any of its tools\n", name)
	}
	return nil
}

func checkConfig(folder string, out io.Writer) (*config.Config, bool) {
	path := filepath.Join(folder, config.Key)
	data, err := os.ReadFile(path)
	if err != nil {
		fmt.Fprintf(out, "%s: it cannot be read: %v\n", path, err)
		return nil, true
	}
	cfg, err := config.Parse(data)
	if err != nil {
		printFaults(out, path, err)
		return nil, true
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(out, "warning: %s:%s\n", path, w)
	}
	fmt.Fprintf(out, "%s: %d servers, version %.12s\n", path, len(cfg.Servers), config.Version(data))
	return cfg, false
}

func checkPolicy(folder string, out io.Writer) (*policy.Policy, bool) {
	path := filepath.Join(folder, policy.Key)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		fmt.Fprintf(out, "%s: there is none, so policy permits everything\n", path)
		return policy.Empty(), false
	}
	if err != nil {
		fmt.Fprintf(out, "%s: it cannot be read: %v\n", path, err)
		return nil, true
	}
	p, err := policy.Parse(data)
	if err != nil {
		printFaults(out, path, err)
		return nil, true
	}
	for _, w := range p.Warnings() {
		fmt.Fprintf(out, "warning: %s:%s\n", path, w)
	}
	fmt.Fprintf(out, "%s: version %.12s\n", path, config.Version(data))
	return p, false
}

// inventory is the folder's catalog as rules and toolsets see it, under the
// config that is checked, which need not be the one that it was made with.
func inventory(cfg *config.Config, snap *catalog.Snapshot) ([]policy.Tool, toolset.Universe) {
	var tools []policy.Tool
	var u toolset.Universe
	for i := range snap.Len() {
		t := snap.Tool(i)
		server, ok := cfg.Server(t.ID.Server)
		if !ok {
			continue
		}
		hints := server.Override(t.ID.Name, t.Definition.Annotations)
		tools = append(tools, policy.Tool{ID: t.ID, Annotations: hints, Tier: hints.Tier()})
		u.Tools = append(u.Tools, toolset.Tool{ID: t.ID, ReadOnly: hints.ReadOnlyHint != nil && *hints.ReadOnlyHint})
	}
	for _, s := range snap.Servers() {
		u.Servers = append(u.Servers, toolset.Server{Name: s.Name, Loaded: s.Outcome.Status == upstream.Available})
	}
	return tools, u
}

func printFaults(out io.Writer, path string, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(out, "%s:%s\n", path, strings.TrimRight(line, "\n"))
	}
}

func printMatch(out io.Writer, m policy.Match) {
	deed := "denies"
	if m.Allow {
		deed = "lets through"
	}
	if len(m.Always)+len(m.Some) == 0 {
		fmt.Fprintf(out, "warning: %s: matches no tool of the catalog\n", m.Rule)
		return
	}
	names := make([]string, 0, shown)
	for _, id := range m.Always {
		names = append(names, id.String())
	}
	for _, id := range m.Some {
		names = append(names, id.String()+" (for some agents)")
	}
	more := ""
	if len(names) > shown {
		more = fmt.Sprintf(" and %d more", len(names)-shown)
		names = names[:shown]
	}
	fmt.Fprintf(out, "%s %s %d: %s%s\n", m.Rule, deed, len(m.Always)+len(m.Some), strings.Join(names, ", "), more)
}
