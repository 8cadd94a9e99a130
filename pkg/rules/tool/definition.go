package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// MaxDefinition is the longest accepted definition, in bytes.
const MaxDefinition = 128 << 10

// MaxDepth is how many levels a definition may be nested. Definitions by people have about ten
// levels. Nobody reads hundreds, and deeper levels take more space to show.
const MaxDepth = 200

// CheckDepth returns an error if a definition is nested deeper than [MaxDepth].
func CheckDepth(raw []byte) error {
	if depth := rawjson.Depth(raw); depth > MaxDepth {
		return fmt.Errorf("%w: it has %d levels, at most %d are allowed", ErrNested, depth, MaxDepth)
	}
	return nil
}

// ErrNested says that a definition is nested too deeply. Nobody can approve or call it; its server
// has to list a different one.
var ErrNested = errors.New("nested too deeply")

// A Definition is a server's description of one of its items. Raw is the whole JSON object as
// received; the other fields are parsed from it, the schemas as sub-slices with unchanged bytes.
type Definition struct {
	Raw         json.RawMessage
	Kind        Kind
	Name        string // a resource may have any name: its URI identifies it
	Title       string
	Description string
	Hash        Hash // of Raw; "" after [ReadDefinition] and [ReadItem]

	// Members of a tool.
	InputSchema  json.RawMessage // nil if absent
	OutputSchema json.RawMessage // nil if absent
	Annotations  Annotations

	Arguments json.RawMessage // of a prompt: see [ReadArguments]; nil if absent

	// Members of a resource.
	URI      string // or the URI template
	Template bool   // URI is a template
	MIMEType string
}

// ID returns the id of d's item at the server.
func (d Definition) ID(server string) ID {
	if d.Kind == Resource {
		return ID{server, d.URI, Resource}
	}
	return ID{server, d.Name, d.Kind}
}

// A Hash is the lower-case hex SHA-256 of a definition's canonical form. Two definitions with the
// same hash mean the same to an agent. The hash also covers fields that this program does not know,
// because clients may know them. It does not cover members of a resource that change with its
// content.
type Hash string

// Sum returns the SHA-256 in h; ok is false if h does not have the form of a hash.
func (h Hash) Sum() (sum [sha256.Size]byte, ok bool) {
	n, err := hex.Decode(sum[:], []byte(h)[:min(len(h), 2*sha256.Size)])
	return sum, err == nil && n == sha256.Size && hex.EncodeToString(sum[:]) == string(h)
}

// ParseItem reads a definition from a server and keeps raw unchanged, without a copy. It refuses
// what two JSON readers could understand differently: a duplicate key in an object at any depth,
// invalid UTF-8, a lone surrogate. It also refuses a name that [ValidName] refuses, a URI that
// [ValidURI] refuses, a field of the wrong type, and more than [MaxDefinition] bytes.
func ParseItem(kind Kind, raw []byte) (Definition, error) {
	if len(raw) > MaxDefinition {
		return Definition{}, fmt.Errorf("definition has %d bytes, at most %d are allowed", len(raw), MaxDefinition)
	}
	canonical, err := Canonical(raw)
	if err != nil {
		return Definition{}, fmt.Errorf("definition: %w", err)
	}
	d, err := ReadItem(kind, raw)
	if err == nil && kind == Resource {
		canonical, err = lasting(canonical)
	}
	if err != nil {
		return Definition{}, err
	}
	sum := sha256.Sum256(canonical)
	d.Hash = Hash(hex.EncodeToString(sum[:]))
	return d, nil
}

// KeptItem is [ReadItem] for display: if a definition was damaged after it was accepted, KeptItem
// returns only the bytes.
func KeptItem(kind Kind, raw []byte) Definition {
	if d, err := ReadItem(kind, raw); err == nil {
		return d
	}
	return Definition{Raw: raw, Kind: kind}
}

// ReadItem is [ParseItem] for a definition that ParseItem accepted before, such as one in a stored
// catalog: it makes only the checks that reading needs, and does not compute the hash.
func ReadItem(kind Kind, raw []byte) (d Definition, err error) {
	o, err := rawjson.Split(raw, rawjson.Lenient, "annotations")
	if err == nil {
		switch d = (Definition{Raw: raw, Kind: kind}); kind {
		case Tool:
			err = d.readTool(o)
		case Prompt:
			err = d.readPrompt(o)
		case Resource:
			err = d.readResource(o)
		default:
			err = fmt.Errorf("%q is no kind of item", kind)
		}
	}
	if err != nil {
		return Definition{}, fmt.Errorf("definition: %w", err)
	}
	return d, nil
}

func (d *Definition) readTool(o rawjson.Object) error {
	a := &d.Annotations
	err := read(o, "", map[string]any{
		"name": &d.Name, "title": &d.Title, "description": &d.Description,
		"inputSchema": &d.InputSchema, "outputSchema": &d.OutputSchema,
		"annotations": map[string]any{
			"title": &a.Title, "readOnlyHint": &a.ReadOnlyHint, "destructiveHint": &a.DestructiveHint,
			"idempotentHint": &a.IdempotentHint, "openWorldHint": &a.OpenWorldHint,
		},
	})
	if err != nil {
		return err
	}
	return ValidName(d.Name)
}

// read sets the fields that an object has members for; a null sets nothing. Names must match
// exactly. encoding/json would ignore case, and would accept "READONLYHINT", which no client
// reads, as the hint of the read tier.
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
		case *float64:
			kind, ok = "a number", json.Unmarshal(m.Value, to) == nil
		case *[]string:
			kind, ok = "a list of strings", json.Unmarshal(m.Value, to) == nil
		case *[]json.RawMessage:
			kind, ok = "a list", json.Unmarshal(m.Value, to) == nil
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
