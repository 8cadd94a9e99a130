package mcp

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// maxPeek is the most bytes of a message that PeekID reads.
const maxPeek = 64 << 10

// PeekID returns the id of a message that the gateway refuses without parsing, or nil if the id is
// not near its beginning. PeekID reads no more bytes than necessary.
func PeekID(message io.Reader) json.RawMessage {
	d := jsontext.NewDecoder(io.LimitReader(message, maxPeek), jsontext.AllowDuplicateNames(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil
	}
	for {
		name, err := d.ReadToken()
		if err != nil || name.Kind() != '"' {
			return nil
		}
		if name.String() != "id" {
			if d.SkipValue() != nil {
				return nil
			}
			continue
		}
		id, err := d.ReadValue()
		ended := err == nil && (id[0] == '"' || len(d.UnreadBuffer()) > 0) // a number may continue
		if !ended || !validID(json.RawMessage(id)) {
			return nil
		}
		return bytes.Clone(id)
	}
}
