package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDefinition is the longest definition that is taken, in bytes.
const MaxDefinition = 128 << 10

// A Definition is what a server says of one of its tools. Raw is the whole
// JSON object exactly as it came; the other fields are read out of it, the
// schemas as sub-slices with their bytes untouched.
type Definition struct {
	Raw          json.RawMessage
	Name         string
	Title        string
	Description  string
	InputSchema  json.RawMessage // nil if absent
	OutputSchema json.RawMessage // nil if absent
	Annotations  Annotations
	Hash         Hash // of Raw; "" after [ReadDefinition]
}

// A Hash is the lower-case hex SHA-256 of a definition's canonical form.
// Two definitions with one hash mean the same to an agent. Fields that this program
// does not know are covered like the others: a client that knows them reads them.
type Hash string

// ParseDefinition reads a definition that came from a server and keeps raw as it is,
// without a copy. It refuses what two JSON readers could understand in two ways: a key
// that stands twice in an object at any depth, invalid UTF-8, a lone surrogate; and a
// name that [ValidName] refuses, a field of the wrong type, more than [MaxDefinition] bytes.
func ParseDefinition(raw []byte) (Definition, error) {
	if len(raw) > MaxDefinition {
		return Definition{}, fmt.Errorf("definition has %d bytes, at most %d are allowed", len(raw), MaxDefinition)
	}
	canonical, err := CanonicalJSON(raw)
	if err != nil {
		return Definition{}, fmt.Errorf("definition: %w", err)
	}
	d, err := ReadDefinition(raw)
	if err != nil {
		return Definition{}, err
	}
	sum := sha256.Sum256(canonical)
	d.Hash = Hash(hex.EncodeToString(sum[:]))
	return d, nil
}

// ReadDefinition is [ParseDefinition] for a definition that ParseDefinition has accepted
// before, such as one in a stored catalog: it checks no more than it needs to read, and
// does not work out the hash.
func ReadDefinition(raw []byte) (Definition, error) {
	d := Definition{Raw: raw}
	err := members(raw, func(key string, value json.RawMessage) error {
		switch key {
		case "name":
			return readString(key, value, &d.Name)
		case "title":
			return readString(key, value, &d.Title)
		case "description":
			return readString(key, value, &d.Description)
		case "inputSchema":
			return readObject(key, value, &d.InputSchema)
		case "outputSchema":
			return readObject(key, value, &d.OutputSchema)
		case "annotations":
			return readAnnotations(value, &d.Annotations)
		}
		return nil
	})
	if err != nil {
		return Definition{}, fmt.Errorf("definition: %w", err)
	}
	if err := ValidName(d.Name); err != nil {
		return Definition{}, fmt.Errorf("definition: %w", err)
	}
	return d, nil
}

// readAnnotations goes by exact key: encoding/json would fold case, and take a
// "READONLYHINT" that no client reads for the hint that opens the read tier.
func readAnnotations(raw json.RawMessage, a *Annotations) error {
	var object json.RawMessage
	if err := readObject("annotations", raw, &object); err != nil || object == nil {
		return err
	}
	return members(object, func(key string, value json.RawMessage) error {
		switch key {
		case "title":
			return readString("annotations.title", value, &a.Title)
		case "readOnlyHint":
			return readBool(key, value, &a.ReadOnlyHint)
		case "destructiveHint":
			return readBool(key, value, &a.DestructiveHint)
		case "idempotentHint":
			return readBool(key, value, &a.IdempotentHint)
		case "openWorldHint":
			return readBool(key, value, &a.OpenWorldHint)
		}
		return nil
	})
}

var errNotObject = errors.New("not a JSON object")

// members calls f with each member of a JSON object, in the order in which
// they stand. The value is a sub-slice of raw. A key that stands twice comes twice.
func members(raw []byte, f func(key string, value json.RawMessage) error) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != jsontext.KindBeginObject {
		return errNotObject
	}
	for d.PeekKind() != jsontext.KindEndObject {
		t, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := t.String()
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		end := int(d.InputOffset())
		if err := f(name, raw[end-len(value):end:end]); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errNotObject
	}
	return nil
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

func readString(key string, raw json.RawMessage, to *string) error {
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("%q is not a string", key)
	}
	return nil
}

func readBool(key string, raw json.RawMessage, to **bool) error {
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("annotation %q is not a boolean", key)
	}
	return nil
}

func readObject(key string, raw json.RawMessage, to *json.RawMessage) error {
	switch {
	case isNull(raw):
		return nil
	case raw[0] != '{':
		return fmt.Errorf("%q is not an object", key)
	}
	*to = raw
	return nil
}
