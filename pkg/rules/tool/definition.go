package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// MaxDefinition is the longest definition that is taken, in bytes.
const MaxDefinition = 128 << 10

// MaxDepth is how many levels a definition may be nested. Those that people write have about ten. No
// reader reads hundreds, and what is shown of each level takes more the deeper it is.
const MaxDepth = 200

// CheckDepth returns an error if a definition is nested deeper than [MaxDepth].
func CheckDepth(raw []byte) error {
	if depth := rawjson.Depth(raw); depth > MaxDepth {
		return fmt.Errorf("%w: it has %d levels, at most %d are allowed", ErrNested, depth, MaxDepth)
	}
	return nil
}

// ErrNested says that a definition is nested too deeply. Nobody can approve or call it; its server has
// to list another one.
var ErrNested = errors.New("nested too deeply")

// A Definition is what a server says of one of its items. Raw is the whole
// JSON object exactly as it came; the other fields are read out of it, the
// schemas as sub-slices with their bytes untouched.
type Definition struct {
	Raw         json.RawMessage
	Kind        Kind
	Name        string // of a resource, any text: its URI identifies it
	Title       string
	Description string
	Hash        Hash // of Raw; "" after [ReadDefinition] and [ReadItem]

	// Of a tool.
	InputSchema  json.RawMessage // nil if absent
	OutputSchema json.RawMessage // nil if absent
	Annotations  Annotations

	Arguments json.RawMessage // of a prompt: see [ReadArguments]; nil if absent

	// Of a resource.
	URI      string // or the URI template
	Template bool   // URI is a template
	MIMEType string
}

// ID returns the id of the item that d defines, as one of the server's.
func (d Definition) ID(server string) ID {
	if d.Kind == Resource {
		return ID{server, d.URI, Resource}
	}
	return ID{server, d.Name, d.Kind}
}

// A Hash is the lower-case hex SHA-256 of a definition's canonical form.
// Two definitions with one hash mean the same to an agent. Fields that this program
// does not know are covered like the others: a client that knows them reads them. Of a
// resource, what changes with its content is not covered.
type Hash string

// Sum returns the SHA-256 that h stands for; ok is false if h is not written as hashes are.
func (h Hash) Sum() (sum [sha256.Size]byte, ok bool) {
	n, err := hex.Decode(sum[:], []byte(h)[:min(len(h), 2*sha256.Size)])
	return sum, err == nil && n == sha256.Size && hex.EncodeToString(sum[:]) == string(h)
}

// ParseItem reads a definition that came from a server and keeps raw as it is,
// without a copy. It refuses what two JSON readers could understand in two ways: a key
// that stands twice in an object at any depth, invalid UTF-8, a lone surrogate; and a
// name that [ValidName] refuses, or a URI that [ValidURI] does, a field of the wrong type,
// more than [MaxDefinition] bytes.
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

// KeptItem is [ReadItem] for people to look at: of a definition that was damaged since it
// was accepted it returns the bytes alone.
func KeptItem(kind Kind, raw []byte) Definition {
	if d, err := ReadItem(kind, raw); err == nil {
		return d
	}
	return Definition{Raw: raw, Kind: kind}
}

// ReadItem is [ParseItem] for a definition that ParseItem has accepted
// before, such as one in a stored catalog: it checks no more than it needs to read, and
// does not work out the hash.
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
