package process

import (
	"runtime"
	"sync"
	"syscall"
)

// ownGroup puts a program into a process group of its own, and has the kernel kill it if this
// process dies without having ended it. What the program has started in turn is not killed then;
// as a rule that sees its standard input end.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// A starter runs functions on one thread that lasts: to the kernel a program's parent is the
// thread that started it, and the program is killed when that ends.
type starter struct {
	mu   sync.Mutex
	jobs chan func()
}

// do runs f and returns when it is through.
func (s *starter) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs == nil {
		s.jobs = make(chan func())
		go func(jobs <-chan func()) {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			for job := range jobs {
				job()
			}
		}(s.jobs)
	}
	done := make(chan struct{})
	s.jobs <- func() { defer close(done); f() }
	<-done
}

// stop ends the thread. No program that was started on it may be left.
func (s *starter) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs != nil {
		close(s.jobs)
		s.jobs = nil
	}
}
