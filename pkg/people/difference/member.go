package difference

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// A Member is a changed member. It has values only if its path cannot contain a secret: Was and Is
// for a single value, Added and Removed for a list. Without values, the Member only says that there
// is a change.
type Member struct {
	Path    string   `json:"path"`
	How     string   `json:"how"` // added, removed or changed
	Was     string   `json:"was,omitempty"`
	Is      string   `json:"is,omitempty"`
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// The kinds of change.
const (
	added   = "added"
	removed = "removed"
	changed = "changed"
)

// isVisible reports whether values below a path may be shown. It is false for credentials, for
// addresses and command lines, which may contain credentials, and for members of later versions.
func isVisible(path []string) bool {
	top := []string{"toolsets", "tools", "review", "gateway", "audit", "stop"}
	ofServer := []string{
		"type", "enabled", "disabled", "enabled_tools", "disabled_tools", "approval", "resources", "disabled_prompts", "disabled_resources",
		"unlisted_resources", "timeout", "required", "behind_proxy", "session", "protocol", "elicitation", "annotations",
	}
	if len(path) > 2 && path[0] == "mcpServers" {
		return slices.Contains(ofServer, path[2])
	}
	return len(path) > 0 && slices.Contains(top, path[0])
}

// members compares two valid configs, member by member. It omits servers that only one config has.
func members(before, after []byte) []Member {
	var was, is any
	_ = json.Unmarshal(before, &was) // a missing config has no members
	_ = json.Unmarshal(after, &is)
	var c comparison
	c.compare(nil, was, is)
	return c.found
}

// A comparison collects the changed members.
type comparison struct{ found []Member }

// opaque reports whether a path is compared as a whole, because its members would reveal more than
// that there is a change.
func opaque(path []string) bool {
	return len(path) > 0 && path[0] == "notify" || len(path) == 3 && slices.Contains([]string{"args", "command", "cwd", "url"}, path[2])
}

func (c *comparison) compare(path []string, was, is any) {
	if reflect.DeepEqual(was, is) || len(path) == 1 && path[0] == "$schema" {
		return
	}
	a, ok := was.(map[string]any)
	b, okToo := is.(map[string]any)
	if whole := len(path) == 0 || len(path) == 1 && path[0] == "mcpServers"; (ok && okToo || whole) && !opaque(path) {
		names := slices.Sorted(maps.Keys(a))
		for name := range b {
			if _, both := a[name]; !both {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			x, had := a[name]
			y, has := b[name]
			if len(path) == 1 && path[0] == "mcpServers" && had != has {
				continue // the whole server was added or removed
			}
			c.compare(append(slices.Clone(path), name), present(x, had), present(y, has))
		}
		return
	}
	c.add(path, was, is)
}

// missing represents a missing member.
type missing struct{}

func present(v any, is bool) any {
	if is {
		return v
	}
	return missing{}
}

// add adds one member.
func (c *comparison) add(path []string, was, is any) {
	m := Member{How: changed}
	for _, name := range path {
		m.Path = config.JoinPath(m.Path, name)
	}
	if was == (missing{}) {
		m.How = added
	} else if is == (missing{}) {
		m.How = removed
	}
	a, list := texts(was)
	b, listToo := texts(is)
	switch {
	case !isVisible(path):
	case list && listToo && (len(a)+len(b) > 0):
		m.Added, m.Removed = without(b, a), without(a, b)
	default:
		m.Was, m.Is = value(was), value(is)
	}
	c.found = append(c.found, m)
}

// texts returns the entries of a list of strings. A missing member is an empty list.
func texts(v any) (out []string, ok bool) {
	if v == (missing{}) {
		return nil, true
	}
	list, ok := v.([]any)
	for _, e := range list {
		s, text := e.(string)
		if !text {
			return nil, false
		}
		out = append(out, s)
	}
	return out, ok
}

func value(v any) string {
	if v == (missing{}) {
		return ""
	}
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
