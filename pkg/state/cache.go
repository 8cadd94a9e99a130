package state

import (
	"encoding/json"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/identity"
)

// A cache keeps what was worked out for each of a bounded number of agents.
// When it is full any one makes room: an answer is worked out again, never wrong.
type cache[V any] struct {
	mu      sync.Mutex
	max     int
	entries map[string]V
}

// get returns the value of key, made by make if there is none. An empty key
// is not kept.
func (c *cache[V]) get(key string, make func() V) V {
	if key == "" {
		return make()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.entries[key]; ok {
		return v
	}
	if len(c.entries) >= c.max {
		for other := range c.entries {
			delete(c.entries, other)
			break
		}
	}
	v := make()
	if c.entries == nil {
		c.entries = map[string]V{}
	}
	c.entries[key] = v
	return v
}

// cacheSize returns for how many agents answers about n tools are kept: what
// is kept stays near 10 MB, whatever the size of the catalog.
func cacheSize(n int) int { return min(max(200_000/max(n, 1), 4), 256) }

// agentKey identifies all that a verdict can depend on; "" if it cannot be told.
func agentKey(a identity.Agent) string {
	key, err := json.Marshal(a)
	if err != nil {
		return ""
	}
	return string(key)
}
