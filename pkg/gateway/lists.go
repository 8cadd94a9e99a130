package gateway

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/portcullis-mcp/portcullis/pkg/state"
)

// Lists tell one version of what a caller is listed from another: what has changed is what differs.
type Lists struct {
	Tools string

	view *state.View // that they were made of
}

// Lists returns the lists of the session. last is what an earlier session of the same caller
// returned: as long as the state is the same, they are.
func (s *Session) Lists(last Lists) Lists {
	if s.down || last.view == s.view {
		return last
	}
	return Lists{Tools: s.toolsVersion(), view: s.view}
}

// toolsVersion returns a hash of what tools/list tells.
func (s *Session) toolsVersion() string {
	if !s.direct {
		return "search"
	}
	sum := sha256.New()
	callable, _ := s.split()
	for i := range callable.All() {
		sum.Write(present(s.view.Tool(i).Definition, s.directName(s.view.ID(i)), s.view.Hints(i)))
	}
	return hex.EncodeToString(sum.Sum(nil))
}
