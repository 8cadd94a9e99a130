//go:build unix

package cli

import "syscall"

// detached gives a process its own session: signals to the group or the terminal of this process do
// not reach it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
