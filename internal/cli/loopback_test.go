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
		const page = "https://issuer.example/authorize?state=mine"
		finish := func(query string) string {
			queries = append(queries, query)
			return "Signed in at <b>."
		}
		ended <- callback(t.Context(), l, page, "issuer.example", finish)
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
		if status, page := get(query); status != http.StatusBadRequest ||
			!strings.Contains(page, "another sign-in") {
			t.Errorf("%s: %d %s", query, status, page)
		}
	}
	_, page := get("code=x&state=mine")
	require.OK(t, <-ended)
	if len(queries) != 1 ||
		!strings.Contains(page, "Signed in at &lt;b&gt;. You can close this page.") {
		t.Errorf("queries %q, page %s", queries, page)
	}
}

func TestCallbackWithoutPerson(t *testing.T) {
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for want, ctx := range map[string]context.Context{
		"nobody came back from issuer.example in time": late, "interrupted": stopped,
	} {
		l, err := listenNear(t.Context(), "a name")
		require.OK(t, err)
		err = callback(
			ctx,
			l,
			"https://issuer.example/?state=x",
			"issuer.example",
			func(string) string { return "" },
		)
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
