package tool

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"", ":", "a:b", "a:b:c", "a:prompt:b", "a:resource:c://d", "a:prompt:", " : ", "\xff:\x00", "ａ：ｂ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		id, err := ParseID(in)
		if err != nil {
			return
		}
		if id.String() != in || id.Server == "" || id.Name == "" || strings.Contains(id.Server, ":") {
			t.Errorf("ParseID(%q) = %+v", in, id)
		}
		if len(id.Direct()) > 64 {
			t.Errorf("Direct() of %q has %d bytes", in, len(id.Direct()))
		}
		ids, cut := ParseDirect(id.Direct())
		if id.Kind = Tool; !cut && !slices.Contains(ids, id) {
			t.Errorf("ParseDirect(%q) = %v, want %v among them", id.Direct(), ids, id)
		}
	})
}

func FuzzCanonicalJSON(f *testing.F) {
	for _, tc := range refused {
		if len(tc.in) < 1<<10 {
			f.Add([]byte(tc.in))
		}
	}
	for _, s := range []string{`{"b":1.0,"a":[9007199254740993,"n1"]}`, `1e400`, `-0.0`, `"\u00e9"`, `0.30000000000000004`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := Canonical(in)
		if err != nil {
			return
		}
		if !json.Valid(got) || !utf8.Valid(got) {
			t.Fatalf("Canonical(%q) = %q, which is not JSON", in, got)
		}
		again, err := Canonical(got)
		if err != nil || !bytes.Equal(again, got) {
			t.Errorf("Canonical(%q) = %q, %v; want no change", got, again, err)
		}
		spaced, err := Canonical(append([]byte(" \n"), in...))
		if err != nil || !bytes.Equal(spaced, got) {
			t.Errorf("white space changed %q into %q, %v", got, spaced, err)
		}
	})
}

// FuzzCanonicalNumber checks that two different numbers never have the same form, because approvals
// use the hash of the form.
func FuzzCanonicalNumber(f *testing.F) {
	for _, s := range []string{"0", "-0.0", "1e2", "1E-3", "9007199254740993", "0.1", "5e-324", "2.2250738585072011e-308", "1.7976931348623157e308", "1e400"} {
		f.Add(s, s+"0")
		f.Add(s, "9007199254740992")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, okX := new(big.Rat).SetString(a)
		y, okY := new(big.Rat).SetString(b)
		if !okX || !okY || !json.Valid([]byte("["+a+","+b+"]")) {
			return
		}
		if x.Cmp(y) != 0 && canonicalNumber(a) == canonicalNumber(b) {
			t.Errorf("%s becomes %s, %s becomes %s", a, canonicalNumber(a), b, canonicalNumber(b))
		}
	})
}

func FuzzMatchGlob(f *testing.F) {
	for _, p := range []string{"", "*", "a*b", "**a", "*a*a*a*b"} {
		f.Add(p, "aaab")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern)+len(name) > 1<<10 {
			return
		}
		if got, want := MatchGlob(pattern, name), slowMatch(pattern, name); got != want {
			t.Errorf("MatchGlob(%q, %q) = %v, want %v", pattern, name, got, want)
		}
	})
}

// slowMatch matches with a table of all pairs of prefixes.
func slowMatch(pattern, name string) bool {
	row := make([]bool, len(name)+1)
	row[0] = true
	for _, p := range []byte(pattern) {
		next := make([]bool, len(name)+1)
		next[0] = p == '*' && row[0]
		for i := range len(name) {
			if p == '*' {
				next[i+1] = row[i+1] || next[i]
			} else {
				next[i+1] = row[i] && p == name[i]
			}
		}
		row = next
	}
	return row[len(name)]
}
