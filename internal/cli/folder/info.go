package folder

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
)

// InfoFile is the file in a gateway's folder with the address of the gateway that has the folder
// open.
const InfoFile = "serve.json"

// writeEvery is how long KeepInfo waits before it tries to write the file again.
const writeEvery = 2 * time.Second

// An Info is the content of the file, which portcullis serve writes while it runs.
type Info struct {
	Address string `json:"address"` // of the gateway: http://127.0.0.1:8080
	PID     int    `json:"pid"`
	Key     bool   `json:"key"` // admin.key in the folder opens /admin
	// portcullis stdio started it: it ends when the client leaves
	Client  bool `json:"client,omitempty"`
	NoAdmin bool `json:"no_admin,omitempty"` // nobody could use /admin when the gateway started
}

// WriteInfo writes the gateway's address into a file that only its owner can read. The caller must
// have the approvals open.
func WriteInfo(folder string, s Info) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return PutFile(filepath.Join(folder, InfoFile), append(data, '\n'), 0o600, store.Replace)
}

// KeepInfo writes the file, as WriteInfo does. The caller calls stop to remove the file. While the
// gateway serves, KeepInfo retries a failed write, for example on a full disk: without the file,
// only the commands in the folder fail.
func KeepInfo(ctx context.Context, folder string, s Info, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if err := WriteInfo(folder, s); err != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "serve.json was not written, so commands do not find "+
			"this gateway by its folder: give them --url. The write is tried again",
			slog.String("url", s.Address), slog.Any("error", err))
		wg.Go(func() {
			for WriteInfo(folder, s) != nil {
				select {
				case <-ctx.Done():
					return
				case <-time.After(writeEvery):
				}
			}
			log.LogAttrs(ctx, slog.LevelInfo, "serve.json was written")
		})
	}
	return func() {
		cancel()
		wg.Wait()
		_ = RemoveInfo(folder) // a remaining file does no harm, because its process has ended
	}
}

// RemoveInfo removes the file. The caller must have the approvals open: then no other gateway runs,
// so the file is the caller's own or belongs to a killed process.
func RemoveInfo(folder string) error {
	if err := os.Remove(filepath.Join(folder, InfoFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Running returns the address of the gateway that runs on a folder. runs is false if no gateway
// runs.
func Running(folder string) (s Info, runs bool, err error) {
	if s, runs = FindInfo(folder); !runs {
		return s, false, nil
	}
	// While a command only reads the approvals, others can view the file. While a gateway runs,
	// they cannot.
	view, err := bolt.View(filepath.Join(folder, ApprovalsFile), &store.Options{LockWait: Glance})
	switch {
	case err == nil: // a killed gateway left the file
		return s, false, view.Close()
	case errors.Is(err, bolt.ErrHeld):
		// Read the file again: if a killed process left it, the process that now has the store open
		// has removed it.
		s, runs = FindInfo(folder)
		return s, runs, nil
	}
	return s, false, err
}

// FindInfo returns the address of a folder's gateway, if the process of the file still runs.
// Another process may have the same number now, so only the lock of the folder proves that the
// gateway runs. The admin key opens a gateway that only this machine reaches. So if Key is set,
// FindInfo accepts only a loopback address.
func FindInfo(folder string) (s Info, ok bool) {
	data, err := os.ReadFile(filepath.Join(folder, InfoFile))
	if err != nil || json.Unmarshal(data, &s) != nil || s.Address == "" || s.PID <= 0 || s.Key && !client.ToLoopback(s.Address) {
		return s, false
	}
	p, err := os.FindProcess(s.PID)
	if err != nil {
		return s, false
	}
	if runtime.GOOS == "windows" { // Windows has no signal that only tests whether a process exists
		return s, true
	}
	err = p.Signal(syscall.Signal(0))
	return s, err == nil || errors.Is(err, os.ErrPermission)
}
