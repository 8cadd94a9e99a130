package plural_test

import (
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/plural"
)

func TestOf(t *testing.T) {
	for n, want := range map[int]string{0: "0 servers", 1: "1 server", 2: "2 servers", 70: "70 servers"} {
		if got := plural.Of(n, "server"); got != want {
			t.Errorf("Of(%d) = %q, want %q", n, got, want)
		}
	}
}
