package process

import (
	"runtime"
	"sync"
	"syscall"
)

// ownGroup puts a program into its own process group. The kernel kills the program if this process
// dies first. The kernel does not kill the program's own children, but they usually read the end of
// their standard input.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// A starter runs functions on one thread that lasts. For the kernel, the parent of a program is the
// thread that started it. When that thread ends, the kernel kills the program.
type starter struct {
	mu   sync.Mutex
	jobs chan func()
}

// do runs f and returns after it.
func (s *starter) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs == nil {
		s.jobs = make(chan func())
		go func(jobs <-chan func()) {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			for job := range jobs {
				job()
			}
		}(s.jobs)
	}
	done := make(chan struct{})
	s.jobs <- func() { defer close(done); f() }
	<-done
}

// stop ends the thread. No program that it started may be left.
func (s *starter) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs != nil {
		close(s.jobs)
		s.jobs = nil
	}
}
