package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"runtime/debug"

	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// The parts of the database format that verify checks. bbolt trusts its pages: a damaged page ends
// in a panic, in a memory fault of the mapped file, or in an endless recursion. This can happen on
// goroutines of bbolt, where no caller can recover. bbolt's own check walks the pages in the same
// way: it does not end if a page refers to itself, and accepts a wrong key for a page.
const (
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	metaSize    = 64
	headerSize  = 16 // of a page: id, flags, count, overflow
	elementSize = 16 // of a branch or a leaf
	bucketSize  = 16 // the root page of a bucket, and its sequence
	noFreelist  = ^uint64(0)

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
	bucketLeaf   = 0x01 // flag of an element whose value is a bucket
)

// verify reads the file and returns an error if its structure differs from what bbolt writes. It
// does not check values: a later read of a damaged record reports the damage. It maps the file,
// because most of the file consists of values, which a start does not need.
func verify(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 { // an empty file cannot be mapped
		return errors.New("it is empty")
	}
	data, err := store.MapFile(f, int(info.Size()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.UnmapFile(data)) }()
	// A disk error, or a file that becomes shorter during the check, causes a memory fault.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it cannot be read: %v", p)
		}
	}()
	return verifyData(data, func() { store.ReleasePages(data) })
}

// verifyData verifies the bytes of a file. It calls release from time to time, because it rarely
// needs earlier pages again.
func verifyData(data []byte, release func()) error {
	v, root, freelist, err := newVerifier(data)
	if err != nil {
		return err
	}
	v.release = release
	if _, err := v.tree(root); err != nil {
		return err
	}
	if freelist == noFreelist {
		return nil
	}
	return v.free(freelist)
}

// A verifier walks the pages of a file.
type verifier struct {
	data     []byte
	pageSize uint64
	pages    uint64 // number of pages in use or free; the file may have more
	seen     []bool // pages by number, with overflow pages
	read     int    // pages read since release
	release  func()
}

// maxPages is the number of pages that a verifier reads before it releases them. Otherwise all
// pages with keys, half of the file, would be in memory at once, in addition to the catalog that is
// opened at the same time.
const maxPages = 4096

// newVerifier finds the newer of the two meta pages.
func newVerifier(data []byte) (v *verifier, root, freelist uint64, err error) {
	var newest uint64
	for _, size := range []uint64{1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10} {
		for page := range uint64(2) {
			at := page*size + headerSize
			if at+metaSize > uint64(len(data)) {
				continue
			}
			m := data[at : at+metaSize]
			sum := fnv.New64a()
			_, _ = sum.Write(m[:metaSize-8]) // a hash never fails
			txid := u64(m[48:])
			if u32(m) != metaMagic || u32(m[4:]) != metaVersion || uint64(u32(m[8:])) != size ||
				u64(m[56:]) != sum.Sum64() || v != nil && txid < newest {
				continue
			}
			newest = txid
			v = &verifier{data: data, pageSize: size, pages: u64(m[40:])}
			root, freelist = u64(m[16:]), u64(m[32:])
		}
	}
	switch {
	case v == nil:
		return nil, 0, 0, errors.New("it does not begin like a database file")
	case v.pages > uint64(len(data))/v.pageSize:
		return nil, 0, 0, fmt.Errorf("it has %d bytes, too few for %d pages of %d bytes", len(data), v.pages, v.pageSize)
	}
	v.seen = make([]bool, v.pages)
	return v, root, freelist, nil
}

// page returns the bytes of a page that was not seen before, including its overflow pages.
func (v *verifier) page(id uint64) ([]byte, error) {
	if id < 2 || id >= v.pages {
		return nil, fmt.Errorf("page %d: it has no data or is not one of %d pages", id, v.pages)
	}
	head := v.data[id*v.pageSize:]
	overflow := uint64(u32(head[12:]))
	if u64(head) != id || overflow >= v.pages-id {
		return nil, fmt.Errorf("page %d: its head is damaged", id)
	}
	if v.read++; v.read == maxPages {
		v.release()
		v.read = 0
	}
	for i := id; i <= id+overflow; i++ {
		if v.seen[i] {
			return nil, fmt.Errorf("page %d has two references", i)
		}
		v.seen[i] = true
	}
	return head[:(overflow+1)*v.pageSize], nil
}

