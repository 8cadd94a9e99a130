package bolt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// View opens the file at path for reading, and writes nothing there. If the file is missing, the
// Store is empty. A file of an earlier version is read from a copy in the system's folder for
// temporary files. Any number of processes can view a file at the same time. While a process has
// the file open through [Open], View returns [ErrHeld]. A write through the Store fails, or changes
// only the copy.
func View(path string, o *store.Options) (_ *Store, err error) {
	options := o.OrDefault()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return openScratch("", options, false)
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(options.LockWait, lockWait))
	defer cancel()
	defer store.Wrap(&err, "open approvals %q", path)
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
	defer func() { _ = lock.Close() }()
	if _, err := lock.TryRLockContext(ctx, lockPoll); err != nil {
		if ctx.Err() != nil {
			return nil, ErrHeld
		}
		return nil, err
	}
	if err := verify(path); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	s, err := openReadOnly(path, options)
	if err != nil {
		return nil, err
	}
	if s.isPrepared() {
		return s, nil
	}
	_ = s.Close() // it was only read
	return openScratch(path, options, false)
}

// openReadOnly opens a file whose structure was verified.
func openReadOnly(path string, o store.Options) (*Store, error) {
	s := &Store{guard: guard{path: path}, o: o}
	err := s.run(func() (err error) {
		s.db, err = bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockWait})
		return err
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrHeld
	case err != nil:
		return nil, err
	}
	return s, nil
}

// openScratch opens a copy of the file at path, or an empty file if path is "". [Store.Close]
// removes the copy.
func openScratch(path string, o store.Options, isCopy bool) (*Store, error) {
	folder, err := os.MkdirTemp("", "portcullis-view-*") // mode 0700
	if err != nil {
		return nil, err
	}
	to := filepath.Join(folder, "approvals.db")
	if path != "" {
		err = store.WriteFile(to, 0o600, store.Replace, func(temp *os.File) error {
			return copyFile(temp, path)
		})
	}
	s := &Store{guard: guard{path: to}, o: o, scratch: folder, isCopy: isCopy}
	if err == nil {
		err = s.open()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return s, nil
}

// copyFile writes the contents of the file at path to the writer.
func copyFile(to io.Writer, path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it was only read
	_, err = io.Copy(to, from)
	return err
}
