package tool

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gowebpki/jcs"
)

// CanonicalJSON returns raw in the canonical form of RFC 8785.
func CanonicalJSON(raw []byte) ([]byte, error) {
	if !json.Valid(raw) {
		return nil, errors.New("not valid JSON")
	}
	out, err := jcs.Transform(raw)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	return out, nil
}
