package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// MaxURI is the longest URI of a resource, or URI template, in bytes.
const MaxURI = 2048

// An Argument is an argument of a prompt.
type Argument struct {
	Name        string
	Title       string
	Description string
	Required    bool
}

// Types of unused fields are checked, too: some clients refuse a whole list because of one wrong
// type.

// readPrompt reads a prompt. Its name follows the rules for tools, because agents see it before
// anybody approved it.
func (d *Definition) readPrompt(o rawjson.Object) error {
	err := read(o, "", map[string]any{
		"name": &d.Name, "title": &d.Title, "description": &d.Description, "icons": new([]json.RawMessage),
	})
	if err != nil {
		return err
	}
	if d.Arguments = o.Get("arguments"); string(d.Arguments) == "null" {
		d.Arguments = nil
	}
	if _, err := ReadArguments(d.Arguments); err != nil {
		return err
	}
	return validName(Prompt, d.Name)
}

// ReadArguments reads the arguments of a prompt, which are a list of objects or nil. It refuses a
// field of the wrong type, an argument without a name, and two arguments of the same name.
func ReadArguments(list json.RawMessage) (out []Argument, err error) {
	if list == nil {
		return nil, nil
	}
	elements, err := rawjson.Elements(list)
	if err != nil {
		return nil, errors.New(`"arguments" is not a list`)
	}
	names := make(map[string]bool, len(elements))
	for i, raw := range elements {
		var a Argument
		var required *bool
		within := fmt.Sprintf("arguments[%d].", i)
		o, err := rawjson.Split(raw, rawjson.Lenient)
		if err != nil {
			return nil, fmt.Errorf("%q is not an object", strings.TrimSuffix(within, "."))
		}
		err = read(o, within, map[string]any{"name": &a.Name, "title": &a.Title, "description": &a.Description, "required": &required})
		switch {
		case err != nil:
			return nil, err
		case a.Name == "":
			return nil, fmt.Errorf("%q is missing", within+"name")
		case names[a.Name]:
			return nil, fmt.Errorf("two arguments have the name %s", text.Quote(a.Name, 32))
		}
		names[a.Name] = true
		a.Required = required != nil && *required
		out = append(out, a)
	}
	return out, nil
}

// readResource reads a resource, or a resource template.
func (d *Definition) readResource(o rawjson.Object) error {
	var uri, template string
	err := read(o, "", map[string]any{
		"name": &d.Name, "title": &d.Title, "description": &d.Description,
		"uri": &uri, "uriTemplate": &template, "mimeType": &d.MIMEType,
		"size": new(float64), "icons": new([]json.RawMessage),
		"annotations": map[string]any{"audience": new([]string), "priority": new(float64), "lastModified": new(string)},
	})
	switch {
	case err != nil:
		return err
	case d.Name == "":
		return errors.New(`"name" is missing`)
	case uri != "" && template != "":
		return errors.New(`it has both "uri" and "uriTemplate"`)
	}
	if d.URI, d.Template = uri, false; template != "" {
		d.URI, d.Template = template, true
	}
	if err := ValidURI(d.URI); err != nil {
		return err
	}
	if d.Template {
		return validTemplate(d.URI)
	}
	if scheme, _, ok := strings.Cut(d.URI, ":"); !ok || !isScheme(scheme) {
		return fmt.Errorf("URI %s has no scheme", text.Quote(d.URI, 64))
	}
	return nil
}

// ValidURI returns an error if s is empty, longer than [MaxURI] bytes, not valid UTF-8, or has
// white space or invisible characters: agents see a URI before anybody approved it.
func ValidURI(s string) error {
	switch {
	case s == "":
		return errors.New("URI is empty")
	case len(s) > MaxURI:
		return fmt.Errorf("URI %s has %d bytes, at most %d are allowed", text.Quote(s, 64), len(s), MaxURI)
	case !utf8.ValidString(s):
		return fmt.Errorf("URI %s is not valid UTF-8", text.Quote(s, 64))
	}
	hidden := strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) })
	for range text.Hidden(s) {
		hidden = true
	}
	if hidden {
		return fmt.Errorf("URI %s has white space or a character that does not show", text.Quote(s, 64))
	}
	return nil
}

// isScheme reports whether s is the scheme of a URI by RFC 3986.
func isScheme(s string) bool {
	for i, r := range s {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		other := '0' <= r && r <= '9' || strings.ContainsRune("+-.", r)
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return s != ""
}

// lasting returns the canonical form of a resource without the members that change with its
// content: its size, and its time of modification. Nobody approves these members. If they counted,
// each write to a file would need a new approval.
func lasting(canonical []byte) ([]byte, error) {
	o, err := rawjson.Split(canonical, rawjson.Strict)
	if err != nil {
		return nil, fmt.Errorf("definition: %w", err)
	}
	changed := o.Delete("size")
	if i := slices.IndexFunc(o, func(m rawjson.Member) bool { return m.Name == "annotations" }); i >= 0 {
		if a, err := rawjson.Split(o[i].Value, rawjson.Strict); err == nil && a.Delete("lastModified") {
			changed = true
			o[i] = rawjson.Member{Name: "annotations", Value: a.Bytes()}
			if len(a) == 0 {
				o.Delete("annotations")
			}
		}
	}
	if !changed {
		return canonical, nil
	}
	return o.Bytes(), nil
}
