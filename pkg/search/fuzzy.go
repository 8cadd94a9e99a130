package search

// A misspelt word still finds what was meant. A stem that no document of the
// view has is replaced by all stems of the view at one edit from it.
const (
	minMisspelt = 4  // letters: one edit makes most shorter words into some other word
	misspelt    = .7 // the weight that the replacements share
)

// misspellable reports whether a stem may be a misspelt word: of enough letters a–z
// and nothing else. Numbers and codes are meant as they stand.
func misspellable(stem string) bool {
	for i := range len(stem) {
		if stem[i] < 'a' || stem[i] > 'z' {
			return false
		}
	}
	return len(stem) >= minMisspelt
}

// near calls yield with the number of each term at one edit from stem.
func (ix *Index) near(stem string, yield func(term int)) {
	for i := range ix.terms {
		if oneEdit(stem, ix.term(i)) {
			yield(i)
		}
	}
}

// oneEdit reports whether one insertion, deletion, replacement or swap of
// neighbours makes a into b.
func oneEdit(a string, b []byte) bool {
	if d := len(a) - len(b); d < -1 || d > 1 {
		return false
	}
	i := 0 // both agree before i
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	j, k := len(a), len(b) // and from j and k on
	for j > i && k > i && a[j-1] == b[k-1] {
		j--
		k--
	}
	switch {
	case j-i <= 1 && k-i <= 1:
		return j > i || k > i // not equal
	case j-i == 2 && k-i == 2:
		return a[i] == b[i+1] && a[i+1] == b[i]
	}
	return false
}
