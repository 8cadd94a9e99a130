package upstream

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

// A binding says which argument goes into which header.
type binding struct {
	path   []string // keys from the arguments down
	header string
}

// bindings returns what schema asks for.
func bindings(schema json.RawMessage) ([]binding, error) {
	if !bytes.Contains(schema, []byte(headerKeyword)) {
		return nil, nil
	}
	var found []binding
	seen := map[string]bool{}
	err := bindingsAt(schema, nil, func(b binding) error {
		if folded := strings.ToLower(b.header); seen[folded] {
			return fmt.Errorf("%s %q stands twice", headerKeyword, b.header)
		} else {
			seen[folded] = true
		}
		found = append(found, b)
		return nil
	})
	return found, err
}

// bindingsAt walks one schema that is reachable by properties alone.
func bindingsAt(schema json.RawMessage, path []string, found func(binding) error) error {
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
			kind = text(value)
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
		name := text(header)
		switch {
		case len(path) == 0:
			return fmt.Errorf("%s stands on the arguments as a whole", headerKeyword)
		case !isToken(name):
			return fmt.Errorf("%s %s is not the name of a header", headerKeyword, cut(header, 64))
		case kind != "string" && kind != "integer" && kind != "boolean":
			return fmt.Errorf("%s stands on a parameter that is no string, integer or boolean", headerKeyword)
		}
		if err := found(binding{append([]string(nil), path...), name}); err != nil {
			return err
		}
	}
	if properties == nil || properties[0] != '{' {
		return nil
	}
	return members(properties, func(name string, value json.RawMessage) error {
		return bindingsAt(value, append(path, name), found)
	})
}

// mentions tells a schema part that uses the keyword at any depth. A property that is
// only called so is no use of it, but such a schema is not worth telling apart.
func mentions(raw json.RawMessage) bool { return bytes.Contains(raw, []byte(`"`+headerKeyword+`"`)) }

// isToken tells an HTTP field name.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// value reads the binding's argument as header text; ok is false where there is none to send.
func (b binding) value(arguments json.RawMessage) (s string, ok bool) {
	at := arguments
	for _, key := range b.path {
		var next json.RawMessage
		if at == nil || members(at, func(name string, value json.RawMessage) error {
			if name == key {
				next = value
			}
			return nil
		}) != nil {
			return "", false
		}
		at = next
	}
	switch {
	case len(at) == 0:
		return "", false
	case at[0] == '"':
		return text(at), true
	case string(at) == "true", string(at) == "false":
		return string(at), true
	}
	return integer(string(at))
}

// integer reads a JSON number that is a whole one that every reader can hold.
func integer(s string) (string, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != float64(int64(f)) || f > 1<<53-1 || f < -(1<<53-1) {
		return "", false
	}
	return strconv.FormatInt(int64(f), 10), true
}

// headerText encodes s for a header: as it is where that is safe, otherwise in
// the base64 form that MCP defines for Mcp-Name and Mcp-Param headers.
func headerText(s string) string {
	const prefix, suffix = "=?base64?", "?="
	padded := s != strings.Trim(s, " \t")
	unsafe := strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
	encoded := strings.HasPrefix(s, prefix) && strings.HasSuffix(s, suffix)
	if !padded && !unsafe && !encoded {
		return s
	}
	return prefix + base64.StdEncoding.EncodeToString([]byte(s)) + suffix
}
