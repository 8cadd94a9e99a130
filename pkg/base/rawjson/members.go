package rawjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
)

// Members are the members of an object that a program does not know, by name.
//
// Another version of the program may have stored the object: a function that still runs the last
// release, or a laptop that goes back to it. This version reads the object, changes it and writes
// it back. With encoding/json alone, the write would drop each member that only the newer version
// has.
type Members map[string]json.RawMessage

// Without returns all members except the named one.
func (m Members) Without(name string) Members {
	if _, ok := m[name]; !ok {
		return m
	}
	rest := maps.Clone(m)
	if delete(rest, name); len(rest) == 0 {
		return nil
	}
	return rest
}

// Unmarshal reads an object into the struct that v points to. It returns the members without a
// field in the struct, or nil if there are none.
func Unmarshal(data []byte, v any) (Members, error) {
	if err := json.Unmarshal(data, v); err != nil {
		return nil, err
	}
	known := fields(reflect.TypeOf(v).Elem())
	o, err := Split(data, Lenient)
	if err != nil { // json.Unmarshal accepts more, such as null
		return membersOf(data, known)
	}
	var all Members
	for _, m := range o {
		// json.Unmarshal matches field names in any letter case.
		if !known[m.Name] && !known[strings.ToLower(m.Name)] {
			if all == nil {
				all = Members{}
			}
			all[m.Name] = bytes.Clone(m.Value)
		}
	}
	return all, nil
}

// membersOf returns the unknown members of data that Split refuses, such as null. It is slower.
func membersOf(data []byte, known map[string]bool) (Members, error) {
	var all Members
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return known[strings.ToLower(name)] })
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// Marshal writes the struct v with the further members. If a further member has a field in v,
// Marshal writes only the field.
func Marshal(v any, further Members) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil || len(further) == 0 {
		return data, err
	}
	known := fields(reflect.TypeOf(v))
	further = maps.Clone(further)
	maps.DeleteFunc(further, func(name string, _ json.RawMessage) bool { return known[strings.ToLower(name)] })
	if len(further) == 0 {
		return data, nil
	}
	tail, err := Encode(further)
	if err != nil {
		return nil, err
	}
	if data[0] != '{' {
		return nil, fmt.Errorf("%T is not an object", v)
	}
	if string(data) == "{}" {
		return tail, nil
	}
	data[len(data)-1] = ','
	return append(data, tail[1:]...), nil
}

// fieldNames caches the results of fields, by type.
var fieldNames sync.Map

// fields returns the names of the members that have a field in the struct type t, in lower case.
// The caller must not change them.
func fields(t reflect.Type) map[string]bool {
	if names, ok := fieldNames.Load(t); ok {
		return names.(map[string]bool)
	}
	names := map[string]bool{}
	defer func() { fieldNames.Store(t, names) }()
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() || f.Anonymous && name == "" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		names[strings.ToLower(name)] = true
	}
	return names
}
