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

	// lastWords is how long the host reads standard output after the program has ended. After the
	// end all output is in the pipe, but a child process outside the process group may keep the
	// pipe open.
	lastWords = 250 * time.Millisecond

	// unhurried is the patience with a program that is useless because it has closed one of its
	// streams.
	unhurried = time.Second
)

// A Process is a program that runs or has ended. It is safe for concurrent use.
type Process struct {
	cmd     *exec.Cmd
	o       Options
	started time.Time

	stdin          *os.File
	stdout, stderr *os.File
	writes         chan write
	closeInput     sync.Once
	inputClosed    chan struct{}
	lastErrors     *stderrLog

	exited chan struct{} // the program itself has ended
	done   chan struct{} // the program has ended, and no process of its group is left
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
	cmd := exec.Command(program.Path, program.Args...) //nolint:gosec,noctx // the operator decides which program runs, and Stop ends it
	cmd.Env, cmd.Dir = program.Env, program.Dir
	return &Process{
		cmd: cmd, o: o, lastErrors: &stderrLog{log: o.Log, clean: o.Clean, wrote: o.Wrote},
		writes: make(chan write), inputClosed: make(chan struct{}), exited: make(chan struct{}), done: make(chan struct{}),
	}
}

// start starts the program and the goroutines for its streams. It calls onEnd when nothing is left
// of the program.
func (p *Process) start(onEnd func()) (err error) {
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close() // the program has its own copy
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
	// These are files, not readers or writers: Wait then waits only for the program, and not for
	// processes that inherited its streams.
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, errs
	p.cmd.SysProcAttr = ownGroup()
	p.started = time.Now()
	if err = p.cmd.Start(); err != nil {
		return err
	}
	go p.run(onEnd)
	return nil
}

// run serves the streams until the program has ended, and then ends all that is left.
func (p *Process) run(onEnd func()) {
	var reading sync.WaitGroup
	reading.Go(func() {
		linereader.Read(p.stdout, p.o.MaxLine, p.o.Line)
		go p.Stop(context.Background(), unhurried) // a program without output is useless
	})
	reading.Go(func() { linereader.Read(p.stderr, maxStderrLine, p.lastErrors.line) })
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
	p.lastErrors.end()
	p.err = &ExitError{err: err, State: p.cmd.ProcessState, Lived: time.Since(p.started), Stderr: p.lastErrors.last()}
	onEnd()
	close(p.done)
}

// write writes the lines in order.
func (p *Process) write() {
	for {
		select {
		case w := <-p.writes:
			n, err := p.stdin.Write(w.line)
			w.done <- writeResult{n, err}
			if err != nil { // the program has closed its input and is unreachable
				go p.Stop(context.Background(), unhurried)
				return
			}
		case <-p.inputClosed:
			return
		}
	}
}

// endInput closes the program's standard input, even during a write.
func (p *Process) endInput() {
	p.closeInput.Do(func() {
		close(p.inputClosed)
		_ = p.stdin.Close() // an error only means that the program no longer reads
	})
}

// Send writes a line and adds the line end; the line must not contain one. sent is false if the
// program cannot have read the line, and so cannot act on it. If ctx ends during the write, Send
// returns, and the write continues.
func (p *Process) Send(ctx context.Context, line []byte) (sent bool, err error) {
	done := make(chan writeResult, 1)
	whole := make([]byte, len(line)+1)
	whole[copy(whole, line)] = '\n'
	select {
	case <-p.exited: // first, because the next select picks at random
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

// ended waits for the end of a program that accepts no more lines, and returns how it ended.
func (p *Process) ended(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ExitChannel returns a channel that is closed when the program has ended and no process of its
// group is left. Before that, Line receives every line.
func (p *Process) ExitChannel() <-chan struct{} { return p.done }

// LastStderr returns the last lines of the program's standard error, cleaned and quoted.
func (p *Process) LastStderr() []string { return p.lastErrors.last() }

// Exit returns how the program ended. It is valid after ExitChannel is closed.
func (p *Process) Exit() *ExitError { return p.err }

// Stop ends the program and its process group. It closes the program's standard input. If the
// program continues, Stop sends SIGTERM after patience or after [Options].Finish, the longer of the
// two. Then it sends SIGKILL after another patience, or when ctx ends. Stop returns when nothing is
// left. On systems without these signals, it kills the program after the first patience.
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
		case <-p.exited: // another call continues it
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

// An ExitError describes how a program ended.
type ExitError struct {
	State  *os.ProcessState
	Lived  time.Duration // since its start
	Stderr []string      // the last lines of its standard error, cleaned and quoted
	err    error
}

// Error returns a text for the log.
func (e *ExitError) Error() string {
	how := "exit status 0"
	if e.err != nil {
		how = e.err.Error()
	}
	if len(e.Stderr) == 0 {
		return fmt.Sprintf("the program ended after %v: %s", e.Lived.Round(time.Millisecond), how)
	}
	return fmt.Sprintf("the program ended after %v: %s; its last lines: %s", e.Lived.Round(time.Millisecond), how, LastWords(e.Stderr))
}

// LastWords returns the last few of lines, on one line.
func LastWords(lines []string) string {
	return strings.Join(lines[max(0, len(lines)-shownLines):], " / ")
}

func (e *ExitError) Unwrap() error { return e.err }
