package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
)

// Lists identify the version of a caller's lists: if a value differs, that list has changed.
type Lists struct {
	Tools, Prompts, Resources string // "": nothing to list

	view *state.View // the view of these versions
}

// Lists returns the versions of the session's lists. last is the result of an earlier session of
// the same caller, which Lists reuses while the state is unchanged.
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

// toolsVersion returns the version of tools/list.
func (s *Session) toolsVersion() string {
	if s.direct {
		return s.version(s.directTools().All(), s.toolDefinition)
	}
	version := "search"
	if s.readable() {
		version += " and " + readResource
	}
	if !s.listsPaged() {
		return version
	}
	sum := sha256.New()
	for _, definition := range s.paged() {
		sum.Write(definition)
	}
	return version + " and " + hex.EncodeToString(sum.Sum(nil))
}

// version returns a hash of a list.
func (s *Session) version(items iter.Seq[int], entry func(i int, name string) json.RawMessage) string {
	sum := sha256.New()
	for i := range items {
		sum.Write(entry(i, s.directName(s.view.ID(i))))
	}
	return hex.EncodeToString(sum.Sum(nil))
}
