package clientfile

import (
	"bytes"
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"
)

// appendTOML appends the addition to the file.
func appendTOML(data, addition []byte) []byte {
	nl := []byte("\n")
	if bytes.Contains(data, []byte("\r\n")) {
		nl = []byte("\r\n")
		addition = bytes.ReplaceAll(addition, []byte("\n"), nl)
	}
	out := bytes.TrimRight(data, " \t\r\n")
	if len(out) > 0 {
		out = slices.Concat(out, nl, nl)
	}
	return append(out, addition...)
}

// cutTOML returns the file without the tables whose keys begin with keys. It does not remove inline
// tables, so the caller must check that there are none.
func cutTOML(data []byte, keys []string) ([]byte, error) {
	mark := len(data) - len(bytes.TrimPrefix(data, []byte(bom)))
	text := data[mark:]
	from, cut := -1, [][2]int{}
	err := eachTOML(text, func(e expression) {
		if e.node.Kind == unstable.KeyValue {
			return
		}
		line := bytes.LastIndexByte(text[:e.offset], '\n') + 1
		within := len(e.keys) >= len(keys) && slices.Equal(e.keys[:len(keys)], keys)
		switch {
		case within && from < 0:
			from = line
		case !within && from >= 0:
			cut = append(cut, [2]int{from, from + own(text[from:line])})
			from = -1
		}
	})
	if err != nil {
		return nil, err
	}
	if from >= 0 {
		cut = append(cut, [2]int{from, from + own(text[from:])})
	}
	out := slices.Clone(data)
	for _, c := range slices.Backward(cut) {
		before, after := out[:mark+c[0]], out[mark+c[1]:]
		if len(bytes.TrimSpace(after)) == 0 {
			before = bytes.TrimRight(before, " \t\r\n") // the blank lines between the tables
			if i := len(before); i > 0 {
				before = out[:i+bytes.IndexByte(out[i:], '\n')+1]
			}
		} else {
			after = bytes.TrimLeft(after, "\r\n")
		}
		out = slices.Concat(before, after)
	}
	return out, nil
}

// own returns the length of a table's text without the comments and blank lines at the end. These
// belong to the next table.
func own(text []byte) int {
	for len(text) > 0 {
		line := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
		if t := bytes.TrimSpace(text[line:]); len(t) > 0 && t[0] != '#' {
			break
		}
		text = text[:line]
	}
	return len(text)
}
