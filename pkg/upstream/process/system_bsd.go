//go:build unix && !linux

package process

import "syscall"

// ownGroup puts a program into its own process group. If this process is killed, the program reads
// the end of its standard input. A program that ignores this continues to
// run.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
