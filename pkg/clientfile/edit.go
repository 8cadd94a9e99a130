package clientfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/portcullis-mcp/portcullis/pkg/rawjson"
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
	want, same, err := merged(path, before, more, replace)
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
	if before.member(holder).member(name) == nil {
		return Change{data, true}, nil
	}
	before.member(holder).drop(name)
	unasked := before.unask(name + "-token")
	var out []byte
	if FormatOf(path, data) == TOML {
		if len(before.member(holder).members) == 0 {
			before.drop(holder) // it has no place of its own
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
func (n *node) unask(id string) int {
	inputs := n.member("inputs")
	if inputs == nil || inputs.kind != '[' || n.refersTo("${input:"+id+"}") {
		return -1
	}
	for i, e := range inputs.elems {
		if at := e.member("id"); at != nil && at.text == id {
			inputs.elems = append(inputs.elems[:i:i], inputs.elems[i+1:]...)
			return i
		}
	}
	return -1
}

// refersTo reports whether some text holds a reference.
func (n *node) refersTo(reference string) bool {
	for _, m := range n.members {
		if m.value.refersTo(reference) {
			return true
		}
	}
	return strings.Contains(n.text, reference) || slices.ContainsFunc(n.elems, func(e *node) bool { return e.refersTo(reference) })
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
func checked(path string, out []byte, want *node, err error) error {
	if err != nil {
		return err
	}
	blank := strings.TrimSpace(strings.TrimPrefix(string(out), bom)) == ""
	if blank && FormatOf(path, out) == TOML && len(want.members) == 0 {
		return nil // a TOML file may say nothing
	}
	if got, err := parse(path, out); err != nil || !got.equal(want) {
		return &Fault{Place{path, 0}, "is written in a way that cannot be changed here without a risk for the rest of it: change it by hand"}
	}
	return nil
}

func (n *node) drop(name string) {
	for i, m := range n.members {
		if m.name == name {
			n.members = append(n.members[:i:i], n.members[i+1:]...)
			return
		}
	}
}

// merged returns what the file has to say in the end.
func merged(path string, before, more *node, replace bool) (want *node, same bool, err error) {
	want, same = &node{kind: '{', members: append([]member(nil), before.members...)}, true
	for _, m := range more.members {
		old := before.member(m.name)
		switch {
		case old == nil:
			want.members, same = append(want.members, m), false
			continue
		case old.kind != m.value.kind:
			return nil, false, &Fault{Place{path, old.line}, m.name + " is not what the client reads there"}
		}
		next := &node{kind: old.kind, members: append([]member(nil), old.members...), elems: append([]*node(nil), old.elems...)}
		for _, entry := range m.value.members {
			there := old.member(entry.name)
			switch {
			case there.equal(entry.value):
				continue
			case there != nil && !replace:
				return nil, false, fmt.Errorf("%s: %w", Place{path, there.line}, ErrTaken)
			case there != nil:
				next.drop(entry.name)
			}
			next.members, same = append(next.members, entry), false
		}
		for _, e := range m.value.elems {
			if !old.hasID(e) {
				next.elems, same = append(next.elems, e), false
			}
		}
		want.drop(m.name)
		want.members = append(want.members, member{m.name, m.line, next})
	}
	return want, same, nil
}

// hasID reports whether a list has an element with the id of e.
func (n *node) hasID(e *node) bool {
	for _, old := range n.elems {
		if id := old.member("id"); id != nil && id.equal(e.member("id")) {
			return true
		}
	}
	return false
}

// mergeJSON puts each member of the addition's members into the file.
func mergeJSON(path string, data, addition []byte, more *node) ([]byte, error) {
	raw, err := members(path, addition)
	if err != nil {
		return nil, err
	}
	for _, m := range more.members {
		for _, e := range m.value.members {
			inner, err := members(path, raw[m.name])
			if err != nil {
				return nil, err
			}
			if data, err = SetJSON(path, data, []string{m.name, e.name}, inner[e.name]); err != nil {
				return nil, err
			}
		}
		if m.value.kind == '[' {
			if data, err = addElements(path, data, m.name, raw[m.name]); err != nil {
				return nil, err
			}
		}
	}
	return data, nil
}

func members(path string, object []byte) (map[string]json.RawMessage, error) {
	var out map[string]json.RawMessage
	if err := json.Unmarshal(object, &out); err != nil {
		return nil, &Fault{Place{path, 0}, err.Error()}
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
			return nil, &Fault{Place{path, 0}, strings.Join(at[:i], ".") + " is no object"}
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
	if tree.member(name) == nil {
		return SetJSON(path, data, []string{name}, list)
	}
	for _, e := range elems {
		n, err := parseJSON(path, e)
		if err != nil {
			return nil, err
		}
		if tree.member(name).hasID(n) {
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
		return nil, &Fault{Place{path, 0}, holder + " is no object"}
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
