package process

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/linereader"
)

const (
	defaultMaxLine = 4 << 20

	// lastWords is how long standard output is read after the program has ended: all that it wrote
	// is in the pipe by then, but a program of its own that left the process group may hold it open.
	lastWords = 250 * time.Millisecond

	// unhurried is the patience with a program that closed one of its streams and is of no use any more.
	unhurried = time.Second
)

// A Process is a program that runs, or has run. It is safe for concurrent use.
type Process struct {
	cmd     *exec.Cmd
	o       Options
	started time.Time

	stdin          *os.File
	stdout, stderr *os.File
	writes         chan write
	closeInput     sync.Once
	inputClosed    chan struct{}
	said           *stderrLog

	exited chan struct{} // the program itself has ended
	done   chan struct{} // and nothing is left of it
	err    *ExitError    // set before done is closed
}

// A write is a line on its way to the program.
type write struct {
	line []byte
	done chan<- writeResult
}

type writeResult struct {
	n   int
	err error
}

func newProcess(program Program, o Options) *Process {
	o.MaxLine = cmp.Or(o.MaxLine, defaultMaxLine)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	cmd := exec.Command(program.Path, program.Args...) //nolint:gosec,noctx // which program runs is the operator's to say, and Stop ends it
	cmd.Env, cmd.Dir = program.Env, program.Dir
	return &Process{
		cmd: cmd, o: o, said: &stderrLog{log: o.Log, clean: o.Clean},
		writes: make(chan write), inputClosed: make(chan struct{}), exited: make(chan struct{}), done: make(chan struct{}),
	}
}

// start starts the program and what serves its streams. gone is called when nothing is left of it.
func (p *Process) start(gone func()) (err error) {
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close() // the program has its own
		}
		if err != nil {
			for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
				if f != nil {
					_ = f.Close()
				}
			}
		}
	}()
	pipe := func(inward bool) (ours, its *os.File, err error) {
		r, w, err := os.Pipe()
		if inward {
			r, w = w, r
		}
		if err == nil {
			theirs = append(theirs, w)
		}
		return r, w, err
	}
	var in, out, errs *os.File
	if p.stdin, in, err = pipe(true); err != nil {
		return err
	}
	if p.stdout, out, err = pipe(false); err != nil {
		return err
	}
	if p.stderr, errs, err = pipe(false); err != nil {
		return err
	}
	// Files and not readers or writers: Wait waits for the program alone then, and not for
	// whoever has inherited its streams.
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, errs
	p.cmd.SysProcAttr = ownGroup()
	p.started = time.Now()
	if err = p.cmd.Start(); err != nil {
		return err
	}
	go p.run(gone)
	return nil
}

// run serves the streams until the program has ended, and then sees to it that nothing is left.
func (p *Process) run(gone func()) {
	var reading sync.WaitGroup
	reading.Go(func() {
		linereader.Read(p.stdout, p.o.MaxLine, p.o.Line)
		go p.Stop(context.Background(), unhurried) // what says no more is of no use, if it has not ended
	})
	reading.Go(func() { linereader.Read(p.stderr, maxStderrLine, p.said.line) })
	var writing sync.WaitGroup
	writing.Go(p.write)

	err := p.cmd.Wait()
	killRest(p.cmd.Process.Pid)
	close(p.exited)
	p.endInput()
	end := time.AfterFunc(lastWords, func() {
		_ = p.stdout.Close()
		_ = p.stderr.Close()
	})
	reading.Wait()
	writing.Wait()
	end.Stop()
	_ = p.stdout.Close()
	_ = p.stderr.Close()
	p.said.end()
	p.err = &ExitError{err: err, State: p.cmd.ProcessState, Lived: time.Since(p.started), Said: p.said.last()}
	gone()
	close(p.done)
}

// write writes one line after the other.
func (p *Process) write() {
	for {
		select {
		case w := <-p.writes:
			n, err := p.stdin.Write(w.line)
			w.done <- writeResult{n, err}
			if err != nil { // it has closed its input: nobody can speak to it any more
				go p.Stop(context.Background(), unhurried)
				return
			}
		case <-p.inputClosed:
			return
		}
	}
}

// endInput closes the program's standard input, also while a line is being written.
func (p *Process) endInput() {
	p.closeInput.Do(func() {
		close(p.inputClosed)
		_ = p.stdin.Close() // that the program does not listen any more is no news
	})
}

// Send writes a line, which holds no line end of its own; it adds one. sent is false if the
// program cannot have read the line, and so cannot do what it says. When ctx ends while the line is
// being written Send returns, and the line is written all the same.
func (p *Process) Send(ctx context.Context, line []byte) (sent bool, err error) {
	done := make(chan writeResult, 1)
	whole := make([]byte, len(line)+1)
	whole[copy(whole, line)] = '\n'
	select {
	case <-p.exited: // before the lottery of the next select
		return false, p.ended(ctx)
	default:
	}
	select {
	case p.writes <- write{whole, done}:
	case <-p.inputClosed:
		return false, p.ended(ctx)
	case <-ctx.Done():
		return false, ctx.Err()
	}
	select {
	case r := <-done:
		if r.err != nil {
			return r.n >= len(line), p.ended(ctx)
		}
		return true, nil
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// ended waits for the end of a program that takes no more lines, and says how it ended.
func (p *Process) ended(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Done is closed when the program has ended and nothing is left of its process group; every line
// that it wrote was handed over by then.
func (p *Process) Done() <-chan struct{} { return p.done }

// Said returns the last lines that the program has written to its standard error, cleaned and quoted.
func (p *Process) Said() []string { return p.said.last() }

// Exit returns how the program ended. It is to be asked after Done.
func (p *Process) Exit() *ExitError { return p.err }

// Stop ends the program and whatever it has started in its process group: it closes the program's
// standard input, and if that is not enough sends SIGTERM after patience, or after the time of
// [Options].Finish if that is longer, and SIGKILL after another patience, or at once when ctx ends. It returns when nothing is left. Where there are no such
// signals the program is killed after the first patience.
func (p *Process) Stop(ctx context.Context, patience time.Duration) {
	p.endInput()
	pid := p.cmd.Process.Pid
	finish := patience
	if p.o.Finish != nil {
		finish = max(finish, p.o.Finish())
	}
	for i, next := range []func(int){terminateGroup, killGroup} {
		t := time.NewTimer([]time.Duration{finish, patience}[i])
		select {
		case <-p.done:
			t.Stop()
			return
		case <-p.exited: // the rest is under way
			t.Stop()
			<-p.done
			return
		case <-ctx.Done():
			next = killGroup
		case <-t.C:
		}
		t.Stop()
		next(pid)
	}
	<-p.done
}

// An ExitError says how a program ended.
type ExitError struct {
	State *os.ProcessState
	Lived time.Duration // from its start
	Said  []string      // the last lines of its standard error, cleaned and quoted
	err   error
}

// Error is for the log.
func (e *ExitError) Error() string {
	how := "exit status 0"
	if e.err != nil {
		how = e.err.Error()
	}
	if len(e.Said) == 0 {
		return fmt.Sprintf("the program ended after %v: %s", e.Lived.Round(time.Millisecond), how)
	}
	return fmt.Sprintf("the program ended after %v: %s; its last words: %s", e.Lived.Round(time.Millisecond), how, LastWords(e.Said))
}

// LastWords returns the last few of lines in one line.
func LastWords(lines []string) string {
	return strings.Join(lines[max(0, len(lines)-shownLines):], " / ")
}

func (e *ExitError) Unwrap() error { return e.err }
