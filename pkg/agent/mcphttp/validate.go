package mcphttp

import (
	"encoding/json"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// A shape describes the checked parts of a JSON value.
type shape struct {
	kind    byte             // first byte of the value; 't' for a boolean
	members map[string]shape // the checked members of an object
	items   *shape           // of a list
}

var (
	stringShape  = shape{kind: '"'}
	boolShape    = shape{kind: 't'}
	objectShape  = shape{kind: '{'}
	stringsShape = shape{kind: '[', items: &stringShape}
)

func object(members map[string]shape) shape { return shape{kind: '{', members: members} }

// The shapes of client info and client capabilities.
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
		"taskIds": stringsShape,
	})
)

// isPresent reports whether there is a value other than null.
func isPresent(value json.RawMessage) bool { return value != nil && string(value) != "null" }

// fits reports whether a value has the shape. An absent value fits every shape.
func (s shape) fits(value json.RawMessage) bool {
	if !isPresent(value) {
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
		o, _ := rawjson.Split(value, rawjson.Lenient) // cannot fail: the message was parsed before
		for _, m := range o {
			if want, checked := s.members[m.Name]; checked && !want.fits(m.Value) {
				return false
			}
		}
	}
	if s.items != nil {
		list, _ := rawjson.Elements(value) // cannot fail: the message was parsed before
		for _, item := range list {
			if !s.items.fits(item) {
				return false
			}
		}
	}
	return true
}
