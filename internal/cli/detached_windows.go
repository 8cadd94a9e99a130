package cli

import "syscall"

// noWindow is CREATE_NO_WINDOW. With DETACHED_PROCESS each program that the process starts would
// open a window.
const noWindow = 0x08000000

// detached gives a process its own group and console: Ctrl-C does not reach it.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | noWindow}
}
