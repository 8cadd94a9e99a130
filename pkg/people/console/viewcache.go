package console

import (
	"encoding/json"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxViewCache is how many bytes of definitions a process remembers that it has shown.
const maxViewCache = 4 << 20

// viewCache remembers definitions that pages have shown, so that a person whose decision came too
// late is told what changed since. Stores keep the approved definition and the newest, and none
// between them. It is an aid: a process that did not show the page says that the definition
// changed, and not how.
type viewCache struct {
	mu    sync.Mutex
	by    map[tool.Hash]json.RawMessage
	order []tool.Hash // the oldest first
	size  int
}

// put remembers a definition.
func (s *viewCache) put(hash tool.Hash, definition json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.by[hash]; ok || hash == "" {
		return
	}
	if s.by == nil {
		s.by = map[tool.Hash]json.RawMessage{}
	}
	s.by[hash], s.order, s.size = definition, append(s.order, hash), s.size+len(definition)
	for s.size > maxViewCache {
		oldest := s.order[0]
		s.order, s.size = s.order[1:], s.size-len(s.by[oldest])
		delete(s.by, oldest)
	}
}

// get returns a definition, nil if it is not remembered.
func (s *viewCache) get(hash tool.Hash) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[hash]
}
