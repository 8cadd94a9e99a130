package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// A located fault has an offset, and gets its line and column later.
type located struct {
	offset  int
	path    string
	message string
}

// maxFaults is the maximum number of listed faults: more than anybody reads, and few enough for one
// line of the log.
const maxFaults = 1000

// A checker collects the faults of one file.
type checker struct {
	faults   []located
	found    int // all faults
	warnings []located
	fields   map[reflect.Type]map[string]int // results of fieldsOf
	bad      map[*rawjson.Node]bool          // these nodes have a fault, so nothing else in them is checked
}

// fault reports a fault of n. It keeps only the first fault of a node, because later faults
// follow from the first.
func (c *checker) fault(n *rawjson.Node, path, format string, args ...any) {
	if c.bad[n] {
		return
	}
	c.bad[n] = true
	c.faultAt(n.Offset, path, format, args...)
}

// faultAt reports a fault at an offset.
func (c *checker) faultAt(offset int, path, format string, args ...any) {
	if c.found++; c.found <= maxFaults {
		c.faults = append(c.faults, located{offset, path, fmt.Sprintf(format, args...)})
	}
}

// warn reports something that is allowed and looks wrong.
func (c *checker) warn(n *rawjson.Node, path, message string) {
	if len(c.warnings) < maxFaults {
		c.warnings = append(c.warnings, located{n.Offset, path, message})
	}
}

// decode reads n into v, which has one of the types in file.go. It reports wrong types, unknown
// names and duplicate names, and continues.
func (c *checker) decode(n *rawjson.Node, path string, v reflect.Value) {
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
			v.Set(reflect.MakeSlice(v.Type(), len(n.Kids), len(n.Kids)))
			for i, elem := range n.Kids {
				c.decode(elem, index(path, i), v.Index(i))
			}
		}
	case reflect.String:
		if c.want(n, path, '"') {
			v.SetString(n.Text)
		}
	case reflect.Bool:
		if c.want(n, path, 't') {
			v.SetBool(n.Kind == 't')
		}
	case reflect.Int, reflect.Int64:
		if c.want(n, path, '0') {
			v.SetInt(c.integer(n, path))
		}
	default:
		panic("config: no decoder for " + v.Type().String()) // a type in file.go that this switch does not know
	}
}

// integer returns the whole number in n. It reports a fault if n is not a whole number, or is too
// large.
func (c *checker) integer(n *rawjson.Node, path string) int64 {
	i, err := strconv.ParseInt(n.Text, 10, 32)
	if err != nil {
		c.fault(n, path, "is not a whole number, or is too large")
	}
	return i
}

// want reports whether n is of the kind, and adds a fault if not.
func (c *checker) want(n *rawjson.Node, path string, kind jsontext.Kind) bool {
	if n.Kind == kind || kind == 't' && n.Kind == 'f' {
		return true
	}
	meant := ""
	if n.Kind == '0' && strings.HasSuffix(path, ".timeout") {
		meant = "; write " + strconv.Quote(durationOf(n.Text))
	}
	c.fault(n, path, "want %s, found %s%s", kindName(kind), kindName(n.Kind), meant)
	return false
}

func (c *checker) decodeStruct(n *rawjson.Node, path string, v reflect.Value) {
	fields := c.fieldsOf(v.Type())
	server := v.Type() == reflect.TypeFor[fileServer]()
	c.unique(n, path)
	for name, value := range n.All() {
		if i, ok := fields[name]; ok {
			c.decode(value, JoinPath(path, name), v.Field(i))
		} else if note, known := othersKey(name); server && known {
			if note != "" {
				c.warn(value, JoinPath(path, name), note)
			}
		} else if c.found < maxFaults {
			c.faultAt(value.NameOffset, JoinPath(path, name), "unknown key%s", hint(name, fields))
		} else {
			c.found++ // only counted, not listed, so it needs no hint
		}
	}
}

// fieldsOf returns the index of each field of a type in file.go, by its name in the file.
func (c *checker) fieldsOf(t reflect.Type) map[string]int {
	if fields, ok := c.fields[t]; ok {
		return fields
	}
	fields := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields[name] = i
	}
	if c.fields == nil {
		c.fields = map[reflect.Type]map[string]int{}
	}
	c.fields[t] = fields
	return fields
}

func (c *checker) decodeMap(n *rawjson.Node, path string, v reflect.Value) {
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Keys)))
	c.unique(n, path)
	for name, value := range n.All() {
		decoded := reflect.New(v.Type().Elem()).Elem()
		c.decode(value, JoinPath(path, name), decoded)
		v.SetMapIndex(reflect.ValueOf(name), decoded)
	}
}

// unique keeps the first member of each name in n, and reports the others.
func (c *checker) unique(n *rawjson.Node, path string) {
	keys, kids := n.Keys[:0], n.Kids[:0]
	seen := make(map[string]bool, len(n.Keys))
	for name, value := range n.All() {
		if seen[name] {
			c.faultAt(value.NameOffset, JoinPath(path, name), "duplicate key")
			continue
		}
		seen[name] = true
		keys, kids = append(keys, name), append(kids, value)
	}
	n.Keys, n.Kids = keys, kids // later steps need not see duplicates again
}

// unspelt removes the characters in which spellings of one key differ.
var unspelt = strings.NewReplacer("_", "", "-", "")

// hint suggests the intended key if it is obvious: a known key in another spelling, or the
// equivalent of a key from other programs' configs.
func hint(name string, fields map[string]int) string {
	if len(name) > maxKey {
		return ""
	}
	spelt := unspelt.Replace(name)
	for field := range fields {
		if strings.EqualFold(unspelt.Replace(field), spelt) {
			return "; write " + field
		}
	}
	to := ""
	switch name {
	case "servers":
		to = "mcpServers"
	case "serverUrl", "httpUrl", "endpoint":
		to = "url"
	}
	if _, ok := fields[to]; !ok {
		return ""
	}
	return "; write " + to
}
