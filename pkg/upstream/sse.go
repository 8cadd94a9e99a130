package upstream

import (
	"io"

	"github.com/portcullis-mcp/portcullis/pkg/upstream/sse"
)

// events is [sse.Events] with the longest line that a response may have.
func events(r io.Reader, f func(data []byte) (done bool, err error)) error {
	return sse.Events(r, maxResponse, f)
}
