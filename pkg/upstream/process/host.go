// Package process runs programs that are spoken to by lines: what is written to a program is a line
// of its standard input, what it says is a line of its standard output. It knows nothing of what
// the lines mean.
//
// A program is not trusted to behave. It may write without end, to either stream; it may not read
// what it is sent; it may ignore that its input was closed, and SIGTERM; it may start programs of its
// own. Each costs a bounded amount of memory here, and when a [Process] is done nothing is left of
// its process group, nor a descriptor.
package process

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/linereader"
)

// What a caller may have to tell apart.
var (
	ErrFull   = errors.New("too many programs run already") // one has to end first
	ErrClosed = errors.New("no more programs are started")
)

// A Program says what is run.
type Program struct {
	Path string   // of the program, or its name, which is then looked for in PATH
	Args []string // without the program's own name
	Env  []string // all of its environment, as NAME=value
	Dir  string   // its working directory; "": that of this process
}

// Options say what is done with what a program writes.
type Options struct {
	// Line takes each line of standard output, without its end. A line that is longer than
	// MaxLine comes cut, as its beginning and its end. Line must not block, nor keep the bytes.
	Line func(line linereader.Line)

	MaxLine int                      // bytes; 0: 4 MiB
	Log     *slog.Logger             // for the lines of standard error; nil: slog.DiscardHandler
	Clean   func(line string) string // takes out of such a line what must not be logged; nil: nothing

	// Finish returns how long the program may go on, at least, after its input was closed and
	// before it gets a signal; nil: as long as the patience of who stops it.
	Finish func() time.Duration
}

// A Host starts programs, a bounded number at once, and ends them all when it is closed.
type Host struct {
	max     int
	starter starter

	mu      sync.Mutex
	closed  bool
	running map[*Process]bool
}

// NewHost returns a Host for max programs at once. It starts nothing.
func NewHost(max int) *Host { return &Host{max: max, running: map[*Process]bool{}} }

// Start starts a program. It returns [ErrFull], [ErrClosed] or a [*StartError].
func (h *Host) Start(program Program, o Options) (*Process, error) {
	p := newProcess(program, o)
	h.mu.Lock()
	full, closed := len(h.running) >= h.max, h.closed
	if !full && !closed {
		h.running[p] = true // its place is taken before it runs
	}
	h.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case full:
		return nil, ErrFull
	}
	gone := func() {
		h.mu.Lock()
		delete(h.running, p)
		h.mu.Unlock()
	}
	var err error
	h.starter.do(func() { err = p.start(gone) })
	if err != nil {
		gone()
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

// Close ends all programs, each as [Process.Stop] does, and starts no more. It returns when none is
// left.
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
