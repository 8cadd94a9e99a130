package console

import (
	"encoding/json"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxViewCache is the maximum size, in bytes, of the definitions in a view cache.
const maxViewCache = 4 << 20

// viewCache caches definitions that pages have shown. If a definition changed before a person
// decided, the page compares the cached definition with the current one. Stores keep only the
// approved definition and the newest one. Without a cached definition, the page says only that the
// definition changed.
type viewCache struct {
	mu    sync.Mutex
	by    map[tool.Hash]json.RawMessage
	order []tool.Hash // the oldest first
	size  int
}

// put adds a definition.
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

// get returns a definition, or nil if the cache does not have it.
func (s *viewCache) get(hash tool.Hash) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[hash]
}
