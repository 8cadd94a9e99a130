package stop

import (
	"encoding/json"
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
)

// Encode returns s at its next revision, and its stored form.
func (s Stops) Encode() (next Stops, data []byte, err error) {
	if err := s.Check(); err != nil {
		return Stops{}, nil, err
	}
	s.Rev++
	if data, err = json.Marshal(s); err == nil && len(data) > maxDoc {
		err = ErrFull
	}
	return s, data, err
}

// Decode reads what Encode wrote. It refuses a document that it does not understand, because a stop
// of a newer program must not be ignored.
func Decode(data []byte) (s Stops, err error) {
	if err = json.Unmarshal(data, &s); err == nil {
		err = s.Check()
	}
	if err == nil && s.Rev < 1 {
		err = fmt.Errorf("revision %d", s.Rev)
	}
	if err != nil {
		return Stops{}, fmt.Errorf("stored stops: %w", err)
	}
	return s, nil
}

// DecodeDoc returns the stops of the document of [Key]. An absent document has none.
func DecodeDoc(d document.Doc) (s Stops, err error) {
	if d.Rev == 0 {
		return Stops{}, nil
	}
	if s, err = Decode(d.Data); err == nil {
		s.Rev = d.Rev
	}
	return s, err
}
