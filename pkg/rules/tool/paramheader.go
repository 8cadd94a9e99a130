package tool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// A server may require that clients repeat parameters as HTTP headers, with the keyword
// x-mcp-header in a tool's input schema. A tool that breaks the keyword's rules is refused: the
// server would refuse a client that ignores the keyword.

const (
	headerKeyword = "x-mcp-header"
	paramPrefix   = "Mcp-Param-"
)

// A HeaderParam is an argument that is repeated as a header.
type HeaderParam struct {
	Header string   // whole, such as Mcp-Param-Region
	path   []string // keys from the arguments down
}

// HeaderParams returns the parameters that an input schema requires as headers.
func HeaderParams(schema json.RawMessage) (found []HeaderParam, err error) {
	if bytes.Contains(schema, []byte(headerKeyword)) {
		err = headerParamsAt(schema, nil, &found)
	}
	return found, err
}

// headerParamsAt walks one schema that is reachable only by properties.
func headerParamsAt(schema json.RawMessage, path []string, found *[]HeaderParam) error {
	if len(path) > 32 {
		return errors.New("the schema is nested too deeply")
	}
	o, err := rawjson.Split(schema, rawjson.Lenient)
	if errors.Is(err, rawjson.ErrNotObject) {
		return nil // true and false are schemas, too
	}
	if err != nil {
		return err
	}
	for _, m := range o {
		switch m.Name {
		case headerKeyword, "type", "properties":
		case "default", "const", "enum", "examples", "example", "title", "description": // data, not schema
		default:
			// A property may have this name without being the keyword, but such rare schemas are
			// refused, too.
			if bytes.Contains(m.Value, []byte(`"`+headerKeyword+`"`)) {
				return fmt.Errorf("%s is where no argument can be read from", headerKeyword)
			}
		}
	}
	if header := o.Get(headerKeyword); header != nil {
		name, kind := rawjson.Text(header), rawjson.Text(o.Get("type"))
		p := HeaderParam{paramPrefix + name, slices.Clone(path)}
		switch {
		case len(path) == 0:
			return fmt.Errorf("%s is on the arguments as a whole", headerKeyword)
		case !IsHeaderName(name):
			return fmt.Errorf("%s %s is not the name of a header", headerKeyword, text.Clip(string(header), 64))
		case kind != "string" && kind != "integer" && kind != "boolean":
			return fmt.Errorf("%s is on a parameter that is not a string, integer or boolean", headerKeyword)
		case slices.ContainsFunc(*found, func(other HeaderParam) bool { return strings.EqualFold(other.Header, p.Header) }):
			return fmt.Errorf("%s %q is used twice", headerKeyword, name)
		}
		*found = append(*found, p)
	}
	properties, err := rawjson.Split(o.Get("properties"), rawjson.Lenient)
	if err != nil {
		return nil //nolint:nilerr // no object: no properties
	}
	for _, p := range properties {
		if err := headerParamsAt(p.Value, append(path, p.Name), found); err != nil {
			return err
		}
	}
	return nil
}

// IsHeaderName reports whether s is a valid name of an HTTP header: a token of RFC 9110.
func IsHeaderName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// Value returns the argument as text; ok is false if there is no value to send.
func (b HeaderParam) Value(arguments json.RawMessage) (s string, ok bool) {
	switch at := b.find(arguments); at.Kind() {
	case '"':
		return rawjson.Text(at), true
	case 't', 'f':
		return string(at), true
	default:
		return integer(string(at))
	}
}

// find returns the argument, nil if there is none.
func (b HeaderParam) find(arguments json.RawMessage) jsontext.Value {
	for _, key := range b.path {
		arguments = rawjson.Get(arguments, key)
	}
	return jsontext.Value(arguments)
}

// integer reads a JSON number that is whole and that every reader can represent exactly.
func integer(s string) (string, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != float64(int64(f)) || f > 1<<53-1 || f < -(1<<53-1) {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}

// Agrees reports whether the decoded text of a header equals the argument. It compares whole
// numbers by value: 42.0 equals 42.
func (b HeaderParam) Agrees(header string, arguments json.RawMessage) bool {
	want, ok := b.Value(arguments)
	if !ok || header == want {
		return ok
	}
	n, isNumber := integer(header)
	return isNumber && n == want && b.find(arguments).Kind() == '0'
}

// The markers around a base64 value in an MCP header.
const encodedPrefix, encodedSuffix = "=?base64?", "?="

// EncodeHeader returns s in the form for a Mcp-Name or Mcp-Param header: unchanged if that is
// safe, otherwise as base64.
func EncodeHeader(s string) string {
	padded := s != strings.Trim(s, " \t")
	unsafe := strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
	encoded := strings.HasPrefix(s, encodedPrefix) && strings.HasSuffix(s, encodedSuffix)
	if !padded && !unsafe && !encoded {
		return s
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(s)) + encodedSuffix
}

// DecodeHeader reverses [EncodeHeader]; ok is false for a value that no client may send.
func DecodeHeader(s string) (text string, ok bool) {
	if len(s) < len(encodedPrefix)+len(encodedSuffix) || !strings.HasPrefix(s, encodedPrefix) || !strings.HasSuffix(s, encodedSuffix) {
		return s, !strings.ContainsFunc(s, func(r rune) bool { return (r < ' ' || r > '~') && r != '\t' })
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s[len(encodedPrefix) : len(s)-len(encodedSuffix)])
	return string(b), err == nil
}
