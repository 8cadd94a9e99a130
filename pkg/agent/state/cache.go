package state

import (
	"encoding/json"
	"strconv"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// A cache keeps values for a bounded number of agents. If the cache is full, it drops any value,
// because it can compute the value again.
type cache[V any] struct {
	mu      sync.Mutex
	max     int
	entries map[string]V
}

// get returns the value of key. If there is none, get computes the value with make and keeps it,
// except for the empty key.
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

// cacheSize returns the number of agents for which a cache keeps answers about n tools. The cache
// takes about 10 MB, independent of the catalog's size.
func cacheSize(n int) int { return min(max(200_000/max(n, 1), 4), 256) }

// agentKey returns a key of all properties of an agent that a verdict can depend on, or "" if no
// key exists.
func agentKey(a identity.Agent) string {
	var room [128]byte
	key := room[:0]
	for _, s := range [...]string{a.ID, a.Human, a.Subject, a.Way} {
		key = strconv.AppendQuote(key, s)
	}
	key = append(key, '0'+byte(a.Rights.Role))
	for _, list := range [...][]string{a.Servers, a.Toolsets, a.Rights.Servers} {
		key = appendList(key, list)
	}
	for _, t := range a.Tiers {
		key = append(strconv.AppendUint(key, uint64(t), 10), ',')
	}
	if a.Claims != nil {
		claims, err := json.Marshal(a.Claims)
		if err != nil {
			return ""
		}
		key = append(key, claims...)
	}
	return string(key)
}

// appendList appends an unambiguous encoding of a list. A nil list means no limit, so its encoding
// differs from the empty list's encoding.
func appendList(key []byte, list []string) []byte {
	if list == nil {
		return append(key, '-')
	}
	key = append(key, '[')
	for _, s := range list {
		key = strconv.AppendQuote(key, s)
	}
	return append(key, ']')
}
