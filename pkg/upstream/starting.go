package upstream

import (
	"fmt"
	"reflect"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/process"
)

// A program may take minutes until its first message, since some are installed at each start. A
// load does not wait for it so long: it ends with [outcome.ReasonStarting], and the program goes on.

// starting returns the program of a key if it was started with that command, has not said anything
// yet and is still waited for; nil: none is.
func (ps *programs) starting(k entryKey, c *Command) *program {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if s := ps.slots[k]; s != nil && s.running != nil && s.running.isStarting() && reflect.DeepEqual(s.running.command, c) {
		return s.running
	}
	return nil
}

// notStarted returns the outcome of a load that does not wait for a program any longer. Its error
// begins with what an operator can do, if what the program has written shows it.
func (p *program) notStarted() outcome.Outcome {
	said := p.process.Load().Said()
	words := fmt.Sprintf("the program runs for %v and has not said anything yet", time.Since(p.started).Round(time.Second))
	if do := advice(said); do != "" {
		words = do + "; " + words
	}
	if len(said) > 0 {
		words += "; its last words: " + process.LastWords(said)
	}
	return outcome.Outcome{
		Status: outcome.Transient, Reason: outcome.ReasonStarting, Attempts: 1, Error: redactURLs(words), Started: p.started,
	}
}
