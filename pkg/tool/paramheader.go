package tool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A server may ask for parameters to be repeated as HTTP headers, by the keyword
// x-mcp-header in a tool's input schema. A tool whose use of it breaks the rules is
// refused; a client that ignored the keyword would be refused by the server.

const (
	headerKeyword = "x-mcp-header"
	paramPrefix   = "Mcp-Param-"
)

// A HeaderParam is an argument that is repeated as a header.
type HeaderParam struct {
	Header string   // whole, such as Mcp-Param-Region
	path   []string // keys from the arguments down
}

// HeaderParams returns what an input schema asks for.
func HeaderParams(schema json.RawMessage) ([]HeaderParam, error) {
	if !bytes.Contains(schema, []byte(headerKeyword)) {
		return nil, nil
	}
	var found []HeaderParam
	seen := map[string]bool{}
	err := headerParamsAt(schema, nil, func(b HeaderParam) error {
		if folded := strings.ToLower(b.Header); seen[folded] {
			return fmt.Errorf("%s %q stands twice", headerKeyword, strings.TrimPrefix(b.Header, paramPrefix))
		} else {
			seen[folded] = true
		}
		found = append(found, b)
		return nil
	})
	return found, err
}

// headerParamsAt walks one schema that is reachable by properties alone.
func headerParamsAt(schema json.RawMessage, path []string, found func(HeaderParam) error) error {
	if len(path) > 32 {
		return errors.New("the schema is nested too deeply")
	}
	var kind string
	var header, properties json.RawMessage
	err := members(schema, func(name string, value json.RawMessage) error {
		switch name {
		case headerKeyword:
			header = value
		case "type":
			kind = stringOf(value)
		case "properties":
			properties = value
		case "default", "const", "enum", "examples", "example", "title", "description": // data, not schema
		default:
			if mentions(value) {
				return fmt.Errorf("%s stands where no argument can be read from", headerKeyword)
			}
		}
		return nil
	})
	if err != nil {
		if len(schema) > 0 && schema[0] != '{' {
			return nil // true and false are schemas too
		}
		return err
	}
	if header != nil {
		name := stringOf(header)
		switch {
		case len(path) == 0:
			return fmt.Errorf("%s stands on the arguments as a whole", headerKeyword)
		case !IsHeaderName(name):
			return fmt.Errorf("%s %s is not the name of a header", headerKeyword, header[:min(len(header), 64)])
		case kind != "string" && kind != "integer" && kind != "boolean":
			return fmt.Errorf("%s stands on a parameter that is no string, integer or boolean", headerKeyword)
		}
		if err := found(HeaderParam{paramPrefix + name, append([]string(nil), path...)}); err != nil {
			return err
		}
	}
	if properties == nil || properties[0] != '{' {
		return nil
	}
	return members(properties, func(name string, value json.RawMessage) error {
		return headerParamsAt(value, append(path, name), found)
	})
}

// mentions tells a schema part that uses the keyword at any depth. A property that is
// only called so is no use of it, but such a schema is not worth telling apart.
func mentions(raw json.RawMessage) bool { return bytes.Contains(raw, []byte(`"`+headerKeyword+`"`)) }

// IsHeaderName reports whether s can be the name of an HTTP header.
func IsHeaderName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// Value returns the argument as text; ok is false where there is none to send.
func (b HeaderParam) Value(arguments json.RawMessage) (s string, ok bool) {
	at := b.find(arguments)
	switch {
	case len(at) == 0:
		return "", false
	case at[0] == '"':
		return stringOf(at), true
	case string(at) == "true", string(at) == "false":
		return string(at), true
	}
	return integer(string(at))
}

// number reports whether the argument is one.
func (b HeaderParam) number(arguments json.RawMessage) bool {
	at := b.find(arguments)
	return len(at) > 0 && (at[0] == '-' || at[0] >= '0' && at[0] <= '9')
}

// find returns the argument, nil if there is none.
func (b HeaderParam) find(arguments json.RawMessage) json.RawMessage {
	at := arguments
	for _, key := range b.path {
		var next json.RawMessage
		if at == nil || members(at, func(name string, value json.RawMessage) error {
			if name == key {
				next = value
			}
			return nil
		}) != nil {
			return nil
		}
		at = next
	}
	return at
}

// integer reads a JSON number that is a whole one that every reader can hold.
func integer(s string) (string, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != float64(int64(f)) || f > 1<<53-1 || f < -(1<<53-1) {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}

// Agrees reports whether the decoded text of a header says what the argument's does. Whole
// numbers are compared as such: 42.0 is 42.
func (b HeaderParam) Agrees(header string, arguments json.RawMessage) bool {
	want, ok := b.Value(arguments)
	if !ok || header == want {
		return ok
	}
	n, isNumber := integer(header)
	return isNumber && n == want && b.number(arguments)
}

// How MCP writes into a header what is not plain.
const encodedPrefix, encodedSuffix = "=?base64?", "?="

// EncodeHeader returns s as it stands in a Mcp-Name or Mcp-Param header: as it is where that is
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

// DecodeHeader undoes [EncodeHeader]; ok is false for what no client may send.
func DecodeHeader(s string) (text string, ok bool) {
	if len(s) < len(encodedPrefix)+len(encodedSuffix) || !strings.HasPrefix(s, encodedPrefix) || !strings.HasSuffix(s, encodedSuffix) {
		return s, !strings.ContainsFunc(s, func(r rune) bool { return (r < ' ' || r > '~') && r != '\t' })
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s[len(encodedPrefix) : len(s)-len(encodedSuffix)])
	return string(b), err == nil
}

// stringOf returns the string that raw is, or "".
func stringOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
