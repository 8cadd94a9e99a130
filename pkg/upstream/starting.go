package upstream

import (
	"fmt"
	"reflect"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/process"
)

// A program may take minutes until its first message, because some commands install their program
// at each start. A load does not wait that long. The load ends with [outcome.ReasonStarting], and
// the program continues.

// starting returns the program of a key if command c started the program, the program has written
// nothing yet, and its start time is not over. Otherwise it returns nil.
func (ps *programs) starting(k entryKey, c *Command) *program {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if s := ps.slots[k]; s != nil && s.running != nil && s.running.isStarting() && reflect.DeepEqual(s.running.command, c) {
		return s.running
	}
	return nil
}

// notStarted returns the outcome of a load that no longer waits for a program. Its error begins
// with advice for the operator, if the program's output shows a known cause.
func (p *program) notStarted() outcome.Outcome {
	lines := p.process.Load().LastStderr()
	words := fmt.Sprintf("the program has run for %v and has sent no message yet", time.Since(p.started).Round(time.Second))
	if do := advice(lines); do != "" {
		words = do + "; " + words
	}
	if len(lines) > 0 {
		words += "; its last lines: " + process.LastWords(lines)
	}
	return outcome.Outcome{
		Status: outcome.Transient, Reason: outcome.ReasonStarting, Attempts: 1, Error: redactURLs(words), Started: p.started,
	}
}
