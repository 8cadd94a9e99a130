package clientfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// ErrTaken says that a different entry with the same name exists.
var ErrTaken = errors.New("an entry with that name exists and differs")

// A Change is the result of [Merge] or [Remove].
type Change struct {
	Data []byte
	Same bool // no change was necessary
}

// Merge returns a file with all entries of addition. addition has the format of the same client's
// file. Everything else stays, byte by byte. If an existing entry differs, Merge replaces it, or
// returns [ErrTaken] if replace is false. If data is empty, the result is addition.
func Merge(path string, data, addition []byte, replace bool) (Change, error) {
	if strings.TrimSpace(strings.TrimPrefix(string(data), bom)) == "" {
		return Change{Data: addition}, nil
	}
	want, err := parse(path, data)
	if err != nil {
		return Change{}, err
	}
	more, err := parse(path, addition)
	if err != nil {
		return Change{}, err
	}
	steps, err := stepsOf(path, data, want, more, replace)
	if err != nil || len(steps) == 0 {
		return Change{data, err == nil}, err
	}
	out := data
	isTOML := FormatOf(path, data) == TOML
	for _, s := range steps {
		set(want, s.at, s.value)
		switch {
		case err != nil:
		case isTOML:
			out, err = cutTOML(out, s.at)
		default:
			out, err = SetJSON(path, out, s.at, s.value.Raw)
		}
	}
	if isTOML && err == nil {
		out = appendTOML(out, addition)
	}
	return Change{Data: out}, checked(path, out, want, err)
}

// A step puts a value at a path.
type step struct {
	at    []string
	value *rawjson.Node
}

// stepsOf returns the steps that add the entries in more to a file. before is the parsed file, and
// data is its text.
func stepsOf(
	path string, data []byte, before, more *rawjson.Node, replace bool,
) (steps []step, err error) {
	at := newLines(data)
	for name, value := range more.All() {
		old := before.Get(name)
		switch {
		case old == nil:
			steps = append(steps, step{[]string{name}, value})
			continue
		case old.Kind != value.Kind:
			place := Place{path, at.lineOf(old.Offset)}
			return nil, &fault{place, name + " has a different type than the client expects"}
		}
		for entry, value := range value.All() {
			there := old.Get(entry)
			if there != nil && equal(there, value) {
				continue
			}
			if there != nil && !replace {
				return nil, fmt.Errorf("%s: %w", Place{path, at.lineOf(there.Offset)}, ErrTaken)
			}
			steps = append(steps, step{[]string{name, entry}, value})
		}
		for _, e := range more.List(name) {
			if indexID(old, e.TextOf("id")) < 0 {
				steps = append(steps, step{[]string{name, "-"}, e})
			}
		}
	}
	return steps, nil
}

// indexID returns the index of the element of a list that has an id, or -1.
func indexID(list *rawjson.Node, id string) int {
	return slices.IndexFunc(list.Kids, func(e *rawjson.Node) bool {
		return id != "" && e.TextOf("id") == id
	})
}

// Remove returns a file without an entry, and without VS Code's question for its token. If there is
// no such entry, Remove sets Same.
func Remove(path string, data []byte, holder, name string) (Change, error) {
	want, err := parse(path, data)
	if err != nil {
		return Change{}, err
	}
	if want.Get(holder).Get(name) == nil {
		return Change{data, true}, nil
	}
	set(want, []string{holder, name}, nil)
	var out []byte
	if FormatOf(path, data) == TOML {
		if len(want.Get(holder).Keys) == 0 {
			set(want, []string{holder}, nil) // a TOML file has no holder without entries
		}
		out, err = cutTOML(data, []string{holder, name})
		return Change{Data: out}, checked(path, out, want, err)
	}
	out, err = SetJSON(path, data, []string{holder, name}, nil)
	input := name + "-token"
	inputs := want.Get("inputs")
	if inputs.Array() && !refersTo(want, "${input:"+input+"}") && err == nil {
		if i := indexID(inputs, input); i >= 0 {
			inputs.Kids = slices.Delete(inputs.Kids, i, i+1)
			out, err = SetJSON(path, out, []string{"inputs", strconv.Itoa(i)}, nil)
		}
	}
	return Change{Data: out}, checked(path, out, want, err)
}

// refersTo reports whether a string contains a reference.
func refersTo(n *rawjson.Node, reference string) bool {
	refers := func(kid *rawjson.Node) bool { return refersTo(kid, reference) }
	return strings.Contains(n.Text, reference) || slices.ContainsFunc(n.Kids, refers)
}

// checked returns an error if the result of an edit differs from the requested file.
func checked(path string, out []byte, want *rawjson.Node, err error) error {
	if err != nil {
		return err
	}
	blank := strings.TrimSpace(strings.TrimPrefix(string(out), bom)) == ""
	if blank && FormatOf(path, out) == TOML && len(want.Keys) == 0 {
		return nil // a TOML file may be empty
	}
	if got, err := parse(path, out); err != nil || !equal(got, want) {
		return &fault{Place{path, 0}, "has a form that portcullis cannot edit without " +
			"a risk for the other entries: change it by hand"}
	}
	return nil
}

// set puts a value at a path. If the value is nil, it removes the member at the path. The parents
// of the path exist.
func set(n *rawjson.Node, at []string, value *rawjson.Node) {
	last := len(at) - 1
	for _, key := range at[:last] {
		n = n.Get(key)
	}
	if i := slices.Index(n.Keys, at[last]); i >= 0 {
		n.Keys, n.Kids = slices.Delete(n.Keys, i, i+1), slices.Delete(n.Kids, i, i+1)
	}
	if value != nil && n.Object() {
		n.Keys = append(n.Keys, at[last])
	}
	if value != nil {
		n.Kids = append(n.Kids, value)
	}
}

// encode returns the JSON of a value that consists only of strings.
func encode(v any) json.RawMessage {
	data, err := rawjson.Encode(v)
	if err != nil {
		panic(err) // strings always have a JSON form
	}
	return data
}
