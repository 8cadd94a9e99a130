package signin

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

const (
	codeLife = 10 * time.Minute
	maxCodes = 16
)

// Codes are one-time codes of sign-in links for the owner of a gateway on one machine, and of forms
// that may have an effect only once. Each code is valid for ten minutes. Opening a link does not
// consume its code, because previews and prefetches open links too. Instead, a form exchanges the
// code for a session.
//
// The codes are only in the memory of the process, which prints a link when it starts. No other
// process may know valid codes. Codes is safe for concurrent use.
type Codes struct {
	now func() time.Time

	mu   sync.Mutex
	made map[digest]time.Time
}

// A digest is the hash of a code. Codes looks up codes by their digest, so the time of a lookup
// reveals nothing about the codes.
type digest [sha256.Size]byte

// NewCodes returns an empty set of codes. A nil now is time.Now.
func NewCodes(now func() time.Time) *Codes {
	if now == nil {
		now = time.Now
	}
	return &Codes{now: now, made: map[digest]time.Time{}}
}

// New makes a code. If there are too many codes, New removes the oldest.
func (c *Codes) New() string {
	code := token.Random()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	if len(c.made) >= maxCodes {
		delete(c.made, slices.MinFunc(slices.Collect(maps.Keys(c.made)), func(a, b digest) int { return c.made[a].Compare(c.made[b]) }))
	}
	c.made[sha256.Sum256([]byte(code))] = c.now()
	return code
}

// Takes reports whether the code is valid now. It does not consume the code.
func (c *Codes) Takes(code string) bool { return c.look(code, false) }

// Use consumes the code, and reports whether it was valid.
func (c *Codes) Use(code string) bool { return c.look(code, true) }

func (c *Codes) look(code string, use bool) bool {
	d := sha256.Sum256([]byte(code))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep()
	_, ok := c.made[d]
	if use {
		delete(c.made, d)
	}
	return ok
}

// sweep removes expired codes. It uses the process's monotonic clock, which no change of the
// machine's clock affects.
func (c *Codes) sweep() {
	now := c.now()
	maps.DeleteFunc(c.made, func(_ digest, made time.Time) bool { return now.Sub(made) >= codeLife })
}
