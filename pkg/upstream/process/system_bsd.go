//go:build unix && !linux

package process

import "syscall"

// ownGroup puts a program into a process group of its own. If this process is killed the program
// sees its standard input end; one that does not care stays.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
