package repocheck

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// units contains the factors of the units in docs/cost.md.
var units = map[string]float64{"M": 1e6, "ms": 1e-3, "MB": 1e-3, "KB": 1e-6, "a million": 1e-6, "a thousand": 1e-3}

var (
	costRow    = regexp.MustCompile(`(?m)^\| ([^|]+) \| \**\$([\d.,]+)\** \|$`)
	costFirst  = regexp.MustCompile(`[\d.,]+½?( [^\d]*)?$`) // after the label
	costFactor = regexp.MustCompile(`^\$?([\d.,]+)(½?) ?(M\b|ms\b|MB\b|KB\b)?.*?(?:(a million|a thousand).*)?$`)
)

// product computes the product before a sum of money: "S3, 3 × 86,400 `GET`s × $0.0004 a thousand".
// ok is false if there is no product.
func product(t *testing.T, text string) (value float64, ok bool) {
	t.Helper()
	parts := strings.Split(text, " × ")
	if len(parts) < 2 {
		return 0, false
	}
	parts[0] = costFirst.FindString(parts[0])
	value = 1
	for _, part := range parts {
		m := costFactor.FindStringSubmatch(part)
		if m == nil {
			return 0, false
		}
		n, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
		require.OK(t, err)
		if m[2] != "" {
			n += .5
		}
		for _, unit := range m[3:] {
			if by := units[unit]; by != 0 {
				n *= by
			}
		}
		value *= n
	}
	return value, true
}

// The sums of docs/cost.md are equal to the products beside them, and each total is the sum of its
// parts.
func TestCostsAddUp(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "cost.md"))
	require.OK(t, err)
	checked := 0
	for _, table := range strings.Split(string(page), "\n\n") {
		sum := 0.0
		for _, m := range costRow.FindAllStringSubmatch(table, -1) {
			says, err := strconv.ParseFloat(strings.ReplaceAll(m[2], ",", ""), 64)
			require.OK(t, err)
			if m[1] == "**together**" {
				if checked++; math.Abs(sum-says) > .011 {
					t.Errorf("the total is $%.2f, docs/cost.md says $%.2f", sum, says)
				}
				continue
			}
			sum += says
			value, ok := product(t, m[1])
			if !ok {
				continue
			}
			if checked++; math.Abs(value-says) > .0055 {
				t.Errorf("%s is $%.3f, docs/cost.md says $%.2f", m[1], value, says)
			}
		}
	}
	if checked < 8 {
		t.Errorf("found %d sums: the search is broken", checked)
	}
}
