package audit

import (
	"io"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// A Writer writes lines in some format.
type Writer interface{ Write(l Line) error }

var (
	_ Writer = CSV{}
	_ Writer = JSONL{}
)

// A JSONL writes lines as JSON objects, one in a line of text.
type JSONL struct{ W io.Writer }

// Write writes a line.
func (j JSONL) Write(l Line) error {
	data, err := rawjson.Encode(l)
	if err == nil {
		_, err = j.W.Write(append(data, '\n'))
	}
	return err
}
