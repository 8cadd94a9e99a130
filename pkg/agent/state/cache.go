package state

import (
	"encoding/json"
	"strconv"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
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

// agentKey identifies all that a verdict can depend on; "" if it cannot be told. Every request asks for it.
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

// appendList writes a list so that no other one looks like it; nil, which bounds nothing, is not the
// empty one.
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
