package signature

import (
	"slices"
	"strings"
)

// pairs are pairs of words for the start and the end of something.
func pairs() [][2]string {
	return [][2]string{
		{"start", "end"}, {"from", "to"}, {"min", "max"}, {"since", "until"}, {"after", "before"},
		{"first", "last"}, {"source", "target"}, {"source", "destination"}, {"old", "new"},
		{"x", "y"}, {"width", "height"}, {"lat", "lon"}, {"lat", "lng"}, {"latitude", "longitude"},
	}
}

// pair moves the names of a pair together, such as start_date and end_date, if the server sorted
// all by name. Any other order is intended.
func pair(list []property) []property {
	if len(list) > wide || !slices.IsSortedFunc(list, func(a, b property) int { return strings.Compare(a.name, b.name) }) {
		return list
	}
	for i := 0; i < len(list); i++ {
		for _, p := range pairs() {
			for _, two := range [][2]string{p, {p[1], p[0]}} {
				other, ok := swap(list[i].name, two[0], two[1])
				j := slices.IndexFunc(list, func(q property) bool { return q.name == other })
				if !ok || j <= i {
					continue
				}
				found := list[j]
				list = slices.Insert(slices.Delete(list, j, j+1), i+1, found)
				if two != p { // the second word came first
					list[i], list[i+1] = list[i+1], list[i]
				}
				i++
			}
		}
	}
	return list
}

// swap replaces a word at the start or the end of a name.
func swap(name, word, by string) (string, bool) {
	if rest, ok := strings.CutPrefix(name, word); ok && (rest == "" || rest[0] < 'a' || rest[0] > 'z') {
		return by + rest, true
	}
	if rest, ok := strings.CutSuffix(name, "_"+word); ok {
		return rest + "_" + by, true
	}
	return "", false
}
