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

// Codes are the codes of links that sign the owner of a gateway on one machine in, each once,
// within ten minutes. A link that signed in by being opened would be used up by whatever opens it
// first, a preview or a prefetch, so a form trades the code for a session.
//
// They stay in the memory of the process: it prints a link as it starts, and no other process may
// know what would sign in here. It is safe for concurrent use.
type Codes struct {
	now func() time.Time

	mu   sync.Mutex
	made map[digest]time.Time
}

// A digest stands for a code. Codes are looked up by it, so that the time of a look-up says nothing
// of them.
type digest [sha256.Size]byte

// NewCodes returns no codes yet. A nil now is time.Now.
func NewCodes(now func() time.Time) *Codes {
	if now == nil {
		now = time.Now
	}
	return &Codes{now: now, made: map[digest]time.Time{}}
}

// New makes a code. Beyond some codes the oldest ends.
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

// Takes reports whether the code would sign somebody in now. It does not use it up.
func (c *Codes) Takes(code string) bool { return c.look(code, false) }

// Use uses the code up, and reports whether it was good.
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

// sweep forgets what is over. The clock that a code was made by is the process's own, which no
// change of the machine's clock moves.
func (c *Codes) sweep() {
	now := c.now()
	maps.DeleteFunc(c.made, func(_ digest, made time.Time) bool { return now.Sub(made) >= codeLife })
}
