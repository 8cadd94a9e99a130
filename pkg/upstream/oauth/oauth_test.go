package oauth_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const (
	issuer   = "https://issuer.example"
	server   = "https://mcp.example/v1/mcp"
	redirect = "http://127.0.0.1:4711/callback"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A web answers requests with the pages of a test, and records the requests. A page is a body, or a
// status and a body. The page "down" is a broken connection. An address without a page has the
// status 404.
type web struct {
	pages map[string]string
	asked []string
	sent  []*http.Request
	forms []url.Values
}

func (w *web) Do(req *http.Request) (*http.Response, error) {
	w.asked, w.sent = append(w.asked, req.URL.String()), append(w.sent, req)
	if req.Body != nil {
		data, _ := io.ReadAll(req.Body)
		form, _ := url.ParseQuery(string(data))
		w.forms = append(w.forms, form)
	}
	page, ok := w.pages[req.URL.String()]
	status := http.StatusOK
	switch {
	case !ok:
		status = http.StatusNotFound
	case page == "down":
		return nil, &url.Error{Op: "Get", URL: req.URL.String(), Err: io.ErrUnexpectedEOF}
	case len(page) > 4 && page[3] == ' ':
		status = int(page[0]-'0')*100 + int(page[1]-'0')*10 + int(page[2]-'0')
		page = page[4:]
	}
	return &http.Response{
		StatusCode: status, Body: io.NopCloser(strings.NewReader(page)), Request: req,
	}, nil
}

// client returns the gateway's OAuth client. It sends its requests to a web with these pages.
func client(pages map[string]string) (*oauth.Client, *web) {
	w := &web{pages: pages}
	return &oauth.Client{HTTP: w, Agent: "test", Now: func() time.Time { return began }}, w
}

// metadata returns the metadata of an issuer, with further members.
func metadata(name string, members ...string) string {
	return `{"issuer":"` + name + `","authorization_endpoint":"` + name + `/authorize",` +
		`"token_endpoint":"` + name +
		`/token","code_challenge_methods_supported":["S256"]` +
		strings.Join(append([]string{""}, members...), ",") + `}`
}

func parse(t testing.TB, address string) *url.URL {
	u, err := url.Parse(address)
	require.OK(t, err)
	return u
}
