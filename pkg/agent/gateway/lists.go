package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
)

// Lists tell one version of what a caller is listed from another: what has changed is what differs.
type Lists struct {
	Tools, Prompts, Resources string // "": there are none to be listed

	view *state.View // that they were made of
}

// Lists returns the lists of the session. last is what an earlier session of the same caller
// returned: as long as the state is the same, they are.
func (s *Session) Lists(last Lists) Lists {
	if s.down || last.view == s.view {
		return last
	}
	out := Lists{Tools: s.toolsVersion(), view: s.view}
	offers := s.Offers()
	if offers.Prompts {
		out.Prompts = s.version(s.callable(s.sel.Prompts), s.promptDefinition)
	}
	if offers.Resources {
		out.Resources = s.version(s.callable(s.sel.Resources), s.resourceDefinition)
	}
	return out
}

// toolsVersion returns what tells one version of tools/list from another.
func (s *Session) toolsVersion() string {
	switch {
	case s.direct:
		callable, _ := s.split()
		return s.version(callable.All(), s.toolDefinition)
	case s.readable():
		return "search and " + readResource
	}
	return "search"
}

// version returns a hash of what is listed.
func (s *Session) version(items iter.Seq[int], entry func(i int, name string) json.RawMessage) string {
	sum := sha256.New()
	for i := range items {
		sum.Write(entry(i, s.directName(s.view.ID(i))))
	}
	return hex.EncodeToString(sum.Sum(nil))
}
