package decide

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
)

// A FileVersion is a version of mcp_config.json or policy.cedar.
type FileVersion struct {
	Name string // in use, refused, before, or the name of a backup
	Hash string // SHA-256
	Text string // with [secret] for values that may be secret

	IsHidden bool // it is no JSON: its secrets cannot be found, and Text is ""
}

// VersionInUse is the name of the version in use.
const VersionInUse = "in use"

// maxBackups limits the backups of a file that are listed, the newest first.
const maxBackups = 20

// FileVersions returns the versions of an operator's file that are known here, such as
// mcp_config.json. On one machine these include the backups beside the file.
func (d *Service) FileVersions(ctx context.Context, name string) (all []FileVersion, err error) {
	key := path.Dir(config.Key) + "/" + name
	files, ok := d.states.Load(ctx).Files[key]
	if !ok {
		return nil, nil
	}
	add := func(version string, data []byte) {
		if data == nil {
			return
		}
		shown := data
		if key == config.Key {
			shown = config.Redact(data)
		}
		all = append(all, FileVersion{version, object.Version(data), string(shown), shown == nil})
	}
	add(VersionInUse, files.InUse)
	add("refused", files.Bad)
	add("before", files.Before)
	if d.o.ConfigFolder == nil {
		return all, nil
	}
	tags, err := d.o.ConfigFolder.List(ctx, path.Dir(key))
	if err != nil {
		return all, err
	}
	var backups []string
	for at := range tags {
		if strings.HasPrefix(at, key+".bak-") {
			backups = append(backups, at)
		}
	}
	slices.Sort(backups)
	slices.Reverse(backups)
	for _, at := range backups[:min(len(backups), maxBackups)] {
		o, err := d.o.ConfigFolder.Get(ctx, at, "")
		if err != nil {
			return all, err
		}
		add(path.Base(at), o.Data)
	}
	return all, nil
}

// RulePlaces returns a function that finds the file and the line of a rule: of a path of
// mcp_config.json, or of policy.cedar:LINE and the id of the rule. An unknown rule has line 0.
func (d *Service) RulePlaces(ctx context.Context) func(rule string) (file string, line int) {
	lines := config.NewLocator(d.states.Load(ctx).Files[config.Key].InUse)
	return func(rule string) (string, int) {
		if at, ok := strings.CutPrefix(rule, path.Base(policy.Key)+":"); ok {
			number, _, _ := strings.Cut(at, " ")
			line, _ := strconv.Atoi(number) // 0: it is no rule of the policy
			return path.Base(policy.Key), line
		}
		return path.Base(config.Key), lines.Line(rule)
	}
}
