package cli

import "syscall"

// noWindow is CREATE_NO_WINDOW. With DETACHED_PROCESS, each program that the new process starts
// would open a window.
const noWindow = 0x08000000

// detached gives the new process its own group and console, so that Ctrl-C does not reach the new
// process.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | noWindow}
}
