package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/difference"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
)

// activeFiles are the versions in use.
type activeFiles struct {
	Config string `json:"config,omitempty"` // absent: none
	Policy string `json:"policy,omitempty"`

	files difference.Files
}

// compare prints the difference to the files that the folder's gateway used last.
func (c *checkup) compare(ctx context.Context) {
	was, err := lastUsed(ctx, c.objects)
	switch {
	case err != nil:
		c.note("the files in use cannot be read, so the difference is not known: %v", err)
	case was.files.Config == nil:
		c.note("nothing is in use here yet")
	default:
		c.differ(was, c.snap, "in use here")
	}
}

// lastUsed returns the files of a folder's last sync. They are copies: the folder may already
// contain newer files.
func lastUsed(ctx context.Context, objects object.Store) (was activeFiles, err error) {
	last := func(key string) ([]byte, error) {
		o, err := objects.Get(ctx, key, "")
		if errors.Is(err, object.ErrNotFound) {
			return nil, nil
		}
		return o.Data, err
	}
	was.files.Policy = policy.Empty()
	data, err := last(catalog.ConfigFile.LastGood)
	if err != nil || len(data) == 0 {
		return was, err
	}
	if was.files.Config, err = config.Parse(data); err != nil {
		return was, err
	}
	was.Config, was.files.ConfigData = object.Version(data), data
	if data, err = last(catalog.PolicyFile.LastGood); err != nil || len(data) == 0 {
		return was, err
	}
	was.Policy = object.Version(data)
	was.files.Policy, err = policy.Parse(data)
	return was, err
}

// stored returns the files that a gateway on AWS uses, and the state of its policy.
func stored(ctx context.Context, objects object.Store, now time.Time) (was activeFiles, rules object.Source[policy.Policy], err error) {
	cfg := catalog.ConfigFile.Load(ctx, objects, object.Source[config.Config]{}, now)
	rules = catalog.PolicyFile.Load(ctx, objects, object.Source[policy.Policy]{}, now)
	was.files = difference.Files{Config: cfg.Value, ConfigData: cfg.Data, Policy: rules.Value}
	was.Config, was.Policy = cfg.Version, rules.Version
	return was, rules, errors.Join(cfg.Unread, rules.Unread)
}

// differ prints the changes from the files in was to the checked files. snap may be nil.
func (c *checkup) differ(was activeFiles, snap *catalog.Snapshot, where string) {
	d := difference.Between(was.files, difference.Files{Config: c.cfg, ConfigData: c.config, Policy: c.rules}, snap)
	c.Difference, c.Used = &d, &was
	versions := fmt.Sprintf("config version %s, policy version %s", short(was.Config), short(was.Policy))
	if d.Empty() {
		c.printf("no difference from the files %s: %s", where, versions)
		return
	}
	c.printf("differs from the files %s: %s", where, versions)
	each := func(sign, what string, names []string) {
		for _, name := range names {
			c.printf("  %s %s%s", sign, what, inLine(name))
		}
	}
	each("+", "server ", d.Servers.Added)
	each("-", "server ", d.Servers.Removed)
	for _, m := range d.Members {
		c.printf("  %s", memberLine(m))
	}
	each("+", "rule ", d.Rules.Added)
	each("-", "rule ", d.Rules.Removed)
	each("~", "rule ", d.Rules.Changed)
	if d.Tools == nil {
		c.printf("  the denied tools are known after the first sync")
		return
	}
	for _, list := range []struct {
		what string
		ids  []string
	}{
		{"would be denied", d.Tools.Denied}, {"would newly be denied to some agents", d.Tools.DeniedSome}, {"would no longer be denied", d.Tools.Freed},
		{"would be denied only to some agents, and is denied to all now", d.Tools.FreedSome}, {"would be removed with their servers", d.Tools.Gone},
	} {
		if n := len(list.ids); n > 0 {
			c.printf("  %s (%d): %s", list.what, n, text.Line(text.List(list.ids, maxTools)))
		}
	}
}

// memberLine returns the line of one changed member of the config.
func memberLine(m difference.Member) string {
	sign := map[string]string{"added": "+", "removed": "-", "changed": "~"}[m.How]
	line := sign + " " + inLine(m.Path)
	switch {
	case len(m.Added)+len(m.Removed) > 0:
		var parts []string
		for _, s := range m.Added {
			parts = append(parts, "+"+inLine(s))
		}
		for _, s := range m.Removed {
			parts = append(parts, "-"+inLine(s))
		}
		return line + ": " + text.Clip(strings.Join(parts, " "), 1000)
	case m.Was != "" && m.Is != "":
		return line + ": " + inLine(m.Was) + " → " + inLine(m.Is)
	case m.Was+m.Is != "":
		return line + ": " + inLine(m.Was+m.Is)
	}
	return line + ": its value is not shown"
}
