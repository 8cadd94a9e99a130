package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
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

// Sum returns the SHA-256 that h stands for; ok is false if h is not written as hashes are.
func (h Hash) Sum() (sum [sha256.Size]byte, ok bool) {
	n, err := hex.Decode(sum[:], []byte(h)[:min(len(h), 2*sha256.Size)])
	return sum, err == nil && n == sha256.Size && hex.EncodeToString(sum[:]) == string(h)
}

// ParseDefinition reads a definition that came from a server and keeps raw as it is,
// without a copy. It refuses what two JSON readers could understand in two ways: a key
// that stands twice in an object at any depth, invalid UTF-8, a lone surrogate; and a
// name that [ValidName] refuses, a field of the wrong type, more than [MaxDefinition] bytes.
func ParseDefinition(raw []byte) (Definition, error) {
	if len(raw) > MaxDefinition {
		return Definition{}, fmt.Errorf("definition has %d bytes, at most %d are allowed", len(raw), MaxDefinition)
	}
	canonical, err := Canonical(raw)
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

// KeptDefinition is [ReadDefinition] for people to look at: of a definition that was damaged since it
// was accepted it returns the bytes alone.
func KeptDefinition(raw []byte) Definition {
	if d, err := ReadDefinition(raw); err == nil {
		return d
	}
	return Definition{Raw: raw}
}

// ReadDefinition is [ParseDefinition] for a definition that ParseDefinition has accepted
// before, such as one in a stored catalog: it checks no more than it needs to read, and
// does not work out the hash.
func ReadDefinition(raw []byte) (Definition, error) {
	d := Definition{Raw: raw}
	o, err := rawjson.Split(raw, rawjson.Lenient, "annotations")
	if err == nil {
		a := &d.Annotations
		err = read(o, "", map[string]any{
			"name": &d.Name, "title": &d.Title, "description": &d.Description,
			"inputSchema": &d.InputSchema, "outputSchema": &d.OutputSchema,
			"annotations": map[string]any{
				"title": &a.Title, "readOnlyHint": &a.ReadOnlyHint, "destructiveHint": &a.DestructiveHint,
				"idempotentHint": &a.IdempotentHint, "openWorldHint": &a.OpenWorldHint,
			},
		})
	}
	if err == nil {
		err = ValidName(d.Name)
	}
	if err != nil {
		return Definition{}, fmt.Errorf("definition: %w", err)
	}
	return d, nil
}

// read sets the fields that an object has members for; a null sets nothing. It goes by exact
// names: encoding/json would fold case, and take a "READONLYHINT" that no client reads for
// the hint that opens the read tier.
func read(o rawjson.Object, within string, fields map[string]any) error {
	for _, m := range o {
		to, ok := fields[m.Name]
		if !ok || string(m.Value) == "null" {
			continue
		}
		kind := "an object"
		switch to := to.(type) {
		case *string:
			kind, ok = "a string", json.Unmarshal(m.Value, to) == nil
		case **bool:
			kind, ok = "a boolean", json.Unmarshal(m.Value, to) == nil
		case *json.RawMessage:
			*to, ok = m.Value, m.Value[0] == '{'
		case map[string]any:
			ok = m.Value[0] == '{'
			if err := read(m.Members, within+m.Name+".", to); err != nil {
				return err
			}
		}
		if !ok {
			return fmt.Errorf("%q is not %s", within+m.Name, kind)
		}
	}
	return nil
}
