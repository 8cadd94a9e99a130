package repo

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// costTolerance is how much a counted number may differ from the number in the page, as a share. A
// difference is possible because the page rounds, and because times and ids in log lines have
// different lengths.
const costTolerance = .15

// WantCost compares a measured number with the number in the row of docs/cost.md that has the
// label. They may differ by costTolerance.
func WantCost(t testing.TB, label string, counted float64) {
	t.Helper()
	wantCost(t, label, counted, costTolerance)
}

// WantCount is [WantCost] for a number that is counted, so that the row must have exactly it.
func WantCount(t testing.TB, label string, counted int) {
	t.Helper()
	wantCost(t, label, float64(counted), 0)
}

func wantCost(t testing.TB, label string, counted, tolerance float64) {
	t.Helper()
	page, err := os.ReadFile(Path("docs/cost.md"))
	require.OK(t, err)
	m := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(label) + ` \| ([\d.]+)`).FindSubmatch(page)
	if m == nil {
		t.Fatalf("docs/cost.md has no row %q with a number; counted %.2f", label, counted)
	}
	says, err := strconv.ParseFloat(string(m[1]), 64)
	require.OK(t, err)
	if t.Logf("%s: %.2f", label, counted); math.Abs(counted-says) > tolerance*says {
		t.Errorf("%s: counted %.2f, docs/cost.md says %g", label, counted, says)
	}
}
