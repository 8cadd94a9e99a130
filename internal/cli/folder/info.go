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

	"github.com/gofrs/flock"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// InfoFile is the file in a gateway's folder with the address of the gateway that has the folder
// open.
const InfoFile = "serve.json"

// InfoLock is the file that a gateway locks while it serves the folder. A command that opens the
// folder does not lock it. So the lock proves that the InfoFile belongs to a running gateway.
const InfoLock = "serve.lock"

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

// KeepInfo locks [InfoLock], and writes the file as WriteInfo does. The caller calls stop to remove
// the file. While the gateway serves, KeepInfo retries after a failure, for example on a full disk:
// without the file, only the commands in the folder fail.
func KeepInfo(ctx context.Context, folder string, s Info, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	lock := flock.New(filepath.Join(folder, InfoLock))
	write := func() error {
		// a command that looks for a gateway has the lock for an instant
		wait, end := context.WithTimeout(ctx, time.Second)
		defer end()
		if _, err := lock.TryLockContext(wait, time.Millisecond); err != nil {
			return err
		}
		return WriteInfo(folder, s)
	}
	if err := write(); err != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "serve.json was not written, so commands do not find "+
			"this gateway by its folder: give them --url. The write is tried again",
			slog.String("url", s.Address), slog.Any("error", err))
		wg.Go(func() {
			for write() != nil {
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
		_ = RemoveInfo(folder) // a remaining file does no harm, because nothing locks InfoLock
		_ = lock.Close()
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
	lock := flock.New(filepath.Join(folder, InfoLock), flock.SetFlag(os.O_RDONLY))
	defer func() { _ = lock.Close() }()
	free, err := lock.TryRLock()
	if free || errors.Is(err, fs.ErrNotExist) {
		return s, false, nil // a killed gateway left the file
	} else if err != nil {
		return s, false, err
	}
	// Read the file again. The first read may have found the file of a killed gateway, which the
	// running gateway removed before it took the lock.
	s, runs = FindInfo(folder)
	return s, runs, nil
}

// FindInfo returns the address of a folder's gateway, if the process of the file still runs.
// Another process may have the same number now, so only [InfoLock] proves that the gateway runs.
// The admin key opens a gateway that only this machine reaches. So if Key is set, FindInfo accepts
// only a loopback address.
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
