package cli

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// A page of another site can send a request to the port of a sign-in. Only the callback with the
// state of the sign-in ends it.
func TestCallback(t *testing.T) {
	taken, err := listenNear(t.Context(), "a name")
	require.OK(t, err)
	defer taken.Close()
	l, err := listenNear(t.Context(), "a name") // the usual port is in use
	require.OK(t, err)
	var queries []string
	ended := make(chan error, 1)
	go func() {
		ended <- callback(t.Context(), l, "https://issuer.example/authorize?state=mine", "issuer.example", func(query string) string {
			queries = append(queries, query)
			return "Signed in at <b>."
		})
	}()
	get := func(query string) (int, string) {
		resp, err := http.Get("http://" + l.Addr().String() + "/callback?" + query)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer resp.Body.Close()
		page, _ := io.ReadAll(resp.Body) // a partial page fails below
		return resp.StatusCode, string(page)
	}
	for _, query := range []string{"code=x&state=forged", "code=x", "error=access_denied"} {
		if status, page := get(query); status != http.StatusBadRequest || !strings.Contains(page, "another sign-in") {
			t.Errorf("%s: %d %s", query, status, page)
		}
	}
	_, page := get("code=x&state=mine")
	require.OK(t, <-ended)
	if len(queries) != 1 || !strings.Contains(page, "Signed in at &lt;b&gt;. You can close this page.") {
		t.Errorf("queries %q, page %s", queries, page)
	}
}

func TestCallbackWithoutPerson(t *testing.T) {
	for cause, want := range map[error]string{
		context.DeadlineExceeded: "nobody came back from issuer.example in time", context.Canceled: "interrupted",
	} {
		l, err := listenNear(t.Context(), "a name")
		require.OK(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		if cause == context.Canceled {
			ctx, cancel = context.WithCancel(t.Context())
			cancel()
		}
		defer cancel()
		err = callback(ctx, l, "https://issuer.example/?state=x", "issuer.example", func(string) string { return "" })
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
