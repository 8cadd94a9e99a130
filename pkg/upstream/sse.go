package upstream

import (
	"io"

	"github.com/portcullis-mcp/portcullis/pkg/upstream/sse"
)

// events calls [sse.Events] with the maximum line length of a response.
func events(r io.Reader, f func(data []byte) (done bool, err error)) error {
	return sse.Events(r, maxResponse, f)
}
