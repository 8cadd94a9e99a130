package s3

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/klauspost/compress/zstd"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
)

// Compression settings; docs/design/objects.md has the measurements. To decompress an object, Get
// needs extra memory of twice the window.
const (
	level  = zstd.SpeedDefault
	window = 4 << 20
)

// maxObject is the largest object that Get reads. The largest objects are shards of a catalog. A
// shard has at most 64 MiB of definitions, or more if they are all of one server. Its index has
// about the same size.
const maxObject = 512 << 20

var errTooLarge = fmt.Errorf("the object has more than %d bytes", maxObject)

// isCompressed reports whether objects with the key are stored compressed. Objects that people read
// and write are not compressed. The file current.json is not compressed either, so that an older
// program can read in it that the catalog has a newer format.
func isCompressed(key string) bool { return path.Ext(key) == ".snap" || path.Ext(key) == ".found" }

func compress(data []byte) ([]byte, error) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	return w.EncodeAll(data, nil), nil
}

// A transfer records the error that ended a read early. Such an error is not a fault of the stored
// object.
type transfer struct {
	io.Reader
	err error
}

// Read implements [io.Reader].
func (t *transfer) Read(p []byte) (n int, err error) {
	if n, err = t.Reader.Read(p); err != nil && !errors.Is(err, io.EOF) {
		t.err = err
	}
	return n, err
}

// read returns the data of an object. size is the number of stored bytes, or -1 if unknown. It
// also reads an uncompressed object, because an earlier version of the program compressed nothing.
// If the object arrived completely but cannot be decompressed, the error is [object.ErrDamaged].
func read(body io.Reader, key string, size int64) ([]byte, error) {
	if !isCompressed(key) {
		return readAll(body, size)
	}
	from := &transfer{Reader: body}
	r := bufio.NewReader(from)
	start, err := r.Peek(zstd.HeaderMaxSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var head zstd.Header
	if head.Decode(start) != nil || head.Skippable {
		return readAll(r, size) // it is not compressed
	}
	size = -1
	if head.HasFCS && head.FrameContentSize <= maxObject {
		size = int64(head.FrameContentSize)
	}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(false), zstd.WithDecoderMaxMemory(maxObject))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	data, err := readAll(z, size)
	switch {
	case from.err != nil:
		return nil, from.err
	case err != nil:
		return nil, fmt.Errorf("decompress: %w: %w", object.ErrDamaged, err)
	}
	return data, nil
}

// readAll reads r to its end. If the size is known, it allocates one buffer of this size, so that
// memory holds only one copy of the data.
func readAll(r io.Reader, size int64) ([]byte, error) {
	if size < 0 || size > maxObject {
		size = 0
	}
	data := make([]byte, 0, size+1) // one more byte, for the read that reaches the end
	for {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		case len(data) > maxObject:
			return nil, errTooLarge
		case len(data) == cap(data):
			data = append(data, 0)[:len(data)]
		}
	}
}
