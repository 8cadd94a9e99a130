package bolt

import (
	"unsafe"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// releaseAfter is how many bytes of records are read before the memory in which they stand is given
// back. The file is mapped: without that the process would seem to need all of it as soon as each
// record was read once.
const releaseAfter = 2 << 20

// releasePages gives back the memory in which the file stands, if much of it was read since the
// last time.
func (g *guard) releasePages(tx *bbolt.Tx) {
	if g.read < releaseAfter {
		return
	}
	g.read = 0
	first := tx.DB().Info().Data
	store.ReleasePages(unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&first))), tx.Size())) //nolint:gosec // G103: bbolt maps as much, and says where by number alone
}
