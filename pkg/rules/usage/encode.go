package usage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
)

// formatVersion begins every encoded tally.
const formatVersion = 1

var errFormat = errors.New("the stored usage cannot be read")

// sortedPairs returns the pairs in order, with the merged pairs first.
func sortedPairs(uses map[Pair]*Use) []Pair {
	return slices.SortedFunc(maps.Keys(uses), func(a, b Pair) int {
		return cmp.Or(strings.Compare(a.Agent, b.Agent), strings.Compare(a.Tool, b.Tool))
	})
}

// AppendBinary appends the stored form of t: numbers of variable length, each name once.
func (t *Tally) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, formatVersion)
	b = number(b, len(t.Counts))
	for _, n := range t.Counts {
		b = number(b, n)
	}
	used := 0
	for _, n := range t.Latency {
		if n > 0 {
			used++
		}
	}
	b = number(b, used)
	for i, n := range t.Latency {
		if n > 0 {
			b = number(number(b, i), int(n))
		}
	}
	pairs := sortedPairs(t.uses)
	var names []string
	for _, p := range pairs {
		names = append(names, p.Agent, p.Tool)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	b = number(b, len(names))
	for _, name := range names {
		b = append(number(b, len(name)), name...)
	}
	b = number(b, len(pairs))
	for _, p := range pairs {
		for _, name := range []string{p.Agent, p.Tool} {
			at, _ := slices.BinarySearch(names, name)
			b = number(b, at)
		}
		for _, n := range t.uses[p].fields() {
			b = number(b, *n)
		}
	}
	return b, nil
}

func number(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

func (u *Use) fields() [6]*int {
	return [6]*int{&u.Calls, &u.Locked, &u.Refused, &u.Failed, &u.Found, &u.Searches}
}

// UnmarshalBinary reads what [Tally.AppendBinary] wrote. It ignores counts that this program does
// not know.
func (t *Tally) UnmarshalBinary(data []byte) error {
	*t = Tally{}
	r := &reader{data: data}
	if len(data) == 0 || data[0] != formatVersion {
		return errFormat
	}
	r.data = data[1:]
	for m := range r.count() {
		if n := r.number(); m < len(t.Counts) {
			t.Counts[m] = n
		}
	}
	for range r.count() {
		if at, n := r.number(), r.number(); at < bins {
			t.Latency[at] = uint32(min(n, 1<<31))
		}
	}
	var names []string
	for range r.count() {
		names = append(names, r.text())
	}
	n := r.count()
	room := make([]Use, n)
	t.uses = make(map[Pair]*Use, n)
	for i := range room {
		agent, name, u := r.number(), r.number(), &room[i]
		for _, n := range u.fields() {
			*n = r.number()
		}
		if r.bad || agent >= len(names) || name >= len(names) {
			r.bad = true
			break
		}
		p := Pair{names[agent], names[name]}
		if t.uses[p] != nil {
			r.bad = true // each is written once
		}
		t.uses[p] = u
	}
	if r.bad || len(r.data) > 0 {
		*t = Tally{}
		return errFormat
	}
	return nil
}

// A reader reads numbers and texts. After a fault it returns zero, and sets bad.
type reader struct {
	data []byte
	bad  bool
}

func (r *reader) number() int {
	n, size := binary.Uvarint(r.data)
	if size <= 0 || n > 1<<53 || r.bad {
		r.bad = true
		return 0
	}
	r.data = r.data[size:]
	return int(n)
}

// count reads the number of the following elements, each of which has at least a byte.
func (r *reader) count() int {
	n := r.number()
	if n > len(r.data) {
		r.bad = true
		return 0
	}
	return n
}

func (r *reader) text() string {
	n := r.count()
	s := string(r.data[:n])
	r.data = r.data[n:]
	return s
}
