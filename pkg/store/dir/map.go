package dir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

var _ object.Mapper = (*Store)(nil)

// Map implements [object.Mapper]. Put and Delete never write into a file, so what is mapped stays as
// it was. Who overwrites a file in place, past this package, changes it, and ends the process if he makes it
// shorter. A file that is mapped already is not mapped again: each mapping counts what is read through it
// as memory of its own.
func (s *Store) Map(ctx context.Context, key string) (_ []byte, err error) {
	defer store.Wrap(&err, "map object %q", key)
	if err := cmp.Or(ctx.Err(), object.CheckKey(key)); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, object.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	f, err := root.Open(filepath.FromSlash(key))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || isDir(root, key) {
		return nil, object.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.Size() == 0: // nothing cannot be mapped
		return nil, nil
	case info.Size() > math.MaxInt32:
		return nil, fmt.Errorf("it has %d bytes", info.Size())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.mapped {
		if os.SameFile(m.info, info) && m.info.Size() == info.Size() && m.info.ModTime().Equal(info.ModTime()) {
			return m.data, nil
		}
	}
	data, err := store.MapFile(f, int(info.Size()))
	if err == nil {
		s.mapped = append(s.mapped, mapping{info, data})
	}
	return data, err
}

// A mapping is a file that is a part of the address space. Its number is no other file's as long as it is.
type mapping struct {
	info os.FileInfo
	data []byte
}
