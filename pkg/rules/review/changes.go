package review

import (
	"crypto/sha256"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxKept is the size of a Changes in bytes.
const maxKept = 4 << 20

// Changes computes changes once and caches the newest 4 MB of them, because a list of changed
// items needs the same ones at each view. The zero Changes is ready to use, by any number of
// goroutines.
type Changes struct {
	mu    sync.Mutex
	by    map[pairKey]Change
	order []pairKey // the oldest first
	size  int
}

// A pairKey has everything that a change depends on: the kinds and the bytes of two definitions.
// It does not use [tool.Definition.Hash], which does not cover the size of a resource.
type pairKey struct {
	before, now         [sha256.Size]byte
	beforeKind, nowKind tool.Kind
}

// Summarize returns the result of the function [Summarize], from a cache. The caller must not
// modify it.
func (c *Changes) Summarize(before, now tool.Definition) Change {
	key := pairKey{sha256.Sum256(before.Raw), sha256.Sum256(now.Raw), before.Kind, now.Kind}
	c.mu.Lock()
	change, ok := c.by[key]
	c.mu.Unlock()
	if !ok {
		change = Summarize(before, now) // without the lock, so that other callers need not wait
		c.keep(key, change)
	}
	return change
}

// keep caches a change, and removes the oldest ones if there is no room.
func (c *Changes) keep(key pairKey, change Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.by[key]; ok { // another goroutine computed it, too
		return
	}
	if c.by == nil {
		c.by = map[pairKey]Change{}
	}
	c.by[key], c.order, c.size = change, append(c.order, key), c.size+change.bytes()
	for c.size > maxKept {
		oldest := c.order[0]
		c.order, c.size = c.order[1:], c.size-c.by[oldest].bytes()
		delete(c.by, oldest)
	}
}

// bytes returns the approximate memory of c and its key.
func (c Change) bytes() int {
	const fixed, item = 400, 80
	n := fixed
	for _, i := range c.Items {
		n += item + len(i.Op) + len(i.What) + len(i.Path) + len(i.Text) + len(i.Risk)
	}
	return n
}
