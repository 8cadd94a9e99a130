package state

import (
	"fmt"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
)

func TestDeadline(t *testing.T) {
	for name, pass := range approvaltest.ThreeSeconds {
		t.Run(name, func(t *testing.T) {
			m := &approvaltest.Clock{Begin: time.Now()}
			d := after(m.Now(), 2*time.Second)
			if d.hasPassed(m.Now()) {
				t.Error("a new deadline has passed")
			}
			pass(m)
			if !d.hasPassed(m.Now()) {
				t.Error("the deadline has not passed 3 s later")
			}
		})
	}
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) // without a monotonic clock
	if d := after(noon, 2*time.Second); !d.hasPassed(noon.Add(-time.Hour)) || d.hasPassed(noon.Add(time.Second)) {
		t.Error("no monotonic clock: want the deadline passed an hour before, and not passed 1 s later")
	}
	if !(deadline{}).hasPassed(noon) {
		t.Error("the zero deadline has not passed")
	}
}

func TestCache(t *testing.T) {
	c := cache[int]{max: 3}
	made := 0
	for n := range 10 {
		got := c.get(fmt.Sprint(n), func() int { made++; return n })
		if again := c.get(fmt.Sprint(n), func() int { made++; return -1 }); got != n || again != n {
			t.Errorf("got %d, then %d; want %d", got, again, n)
		}
	}
	if made != 10 || len(c.entries) != 3 {
		t.Errorf("made %d, kept %d; want 10 and 3", made, len(c.entries))
	}
	c.get("", func() int { return 0 })
	c.get("", func() int { return 0 })
	if len(c.entries) != 3 {
		t.Error("the cache keeps a value under the empty key")
	}
}
