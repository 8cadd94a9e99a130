//go:build unix

package cli

import "syscall"

// detached gives the new process its own session, so that signals to this process's group or
// terminal do not reach the new process.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
