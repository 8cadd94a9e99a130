package clientfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// ErrTaken says that an entry of the name is there and says something else.
var ErrTaken = errors.New("an entry of that name is there and says something else")

// A Change is what [Merge] or [Remove] made of a file.
type Change struct {
	Data []byte
	Same bool // nothing had to be changed
}

// Merge returns a file in which each entry of addition stands, as in a file of the client that holds nothing else.
// Everything else stays, byte by byte. An entry that is there and differs is replaced, or is [ErrTaken].
// data may be empty: then the addition is the file.
func Merge(path string, data, addition []byte, replace bool) (Change, error) {
	if strings.TrimSpace(strings.TrimPrefix(string(data), bom)) == "" {
		return Change{Data: addition}, nil
	}
	before, err := parse(path, data)
	if err != nil {
		return Change{}, err
	}
	more, err := parse(path, addition)
	if err != nil {
		return Change{}, err
	}
	want, same, err := merged(path, data, before, more, replace)
	if err != nil || same {
		return Change{data, same}, err
	}
	var out []byte
	if FormatOf(path, data) == TOML {
		out, err = mergeTOML(data, addition, more)
	} else {
		out, err = mergeJSON(path, data, addition, more)
	}
	return Change{Data: out}, checked(path, out, want, err)
}

// Remove returns a file without an entry, and without the question of VS Code that asked for its token. Same: it
// has no such entry.
func Remove(path string, data []byte, holder, name string) (Change, error) {
	before, err := parse(path, data)
	if err != nil {
		return Change{}, err
	}
	if before.Get(holder).Get(name) == nil {
		return Change{data, true}, nil
	}
	drop(before.Get(holder), name)
	unasked := unask(before, name+"-token")
	var out []byte
	if FormatOf(path, data) == TOML {
		if len(before.Get(holder).Keys) == 0 {
			drop(before, holder) // it has no place of its own
		}
		out, err = cutTOML(data, []string{holder, name})
	} else {
		out, err = removeJSON(path, data, holder, name)
		if err == nil && unasked >= 0 {
			out, err = removeInput(path, out, unasked)
		}
	}
	return Change{Data: out}, checked(path, out, before, err)
}

// unask drops the input with the id if nothing refers to it any more, and returns its number; -1: none.
func unask(n *rawjson.Node, id string) int {
	inputs := n.Get("inputs")
	if !inputs.Array() || refersTo(n, "${input:"+id+"}") {
		return -1
	}
	for i, e := range inputs.Kids {
		if at := e.Get("id"); at != nil && at.Text == id {
			inputs.Kids = slices.Delete(inputs.Kids, i, i+1)
			return i
		}
	}
	return -1
}

// refersTo reports whether some text holds a reference.
func refersTo(n *rawjson.Node, reference string) bool {
	return strings.Contains(n.Text, reference) ||
		slices.ContainsFunc(n.Kids, func(kid *rawjson.Node) bool { return refersTo(kid, reference) })
}

// removeInput takes one of VS Code's questions out.
func removeInput(path string, data []byte, i int) ([]byte, error) {
	root, err := readJSON(path, data)
	if err != nil {
		return nil, err
	}
	object, _ := root.Value.(*hujson.Object)
	return newEditor(data).remove(&find(object, "inputs").Value, i), nil
}

// checked refuses an edit that says anything else than was wanted.
func checked(path string, out []byte, want *rawjson.Node, err error) error {
	if err != nil {
		return err
	}
	blank := strings.TrimSpace(strings.TrimPrefix(string(out), bom)) == ""
	if blank && FormatOf(path, out) == TOML && len(want.Keys) == 0 {
		return nil // a TOML file may say nothing
	}
	if got, err := parse(path, out); err != nil || !equal(got, want) {
		return &fault{Place{path, 0}, "is written in a way that cannot be changed here without a risk for the rest of it: change it by hand"}
	}
	return nil
}

// drop takes a member out.
func drop(n *rawjson.Node, name string) {
	if i := slices.Index(n.Keys, name); i >= 0 {
		n.Keys, n.Kids = slices.Delete(n.Keys, i, i+1), slices.Delete(n.Kids, i, i+1)
	}
}

// add puts a member behind the others.
func add(n *rawjson.Node, name string, value *rawjson.Node) {
	n.Keys, n.Kids = append(n.Keys, name), append(n.Kids, value)
}

// clone returns a copy of an object or array with the same members or elements.
func clone(n *rawjson.Node) *rawjson.Node {
	return &rawjson.Node{Kind: n.Kind, Keys: slices.Clone(n.Keys), Kids: slices.Clone(n.Kids)}
}

