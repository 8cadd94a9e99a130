//go:build unix

package process

import "syscall"

// inherited are the variables that every program has from this process.
func inherited() []string { return []string{"PATH", "HOME", "LANG", "TMPDIR"} }

// terminateGroup and killGroup signal all processes of a group. There may be none left, or none
// that may be signalled, and nothing is to be done about that.
func terminateGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }
func killGroup(pid int)      { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// killRest kills what a program that has ended left behind in its group, whose number is not given
// to another as long as one process of it is left.
func killRest(pid int) { killGroup(pid) }
