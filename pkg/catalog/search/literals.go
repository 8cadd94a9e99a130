package search

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// A query may contain values of arguments, for example a path, an address or a date. The words of
// such a literal mean nothing, but its kind shows which tool the query needs.

// A kind is a kind of literals, with the word that it adds to a query.
type kind struct {
	word string
	is   func(string) bool
}

// kinds are in the order in which literals tries them.
var kinds = []kind{
	{"url", regexp.MustCompile(`^(?i:[a-z][a-z0-9+.-]*://|www\.)\S`).MatchString},
	{"email", regexp.MustCompile(`^[\w.+-]+@[\w-]+(\.[\w-]+)+$`).MatchString},
	{"date", regexp.MustCompile(`^(\d{4}-\d\d?-\d\d?([T ]\S*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4})$`).MatchString},
	{"ip", func(s string) bool {
		_, err := netip.ParseAddr(s)
		return err == nil && strings.Count(s, ".")+strings.Count(s, ":") >= 2
	}},
	{"file", regexp.MustCompile(`^((~|\.{0,2})/[\w.@+-]|[A-Za-z]:\\|[\w@+-][\w.@+/\\-]*[/\\][\w.@+-]+\.[A-Za-z]\w{0,4}$|[\w@+-][\w.@+-]*\.(` + extensions + `)$)`).MatchString},
	{"hash", func(s string) bool {
		return hexadecimal(s) && strings.ContainsAny(s, "0123456789") && strings.ContainsAny(s, "abcdef")
	}},
}

// extensions are the extensions of file names that need no folder before them.
const extensions = `(?i:txt|md|csv|tsv|json|jsonl|xml|ya?ml|toml|ini|cfg|log|pdf|docx?|xlsx?|pptx?|html?|css|js|ts|tsx|py|go|rs|java|rb|c|h|cpp|sh|sql|db|png|jpe?g|gif|svg|webp|mp3|mp4|wav|zip|gz|tar|parquet|ipynb|env|conf)`

// hexadecimal reports whether a text may be a hash, of 7 to 64 digits.
var hexadecimal = regexp.MustCompile(`^[0-9a-f]{7,64}$`).MatchString

// around contains the characters that may surround a literal.
const around = "\"'`()[]{}<>,;:!?“”‘’"

// maxLiteral is the maximum length of a literal, because a longer text is data.
const maxLiteral = 2048

// literals returns the words of the kinds of literals in a text, each word once and in the order of
// kinds.
func literals(text string) (out []string) {
	found := make([]bool, len(kinds))
	for field := range strings.FieldsSeq(text) {
		field = strings.TrimRight(strings.TrimLeft(field, around), around+".")
		if len(field) < 4 || len(field) > maxLiteral || !strings.ContainsAny(field, "./\\@:0123456789") {
			continue
		}
		if i := slices.IndexFunc(kinds, func(k kind) bool { return k.is(field) }); i >= 0 {
			found[i] = true
		}
	}
	for i, k := range kinds {
		if found[i] {
			out = append(out, k.word)
		}
	}
	return out
}
