package upstream

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

func TestPrefilter(t *testing.T) {
	var forms []string
	for i := range 20 {
		forms = append(forms, fmt.Sprintf("%dtoken%dvalue-%d", i, i*i, i))
	}
	a := newPrefilter(forms)
	for _, form := range forms {
		for at := range 40 {
			text := slices.Concat(bytes.Repeat([]byte("token"), 9)[:at], []byte(form))
			if !a.mayHold(text) || a.mayHold(text[:len(text)-8]) {
				t.Errorf("mayHold is wrong for %q at offset %d, or for its beginning", form, at)
			}
		}
	}
}

// FuzzPrefilter compares the tables with a separate search for each anchor.
func FuzzPrefilter(f *testing.F) {
	f.Add("secretvalue0", "another1token", []byte("xx secretvalue0 yy"))
	f.Add("aaaaaaaa", "aaaab", []byte("aaabaaaaaab"))
	f.Add("a+b", "---", []byte("x"))
	f.Fuzz(func(t *testing.T, one, two string, text []byte) {
		a := newPrefilter([]string{one, two})
		want := bytes.Contains(text, longestRun(one)) || bytes.Contains(text, longestRun(two))
		if got := a.mayHold(text); got != want {
			t.Errorf("mayHold(%q) with the anchors %q and %q = %v", text, longestRun(one), longestRun(two), got)
		}
	})
}