// merged returns what the file has to say in the end. data is what before is of.
func merged(
	path string, data []byte, before, more *rawjson.Node, replace bool,
) (want *rawjson.Node, same bool, err error) {
	want, same = clone(before), true
	at := newLines(data)
	for name, value := range more.All() {
		old := before.Get(name)
		switch {
		case old == nil:
			add(want, name, value)
			same = false
			continue
		case old.Kind != value.Kind:
			return nil, false, &fault{Place{path, at.of(old.Offset)}, name + " is not what the client reads there"}
		}
		next := clone(old)
		for entry, value := range value.All() {
			there := old.Get(entry)
			switch {
			case there != nil && equal(there, value):
				continue
			case there != nil && !replace:
				return nil, false, fmt.Errorf("%s: %w", Place{path, at.of(there.Offset)}, ErrTaken)
			case there != nil:
				drop(next, entry)
			}
			add(next, entry, value)
			same = false
		}
		if value.Array() {
			for _, e := range value.Kids {
				if !hasID(old, e) {
					next.Kids, same = append(next.Kids, e), false
				}
			}
		}
		drop(want, name)
		add(want, name, next)
	}
	return want, same, nil
}

// hasID reports whether a list has an element with the id of e.
func hasID(list, e *rawjson.Node) bool {
	want := e.Get("id")
	return want != nil && slices.ContainsFunc(list.Kids, func(old *rawjson.Node) bool {
		id := old.Get("id")
		return id != nil && equal(id, want)
	})
}

// mergeJSON puts each member of the addition's members into the file.
func mergeJSON(path string, data, addition []byte, more *rawjson.Node) ([]byte, error) {
	raw, err := members(path, addition)
	if err != nil {
		return nil, err
	}
	for name, value := range more.All() {
		for entry := range value.All() {
			inner, err := members(path, raw[name])
			if err != nil {
				return nil, err
			}
			if data, err = SetJSON(path, data, []string{name, entry}, inner[entry]); err != nil {
				return nil, err
			}
		}
		if value.Array() {
			if data, err = addElements(path, data, name, raw[name]); err != nil {
				return nil, err
			}
		}
	}
	return data, nil
}

func members(path string, object []byte) (map[string]json.RawMessage, error) {
	var out map[string]json.RawMessage
	if err := json.Unmarshal(object, &out); err != nil {
		return nil, &fault{Place{path, 0}, err.Error()}
	}
	return out, nil
}

// SetJSON returns a JSON file in which the member at the path is value, which is JSON. Objects on the way to
// it are made. Everything else stays, byte by byte.
func SetJSON(path string, data []byte, at []string, value json.RawMessage) ([]byte, error) {
	root, err := readJSON(path, data)
	if err != nil {
		return nil, err
	}
	e := newEditor(data)
	n := &root
	for i, name := range at {
		object, ok := n.Value.(*hujson.Object)
		if !ok {
			return nil, &fault{Place{path, 0}, strings.Join(at[:i], ".") + " is no object"}
		}
		m := find(object, name)
		if m == nil {
			for _, outer := range slices.Backward(at[i+1:]) {
				value = json.RawMessage("{" + string(encode(outer)) + ":" + string(value) + "}")
			}
			return e.insert(n, string(encode(name))+": ", value), nil
		}
		n = &m.Value
	}
	return e.splice(n.StartOffset, n.EndOffset, e.pretty(value, e.indentAt(n.StartOffset), e.multi(&root))), nil
}

// addElements appends each element of a list that the file's list has no element with the id of.
func addElements(path string, data []byte, name string, list json.RawMessage) ([]byte, error) {
	var elems []json.RawMessage
	if err := json.Unmarshal(list, &elems); err != nil {
		return nil, err
	}
	tree, err := parseJSON(path, data)
	if err != nil {
		return nil, err
	}
	if tree.Get(name) == nil {
		return SetJSON(path, data, []string{name}, list)
	}
	for _, e := range elems {
		n, err := parseJSON(path, e)
		if err != nil {
			return nil, err
		}
		if hasID(tree.Get(name), n) {
			continue
		}
		root, err := readJSON(path, data)
		if err != nil {
			return nil, err
		}
		object, _ := root.Value.(*hujson.Object)
		data = newEditor(data).insert(&find(object, name).Value, "", e)
	}
	return data, nil
}

// removeJSON takes a member out.
func removeJSON(path string, data []byte, holder, name string) ([]byte, error) {
	root, err := readJSON(path, data)
	if err != nil {
		return nil, err
	}
	object, _ := root.Value.(*hujson.Object)
	inner, ok := find(object, holder).Value.Value.(*hujson.Object)
	if !ok {
		return nil, &fault{Place{path, 0}, holder + " is no object"}
	}
	for i, m := range inner.Members {
		if literal(m.Name.Value) == name {
			return newEditor(data).remove(&find(object, holder).Value, i), nil
		}
	}
	return data, nil
}

func find(o *hujson.Object, name string) *hujson.ObjectMember {
	for i := range o.Members {
		if literal(o.Members[i].Name.Value) == name {
			return &o.Members[i]
		}
	}
	return nil
}

// encode returns the JSON of what is made of strings alone.
func encode(v any) json.RawMessage {
	data, err := rawjson.Encode(v)
	if err != nil {
		panic(err) // strings always have a JSON form
	}
	return data
}
