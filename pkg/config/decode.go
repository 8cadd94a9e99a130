package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A located fault waits for its line and column.
type located struct {
	offset  int
	path    string
	message string
}

// A checker collects the faults of one file.
type checker struct {
	faults   []located
	warnings []located
}

// fault reports what is wrong with n. Only the first fault of a node counts:
// the rest would be its echo.
func (c *checker) fault(n *node, path, format string, args ...any) {
	if n.bad {
		return
	}
	n.bad = true
	c.faults = append(c.faults, located{n.offset, path, fmt.Sprintf(format, args...)})
}

// faultAt reports what is wrong at an offset.
func (c *checker) faultAt(offset int, path, format string, args ...any) {
	c.faults = append(c.faults, located{offset, path, fmt.Sprintf(format, args...)})
}

// warn reports what is allowed and looks wrong.
func (c *checker) warn(n *node, path, message string) {
	c.warnings = append(c.warnings, located{n.offset, path, message})
}

// decode reads n into v, which is of the types in file.go. It reports wrong
// types, unknown names and duplicate names, and goes on.
func (c *checker) decode(n *node, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		c.decode(n, path, v.Elem())
	case reflect.Struct:
		if c.want(n, path, '{') {
			c.decodeStruct(n, path, v)
		}
	case reflect.Map:
		if c.want(n, path, '{') {
			c.decodeMap(n, path, v)
		}
	case reflect.Slice:
		if c.want(n, path, '[') {
			v.Set(reflect.MakeSlice(v.Type(), len(n.elems), len(n.elems)))
			for i, elem := range n.elems {
				c.decode(elem, index(path, i), v.Index(i))
			}
		}
	case reflect.String:
		if c.want(n, path, '"') {
			v.SetString(n.text)
		}
	case reflect.Bool:
		if c.want(n, path, 't') {
			v.SetBool(n.kind == 't')
		}
	default:
		panic("config: no decoder for " + v.Type().String()) // a type in file.go that this switch does not know
	}
}

// want reports whether n is of a kind, and a fault if not.
func (c *checker) want(n *node, path string, kind jsontext.Kind) bool {
	if n.kind == kind || kind == 't' && n.kind == 'f' {
		return true
	}
	c.fault(n, path, "want %s, found %s", kindName(kind), kindName(n.kind))
	return false
}

func (c *checker) decodeStruct(n *node, path string, v reflect.Value) {
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = v.Field(i)
	}
	stdio := v.Type() == reflect.TypeFor[fileServer]() && n.member("command") != nil
	for _, m := range c.unique(n, path) {
		if field, ok := fields[m.name]; ok {
			c.decode(m.value, JoinPath(path, m.name), field)
		} else if !stdio { // a stdio server is one fault, not one for each of its keys
			c.faultAt(m.offset, JoinPath(path, m.name), "unknown key%s", hint(m.name, fields))
		}
	}
}

func (c *checker) decodeMap(n *node, path string, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	for _, m := range c.unique(n, path) {
		value := reflect.New(v.Type().Elem()).Elem()
		c.decode(m.value, JoinPath(path, m.name), value)
		v.SetMapIndex(reflect.ValueOf(m.name), value)
	}
}

// unique returns the members of n, the first of each name, and reports the others.
func (c *checker) unique(n *node, path string) []member {
	var first []member
	seen := map[string]bool{}
	for _, m := range n.members {
		if seen[m.name] {
			c.faultAt(m.offset, JoinPath(path, m.name), "duplicate key")
			continue
		}
		seen[m.name] = true
		first = append(first, m)
	}
	n.members = first // who comes later need not see duplicates again
	return first
}

// hint suggests the key that was meant, if it is plain: one spelt another way,
// or one that other programs' configs use.
func hint(name string, fields map[string]reflect.Value) string {
	fold := strings.NewReplacer("_", "", "-", "")
	for field := range fields {
		if strings.EqualFold(fold.Replace(field), fold.Replace(name)) {
			return "; write " + field
		}
	}
	to, note := "", ""
	switch name {
	case "servers":
		to = "mcpServers"
	case "serverUrl", "httpUrl", "endpoint":
		to = "url"
	case "disabled":
		to, note = "enabled", " with the opposite value"
	}
	if _, ok := fields[to]; !ok {
		return ""
	}
	return "; write " + to + note
}
