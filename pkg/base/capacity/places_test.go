package capacity_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
)

func TestYield(t *testing.T) {
	one := func(holder string, last int64) capacity.Place {
		return capacity.Place{Holder: holder, Size: 1, Last: last}
	}
	busy := func(p capacity.Place) capacity.Place { p.Busy = true; return p }
	sized := func(p capacity.Place, size int) capacity.Place { p.Size = size; return p }
	for _, tt := range []struct {
		name   string
		places []capacity.Place
		size   int
		want   int // for the holder "me"
	}{
		{"nothing is taken", nil, 1, -1},
		{"the heaviest gives way, not the longest idle", []capacity.Place{one("b", 1), one("a", 3), one("a", 2)}, 1, 2},
		{"a busy place is kept", []capacity.Place{busy(one("a", 1)), one("a", 2)}, 1, 1},
		{"the next heaviest, if the heaviest is busy", []capacity.Place{busy(one("a", 1)), busy(one("a", 2)), one("b", 3)}, 1, 2},
		{"all are busy", []capacity.Place{busy(one("a", 1)), busy(one("me", 2))}, 1, -1},
		{"my own, if I would be the heaviest", []capacity.Place{one("a", 1), one("me", 2), one("me", 3)}, 1, 1},
		{"never of a lighter holder", []capacity.Place{one("a", 1), busy(one("me", 2)), busy(one("me", 3))}, 1, -1},
		{"my own between equals", []capacity.Place{one("a", 1), one("a", 2), one("me", 3)}, 1, 2},
		{"an equal one, if I have nothing", []capacity.Place{one("a", 2), one("b", 1)}, 1, 1},
		{"by size, not by number", []capacity.Place{sized(one("a", 1), 9), one("b", 2), one("b", 3)}, 1, 0},
		{"the requested size counts", []capacity.Place{sized(one("a", 1), 9)}, 10, -1},
		{"a place without size frees nothing", []capacity.Place{sized(one("a", 1), 0), sized(one("a", 2), 9)}, 1, 1},
	} {
		if got := capacity.Yield(tt.places, "me", tt.size); got != tt.want {
			t.Errorf("%s: place %d, want %d", tt.name, got, tt.want)
		}
	}
}
