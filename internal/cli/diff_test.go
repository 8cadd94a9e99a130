package cli

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
)

// applied applies a unified diff to the lines of a text.
func applied(t *testing.T, before []string, diff string) (now []string) {
	t.Helper()
	at := 0 // number of consumed lines of before
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(line, "\n")
		var from, n, to, m int
		if _, err := fmt.Sscanf(line, "@@ -%d,%d +%d,%d @@", &from, &n, &to, &m); err == nil {
			if n > 0 {
				from--
			}
			now, at = append(now, before[at:from]...), from
			if m > 0 {
				to--
			}
			if len(now) != to {
				t.Fatalf("%s is at line %d of the current text:\n%s", line, len(now), diff)
			}
			continue
		}
		if line[0] != '+' {
			if before[at] != line[1:] {
				t.Fatalf("line %[2]d is %[1]q, but the diff has %[3]q:\n%[4]s",
					before[at], at+1, line, diff)
			}
			at++
		}
		if line[0] != '-' {
			now = append(now, line[1:])
		}
	}
	return append(now, before[at:]...)
}

func TestUnifiedDiff(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		before := make([]string, rng.IntN(40))
		for i := range before {
			before[i] = string(rune('a' + rng.IntN(8)))
		}
		now := slices.Clone(before)
		for range rng.IntN(4) {
			if i := rng.IntN(len(now) + 1); i < len(now) && rng.IntN(2) == 0 {
				now = slices.Delete(now, i, i+1)
			} else {
				now = slices.Insert(now, i, "new")
			}
		}
		var out strings.Builder
		marker{w: &out}.hunks(diffLines(review.Lines(linesOf(before), linesOf(now))))
		if got := applied(t, before, out.String()); !slices.Equal(got, now) {
			t.Fatalf("%q and %q give %q:\n%s", before, now, got, out.String())
		}
	}
}

func linesOf(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
