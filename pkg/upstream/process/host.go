// Package process runs programs and exchanges lines with them: a line to a program goes to its
// standard input, and a line from it comes from its standard output. The package does not read the
// content of the lines.
//
// The package does not trust a program to behave. A program may write without end to both streams,
// and may not read its input. It may ignore SIGTERM and the end of its input, and may start other
// programs. Each program uses a bounded amount of memory here. When a [Process] is done, no process
// of its process group is left, and no descriptor.
package process

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/linereader"
)

// Errors that a caller may have to distinguish.
var (
	ErrFull   = errors.New("too many programs run already") // another one has to end first
	ErrClosed = errors.New("the host is closed and starts no programs")
)

// A Program is a command to run.
type Program struct {
	Path string   // of the program, or a name to look up in PATH
	Args []string // without the program's own name
	Env  []string // the whole environment, as NAME=value
	Dir  string   // its working directory; "": this process's own
}

// Options decide how to handle the output of a program.
type Options struct {
	// Line gets each line of standard output, without its end. A line longer than MaxLine comes as
	// its beginning and its end. Line must not block, and must not keep the bytes.
	Line func(line linereader.Line)

	MaxLine int                      // bytes; 0: 4 MiB
	Log     *slog.Logger             // for the lines of standard error; nil: slog.DiscardHandler
	Clean   func(line string) string // removes secrets from such a line; nil: removes nothing
	Wrote   func(line string)        // gets such a line too, without secrets; nil: nobody

	// Finish returns the minimum time between the end of the program's input and the first signal.
	// nil: the patience of [Process.Stop].
	Finish func() time.Duration
}

// A Host starts a bounded number of programs, and ends them all on Close.
type Host struct {
	max     int
	starter starter

	mu      sync.Mutex
	closed  bool
	running map[*Process]bool
}

// NewHost returns a Host that runs at most max programs at the same time. It starts nothing.
func NewHost(max int) *Host { return &Host{max: max, running: map[*Process]bool{}} }

// Start starts a program. It returns [ErrFull], [ErrClosed] or a [*StartError].
func (h *Host) Start(program Program, o Options) (*Process, error) {
	p := newProcess(program, o)
	h.mu.Lock()
	full, closed := len(h.running) >= h.max, h.closed
	if !full && !closed {
		h.running[p] = true // the program counts before it runs
	}
	h.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case full:
		return nil, ErrFull
	}
	onEnd := func() {
		h.mu.Lock()
		delete(h.running, p)
		h.mu.Unlock()
	}
	var err error
	h.starter.do(func() { err = p.start(onEnd) })
	if err != nil {
		onEnd()
		return nil, &StartError{err}
	}
	return p, nil
}

// Running returns how many programs run.
func (h *Host) Running() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.running)
}

// Close ends all programs as [Process.Stop] does, and prevents new starts. It returns when no
// program is left.
func (h *Host) Close(ctx context.Context, patience time.Duration) {
	h.mu.Lock()
	h.closed = true
	var all []*Process
	for p := range h.running {
		all = append(all, p)
	}
	h.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() { p.Stop(ctx, patience) })
	}
	wg.Wait()
	h.starter.stop()
}

// A StartError is a program that could not be started.
type StartError struct{ err error }

func (e *StartError) Error() string { return "program not started: " + e.err.Error() }
func (e *StartError) Unwrap() error { return e.err }
