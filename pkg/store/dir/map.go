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

// Map implements [object.Mapper]. Put and Delete never write into a file, so mapped data does not
// change. If another program overwrites a file in place, it changes the mapped data. If another
// program makes the file shorter, this process ends. Map does not map the same file twice: the
// pages of each mapping count as separate memory.
func (s *Store) Map(ctx context.Context, key string) (_ []byte, err error) {
	defer s.wrap(&err, "map object %q", key)
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
	case info.Size() == 0: // an empty file cannot be mapped
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

// A mapping is a file that is a part of the address space. No other file gets its inode number
// while it is mapped.
type mapping struct {
	info os.FileInfo
	data []byte
}
