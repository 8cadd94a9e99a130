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

// How objects are compressed: see docs/design/stores.md for what was measured. Who reads one holds twice the
// window beside it.
const (
	level  = zstd.SpeedDefault
	window = 4 << 20
)

// maxObject bounds what is read of one object: a shard of a catalog has at most 64 MiB of definitions,
// or those of one server, and about as much of an index.
const maxObject = 512 << 20

var errTooLarge = fmt.Errorf("it has more than %d bytes", maxObject)

// isCompressed reports whether objects with the key are stored compressed. Those that people read and write
// are not, nor is current.json, by which an older program sees that it is older.
func isCompressed(key string) bool { return path.Ext(key) == ".snap" || path.Ext(key) == ".found" }

func compress(data []byte) ([]byte, error) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	return w.EncodeAll(data, nil), nil
}

// A transfer notes why reading broke off, which is not the fault of what is stored.
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

// read returns the data of an object of which size bytes are stored, -1 if that is not known. An earlier
// version of the program stored all of them as they are. What arrived whole and cannot be decompressed is
// [object.ErrDamaged].
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

// readAll reads to the end, into one buffer if the size is known, so that memory holds one copy.
func readAll(r io.Reader, size int64) ([]byte, error) {
	if size < 0 || size > maxObject {
		size = 0
	}
	data := make([]byte, 0, size+1) // the byte more is for the read that finds the end
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
