package bolt

import (
	"unsafe"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// releaseAfter is the number of bytes of records that are read before their memory is released. The
// file is mapped, so without a release all of it would count as memory of the process once every
// record was read.
const releaseAfter = 2 << 20

// releasePages releases the memory of the mapped file, if much of it was read since the last
// release.
func (g *guard) releasePages(tx *bbolt.Tx) {
	if g.read < releaseAfter {
		return
	}
	g.read = 0
	first := tx.DB().Info().Data
	store.ReleasePages(unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&first))), tx.Size())) //nolint:gosec // G103: bbolt maps at least tx.Size() bytes, and returns their address as a number
}
