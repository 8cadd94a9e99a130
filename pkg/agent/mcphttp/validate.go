package mcphttp

import (
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// A shape is what a JSON value must be, as far as that is checked.
type shape struct {
	kind    byte             // its first byte; 't' for a boolean
	members map[string]shape // of an object: those that are checked
	items   *shape           // of a list
}

var (
	stringShape  = shape{kind: '"'}
	boolShape    = shape{kind: 't'}
	objectShape  = shape{kind: '{'}
	stringsShape = shape{kind: '[', items: &stringShape}
)

func object(members map[string]shape) shape { return shape{kind: '{', members: members} }

// What clients say of themselves and ask for.
var (
	icon = object(map[string]shape{"src": stringShape, "mimeType": stringShape, "theme": stringShape, "sizes": stringsShape})

	implementation = object(map[string]shape{
		"name": stringShape, "title": stringShape, "description": stringShape, "version": stringShape, "websiteUrl": stringShape, "icons": {kind: '[', items: &icon},
	})
	clientCapabilities = object(map[string]shape{
		"experimental": objectShape, "extensions": objectShape,
		"roots":       object(map[string]shape{"listChanged": boolShape}),
		"sampling":    object(map[string]shape{"context": objectShape, "tools": objectShape}),
		"elicitation": object(map[string]shape{"form": objectShape, "url": objectShape}),
	})
	subscriptions = object(map[string]shape{
		"toolsListChanged": boolShape, "promptsListChanged": boolShape, "resourcesListChanged": boolShape, "resourceSubscriptions": stringsShape,
	})
)

// given reports whether there is a value other than null.
func given(value json.RawMessage) bool { return value != nil && string(value) != "null" }

// fits reports whether a value has the shape. One that is not given has every shape.
func (s shape) fits(value json.RawMessage) bool {
	if !given(value) {
		return true
	}
	kind := value[0]
	if kind == 'f' {
		kind = boolShape.kind
	}
	if kind != s.kind {
		return false
	}
	if s.members != nil {
		o, _ := rawjson.Split(value, rawjson.Lenient) // it was split before
		for _, m := range o {
			if want, checked := s.members[m.Name]; checked && !want.fits(m.Value) {
				return false
			}
		}
	}
	if s.items != nil {
		list, _ := rawjson.Elements(value) // it was split before
		for _, item := range list {
			if !s.items.fits(item) {
				return false
			}
		}
	}
	return true
}
