package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
)

// documents is the bucket of all documents: Part, a zero byte and ID → what wrapDoc returns.
var documents = []byte("documents")

// docForm is the first byte of a stored document. Documents of another version have another byte.
const docForm = 1

// ErrUnreadable says that one document cannot be read. The error does not concern other documents.
var ErrUnreadable = errors.New("a newer version of portcullis wrote it, or it is damaged; start " +
	"that version, or restore a copy: portcullis restore FILE --dir DIR")

// isOver reports whether the document has expired.
func isOver(d document.Doc, now time.Time) bool { return !d.Keep.IsZero() && !now.Before(d.Keep) }

// docKey returns the key of a document in the bucket. It keeps the documents of a part together, in
// the order of their IDs.
func docKey(k document.Key) []byte { return []byte(k.Part + "\x00" + k.ID) }

// wrapDoc returns the stored form of a document: a byte for the form, four numbers (the revision,
// the seconds and nanoseconds of Keep, the length of the mark), the mark, and the data as they are.
// The stored seconds are the seconds since 1970 plus one, because zero means no expiry.
func wrapDoc(d document.Doc) []byte {
	var seconds, nanos uint64
	if !d.Keep.IsZero() {
		seconds, nanos = uint64(max(d.Keep.Unix(), 0))+1, uint64(d.Keep.Nanosecond())
	}
	out := []byte{docForm}
	for _, n := range []uint64{uint64(d.Rev), seconds, nanos, uint64(len(d.Mark))} {
		out = binary.AppendUvarint(out, n)
	}
	return append(append(out, d.Mark...), d.Data...)
}

// unwrapDoc reads what wrapDoc returned. It copies the data, because the memory of a transaction
// must not be used after its end.
func unwrapDoc(key document.Key, data []byte) (document.Doc, error) {
	damaged := func(cause string) (document.Doc, error) {
		err := fmt.Errorf("document %q %q: %w (%s)", key.Part, key.ID, ErrUnreadable, cause)
		return document.Doc{}, err
	}
	if len(data) == 0 || data[0] != docForm {
		return damaged("its form is not known")
	}
	var n [4]uint64
	data = data[1:]
	for i := range n {
		v, size := binary.Uvarint(data)
		if size <= 0 || v > math.MaxInt64 {
			return damaged("it is cut off")
		}
		n[i], data = v, data[size:]
	}
	rev, seconds, nanos, mark := n[0], n[1], n[2], n[3]
	if rev == 0 || nanos >= uint64(time.Second) || mark > uint64(len(data)) {
		return damaged("its numbers are not possible")
	}
	d := document.Doc{Key: key, Rev: int64(rev)}
	d.Mark, d.Data = string(data[:mark]), bytes.Clone(data[mark:])
	if seconds > 0 {
		d.Keep = time.Unix(int64(seconds-1), int64(nanos)).UTC()
	}
	return d, nil
}
