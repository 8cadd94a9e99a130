//go:build unix

package process

import "syscall"

// inherited returns the variables of this process that every program gets.
func inherited() []string { return []string{"PATH", "HOME", "LANG", "TMPDIR"} }

// terminateGroup and killGroup signal all processes of a group. They ignore errors: perhaps the
// group has no process any more, or this process lacks the permission.
func terminateGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }
func killGroup(pid int)      { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// killRest kills the processes that an ended program left in its group. The system does not reuse
// the group's number while one of them is left.
func killRest(pid int) { killGroup(pid) }
