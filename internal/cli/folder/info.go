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

// InfoFile says, in the gateway's folder, where the gateway answers that has the folder open.
const InfoFile = "serve.json"

// writeEvery is how long KeepInfo waits before it tries to write the file again.
const writeEvery = 2 * time.Second

// An Info is what portcullis serve writes there while it runs.
type Info struct {
	Address string `json:"address"` // of the gateway: http://127.0.0.1:8080
	PID     int    `json:"pid"`
	Key     bool   `json:"key"`                // admin.key in the folder opens /admin
	Client  bool   `json:"client,omitempty"`   // portcullis stdio started it: it ends when the client leaves
	NoAdmin bool   `json:"no_admin,omitempty"` // nobody could use /admin when it was started
}

// WriteInfo writes where the gateway answers, for its owner alone. Who does so holds the
// approvals.
func WriteInfo(folder string, s Info) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return PutFile(filepath.Join(folder, InfoFile), append(data, '\n'), 0o600, store.Replace)
}

// KeepInfo is WriteInfo until stop, which takes it back. A file that cannot be written is
// tried again while the gateway serves: on a full disk only the commands in the folder miss it.
func KeepInfo(ctx context.Context, folder string, s Info, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	if err := WriteInfo(folder, s); err != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "serve.json was not written, so commands do not find this gateway by its folder: give them --url. It is tried again",
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
		_ = RemoveInfo(folder) // a process that is gone is not asked
	}
}

// RemoveInfo takes that back. Only who holds the approvals may call it: what stands there then
// is of a process that was killed.
func RemoveInfo(folder string) error {
	if err := os.Remove(filepath.Join(folder, InfoFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Running returns where the gateway answers that runs on a folder; runs is false if none does.
func Running(folder string) (s Info, runs bool, err error) {
	if s, runs = FindInfo(folder); !runs {
		return s, false, nil
	}
	// A command that reads does not keep others from viewing the file. A gateway does.
	held, err := bolt.View(filepath.Join(folder, ApprovalsFile), &store.Options{LockWait: Glance})
	switch {
	case err == nil: // what said that one runs was left of one that was killed
		return s, false, held.Close()
	case errors.Is(err, bolt.ErrHeld):
		s, runs = FindInfo(folder) // not before: whoever has it open by now removed what a killed one left
		return s, runs, nil
	}
	return s, false, err
}

// FindInfo returns where the gateway of a folder answers, if a process says so that still runs. It may be
// another process by now that has the number: whether the folder is held tells. The admin key opens a
// gateway that only this machine reaches, so it goes to no other address, whatever the file says.
func FindInfo(folder string) (s Info, ok bool) {
	data, err := os.ReadFile(filepath.Join(folder, InfoFile))
	if err != nil || json.Unmarshal(data, &s) != nil || s.Address == "" || s.PID <= 0 || s.Key && !client.ToLoopback(s.Address) {
		return s, false
	}
	p, err := os.FindProcess(s.PID)
	if err != nil {
		return s, false
	}
	if runtime.GOOS == "windows" { // which has no signal that does nothing
		return s, true
	}
	err = p.Signal(syscall.Signal(0))
	return s, err == nil || errors.Is(err, os.ErrPermission)
}
