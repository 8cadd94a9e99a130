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
				t.Errorf("%q at %d", form, at)
			}
		}
	}
}
