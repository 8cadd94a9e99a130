package process

import (
	"os"
	"syscall"
)

// inherited returns the variables of this process that every program gets. Most programs do not
// start on Windows without them.
func inherited() []string {
	return []string{
		"PATH", "HOME", "LANG", "TMPDIR", "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE",
		"PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE",
	}
}

// ownGroup starts the program in its own process group, so that Ctrl-C at the console does not end
// the program.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// Windows has neither SIGTERM nor process groups. Only the program itself is killed; its children
// may continue.
func terminateGroup(pid int) { killGroup(pid) }

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill() // it may have ended
	}
}

func killRest(int) {}
