package upstream

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// FuzzAnchors holds the tables against looking for each anchor by itself.
func FuzzAnchors(f *testing.F) {
	f.Add("secretvalue0", "another1token", []byte("xx secretvalue0 yy"))
	f.Add("aaaaaaaa", "aaaab", []byte("aaabaaaaaab"))
	f.Add("a+b", "---", []byte("x"))
	f.Fuzz(func(t *testing.T, one, two string, text []byte) {
		a := newAnchors([]string{one, two})
		want := bytes.Contains(text, anchor(one)) || bytes.Contains(text, anchor(two))
		if got := a.in(text); got != want {
			t.Errorf("in(%q) of %q and %q = %v", text, anchor(one), anchor(two), got)
		}
	})
}

func TestAnchorsAreFoundWhereverTheyStand(t *testing.T) {
	var forms []string
	for i := range 20 {
		forms = append(forms, fmt.Sprintf("%dtoken%dvalue-%d", i, i*i, i))
	}
	a := newAnchors(forms)
	for _, form := range forms {
		for at := range 40 {
			text := slices.Concat(bytes.Repeat([]byte("token"), 9)[:at], []byte(form))
			if !a.in(text) || a.in(text[:len(text)-8]) {
				t.Errorf("%q at %d", form, at)
			}
		}
	}
}
