package decide

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/golden"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// docs/http-api.md lists each code with its HTTP status.
func TestCodesOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/http-api.md")
	require.OK(t, err)
	listed := map[string]string{}
	for _, cells := range golden.Rows(t, string(page), "| code |") {
		listed[strings.Trim(cells[0], "`")] = cells[1]
	}
	for _, c := range Codes() {
		if got, want := listed[string(c)], strconv.Itoa(c.status()); got != want {
			t.Errorf("docs/http-api.md has the status %q for the code %s, want %s", got, c, want)
		}
		delete(listed, string(c))
	}
	for _, c := range slices.Sorted(maps.Keys(listed)) {
		t.Errorf("docs/http-api.md lists the code %s, which does not exist", c)
	}
}
