// Package dir keeps objects as files in a folder, for a gateway that runs on one machine. An
// operator may edit the files by hand.
//
// A reader never sees a part of a file, and a crash never leaves one: Put writes the data to a
// temporary file in the same folder, syncs it, and renames it. The kernel resolves names below the
// folder, so no key and no symbolic link leads out of the folder.
package dir

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// lockName is the file that writers of the folder lock. lockPoll is the time between their
// attempts. No segment of a key starts with a dot, so no object has the name of the lock or of a
// temporary file.
const (
	lockName = ".lock"
	lockPoll = 5 * time.Millisecond
)

// A Store is an [object.Store] in a folder. The ETag of an object is the hex SHA-256 of its data,
// so the objects in a copy of the folder have the same ETags.
type Store struct {
	store.FailureCount
	root string

	mu           sync.Mutex
	sweptFolders map[string]bool // folders without old temporary files, by their part of the key
	mapped       []mapping
}

var _ object.Store = (*Store)(nil)

// New returns a Store on the folder. It does not open the folder; the first Put creates it if it is
// missing.
func New(root string) *Store { return &Store{root: root, sweptFolders: map[string]bool{}} }

// wrap adds the failed operation to *err, and counts it if the store has failed.
func (s *Store) wrap(err *error, format string, args ...any) {
	s.Note(*err)
	store.Wrap(err, format, args...)
}

// Get implements [object.Store].
func (s *Store) Get(ctx context.Context, key, ifNoneMatch string) (_ object.Object, err error) {
	defer s.wrap(&err, "get object %q", key)
	if err := cmp.Or(ctx.Err(), object.CheckKey(key)); err != nil {
		return object.Object{}, err
	}
	root, err := os.OpenRoot(s.root)
	if errors.Is(err, fs.ErrNotExist) {
		return object.Object{}, object.ErrNotFound
	}
	if err != nil {
		return object.Object{}, err
	}
	defer func() { _ = root.Close() }()
	data, err := read(root, key)
	if err != nil {
		return object.Object{}, err
	}
	o := object.Object{Data: data, ETag: object.Version(data)}
	if o.ETag == ifNoneMatch {
		return object.Object{}, object.ErrNotModified
	}
	return o, nil
}

// Put implements [object.Store]. Writers of the folder in all processes take turns: no writer
// writes between the check of the old version and the rename by another writer.
func (s *Store) Put(ctx context.Context, key string, data []byte, ifMatch string) (etag string, err error) {
	defer s.wrap(&err, "put object %q", key)
	if err := cmp.Or(ctx.Err(), object.CheckKey(key)); err != nil {
		return "", err
	}
	if err := os.MkdirAll(s.root, 0o700); err != nil {
		return "", err
	}
	return object.Version(data), s.withLock(ctx, func(root *os.Root) error {
		if err := s.sweep(root, path.Dir(key)); err != nil {
			return err
		}
		return write(root, key, data, ifMatch)
	})
}

// List implements [object.Store]. It reads every file, because the ETag depends on the data.
func (s *Store) List(ctx context.Context, folder string) (etags map[string]string, err error) {
	defer s.wrap(&err, "list objects in %q", folder)
	if err := cmp.Or(ctx.Err(), object.CheckKey(folder)); err != nil {
		return nil, err
	}
	etags = map[string]string{}
	root, err := os.OpenRoot(s.root)
	if errors.Is(err, fs.ErrNotExist) {
		return etags, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	if !isDir(root, folder) {
		return etags, nil
	}
	err = fs.WalkDir(root.FS(), folder, func(key string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && (e.IsDir() || object.CheckKey(key) != nil) {
			return nil //nolint:nilerr // it was removed meanwhile, or is no object
		}
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		data, err := read(root, key)
		if errors.Is(err, object.ErrNotFound) { // it was removed meanwhile
			return nil
		}
		etags[key] = object.Version(data)
		return err
	})
	return etags, err
}

// Delete implements [object.Store]. It takes turns with other writers.
func (s *Store) Delete(ctx context.Context, key string) (err error) {
	defer s.wrap(&err, "delete object %q", key)
	if err := cmp.Or(ctx.Err(), object.CheckKey(key)); err != nil {
		return err
	}
	return s.withLock(ctx, func(root *os.Root) error { return remove(root, key) })
}

// Exclusive runs f while no other writer of the folder runs. f must not use the store's own writes.
func (s *Store) Exclusive(ctx context.Context, f func() error) error {
	return s.withLock(ctx, func(*os.Root) error { return f() })
}

// withLock runs f while no other writer of the folder runs. It does not run f if there is no
// folder.
func (s *Store) withLock(ctx context.Context, f func(*os.Root) error) error {
	root, err := os.OpenRoot(s.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	lock := flock.New(filepath.Join(s.root, lockName))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return fmt.Errorf("lock the folder: %w", err)
	}
	defer func() { _ = lock.Close() }()
	return f(root)
}

func write(root *os.Root, key string, data []byte, ifMatch string) error {
	if ifMatch != "" {
		held, err := read(root, key)
		absent := errors.Is(err, object.ErrNotFound)
		switch {
		case err != nil && !absent:
			return err
		case absent != (ifMatch == object.IfAbsent), !absent && object.Version(held) != ifMatch:
			return object.ErrConflict
		}
	}
	return replace(root, key, data)
}

// sweep removes the temporary files of a writer that was killed. It runs at the first write into a
// folder. The caller holds the lock of all writers, so no other writer has a temporary file now.
func (s *Store) sweep(root *os.Root, folder string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sweptFolders[folder] {
		return nil
	}
	entries, err := fs.ReadDir(root.FS(), folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.Name(), store.TempName); ok && len(name) == len(rand.Text()) && e.Type().IsRegular() {
			if err := root.Remove(filepath.Join(filepath.FromSlash(folder), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	s.sweptFolders[folder] = true
	return nil
}

// read returns the file at key, or [object.ErrNotFound].
func read(root *os.Root, key string) ([]byte, error) {
	data, err := root.ReadFile(filepath.FromSlash(key))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || isDir(root, key) {
		return nil, object.ErrNotFound
	}
	return data, err
}

// isDir reports whether key is a folder: the beginning of other keys.
func isDir(root *os.Root, key string) bool {
	info, err := root.Stat(filepath.FromSlash(key))
	return err == nil && info.IsDir()
}

// remove removes the file at key and syncs its folder.
func remove(root *os.Root, key string) error {
	if isDir(root, key) {
		return nil
	}
	err := root.Remove(filepath.FromSlash(key))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	return store.SyncFolder(root, filepath.FromSlash(path.Dir(key)))
}

// replace writes all of data to key or nothing, and syncs the file.
func replace(root *os.Root, key string, data []byte) error {
	folder := path.Dir(key)
	if err := root.MkdirAll(filepath.FromSlash(folder), 0o700); err != nil {
		return err
	}
	file := store.File{Root: root, Name: filepath.FromSlash(key), Mode: 0o600, Place: store.Replace}
	if err := file.Write(func(f *os.File) error {
		_, err := f.Write(data)
		return err
	}); err != nil {
		return err
	}
	for folder != "." { // each new folder is an entry of its parent
		folder = path.Dir(folder)
		if err := store.SyncFolder(root, filepath.FromSlash(folder)); err != nil {
			return err
		}
	}
	return nil
}
