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

	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

var _ object.Mapper = (*Store)(nil)

// Map implements [object.Mapper]. Put and Delete never write into a file, so what is mapped stays as
// it was. Who overwrites a file in place, past this package, changes it, and ends the process if he makes it
// shorter.
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
	return store.MapFile(f, int(info.Size()))
}
