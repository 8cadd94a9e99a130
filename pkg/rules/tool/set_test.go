package tool_test

import (
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func setOf(n int, members ...int) tool.Set {
	s := tool.NewSet(n)
	for _, i := range members {
		s.Add(i)
	}
	return s
}

func TestSet(t *testing.T) {
	all := func(s tool.Set) []int { return slices.Collect(s.All()) }
	s := setOf(70, 0, 63, 64, 69)
	for i, want := range map[int]bool{-1: false, 0: true, 1: false, 63: true, 64: true, 69: true, 70: false, 128: false, 1 << 40: false} {
		if s.Has(i) != want {
			t.Errorf("Has(%d) = %v, want %v", i, !want, want)
		}
	}
	if s.Len() != 4 || !slices.Equal(all(s), []int{0, 63, 64, 69}) {
		t.Errorf("members %v, Len = %d, want 4 members", all(s), s.Len())
	}
	for i := range s.All() {
		if i == 63 {
			break
		}
	}
	small := setOf(64, 1, 63)
	for _, tt := range []struct {
		name string
		got  tool.Set
		want []int
	}{
		{"intersect", s.Intersect(small), []int{63}},
		{"intersect, the other way round", small.Intersect(s), []int{63}},
		{"without", s.Without(small), []int{0, 64, 69}},
		{"without, the other way round", small.Without(s), []int{1}},
	} {
		if !slices.Equal(all(tt.got), tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, all(tt.got), tt.want)
		}
	}
	if !s.Meets(small) || small.Meets(setOf(70, 64)) || s.Meets(nil) {
		t.Error("Meets is false for sets with a common member, or true for sets without one")
	}
	s.AddAll(small)
	s.Remove(0)
	if !slices.Equal(all(s), []int{1, 63, 64, 69}) || !slices.Equal(all(small), []int{1, 63}) {
		t.Errorf("after AddAll and Remove %v and %v", all(s), all(small))
	}
}