// tree checks the pages of a bucket from its root, and returns its first key; nil: the bucket is
// empty.
func (v *verifier) tree(root uint64) (first []byte, err error) {
	page, err := v.page(root)
	if err != nil {
		return nil, err
	}
	return v.node(root, page)
}

// node checks a page of a bucket and all pages below it, and returns its first key; nil: the page
// is empty.
func (v *verifier) node(id uint64, page []byte) (first []byte, err error) {
	flags, count := u16(page[8:]), uint64(u16(page[10:]))
	if flags != branchPage && flags != leafPage {
		return nil, fmt.Errorf("page %d: its kind is %#x", id, flags)
	}
	if headerSize+count*elementSize > uint64(len(page)) || flags == branchPage && count == 0 {
		return nil, fmt.Errorf("page %d: it cannot hold %d elements", id, count)
	}
	var before []byte
	for i := range count {
		at := headerSize + i*elementSize
		e := page[at:]
		pos, keySize, valueSize, child := uint64(u32(e)), uint64(u32(e[4:])), uint64(0), u64(e[8:])
		if flags == leafPage {
			pos, keySize, valueSize = uint64(u32(e[4:])), uint64(u32(e[8:])), uint64(u32(e[12:]))
		}
		from, mid := at+pos, at+pos+keySize
		if from < headerSize+count*elementSize || mid+valueSize > uint64(len(page)) {
			return nil, fmt.Errorf("page %d: element %d is outside of the page", id, i)
		}
		key := page[from:mid]
		if i > 0 && bytes.Compare(before, key) >= 0 || keySize == 0 && flags == leafPage {
			return nil, fmt.Errorf("page %d: element %d is out of order", id, i)
		}
		before = key
		if i == 0 {
			first = key
		}
		switch {
		case flags == branchPage:
			err = v.child(id, key, child)
		case u32(e)&bucketLeaf != 0:
			err = v.bucket(id, page[mid:mid+valueSize])
		}
		if err != nil {
			return nil, err
		}
	}
	return first, nil
}

// child checks that a branch names a page by the page's first key. With another key bbolt would not
// find the entry when it moves the page, and the branch would keep an entry for a free page.
func (v *verifier) child(branch uint64, key []byte, id uint64) error {
	first, err := v.tree(id)
	if err == nil && !bytes.Equal(first, key) {
		err = fmt.Errorf("page %d: its key for page %d is not that page's first key", branch, id)
	}
	return err
}

// bucket checks a bucket that is the value of an element on the page with this id.
func (v *verifier) bucket(id uint64, value []byte) error {
	if len(value) < bucketSize {
		return fmt.Errorf("page %d: a bucket has %d bytes", id, len(value))
	}
	if root := u64(value); root != 0 {
		_, err := v.tree(root)
		return err
	}
	if inline := value[bucketSize:]; len(inline) >= headerSize && u64(inline) == 0 && u16(inline[8:]) == leafPage {
		_, err := v.node(id, inline)
		return err
	}
	return fmt.Errorf("page %d: a bucket is damaged", id)
}

// free checks the list of free pages: bbolt would overwrite a page that is both in use and free.
func (v *verifier) free(id uint64) error {
	page, err := v.page(id)
	if err != nil {
		return err
	}
	count, ids := uint64(u16(page[10:])), page[headerSize:]
	if count == 0xFFFF {
		count, ids = u64(ids), ids[8:]
	}
	if u16(page[8:]) != freelistPage || count > uint64(len(ids))/8 {
		return fmt.Errorf("page %d: the list of free pages is damaged", id)
	}
	before := uint64(1)
	for i := range count {
		free := u64(ids[8*i:])
		if free <= before || free >= v.pages || v.seen[free] {
			return fmt.Errorf("page %d: page %d cannot be free", id, free)
		}
		before = free
	}
	return nil
}

// bbolt writes numbers in the byte order of the machine.
func u16(b []byte) uint16 { return binary.NativeEndian.Uint16(b) }
func u32(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
func u64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }
