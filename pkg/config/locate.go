package config

// Locate fills in line and column of faults that were found after parsing and know their
// JSON path alone. data is the file.
func Locate(data []byte, faults Faults) Faults {
	tree, broken := readTree(data)
	if broken != nil {
		return faults
	}
	places := map[string]int{}
	tree.places("", places)
	out := make(Faults, len(faults))
	for i, f := range faults {
		if offset, ok := places[f.Path]; ok && f.Line == 0 {
			f.Line, f.Col = position(data, offset)
		}
		out[i] = f
	}
	return out
}

// places notes where each value below n stands, by its path.
func (n *node) places(path string, to map[string]int) {
	for _, m := range n.members {
		p := JoinPath(path, m.name)
		to[p] = m.value.offset
		m.value.places(p, to)
	}
	for i, e := range n.elems {
		p := index(path, i)
		to[p] = e.offset
		e.places(p, to)
	}
}
