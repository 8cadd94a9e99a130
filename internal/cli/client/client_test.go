package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestGatewayThatFails(t *testing.T) {
	answers := func(status int, contentType, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	problem := func(status int, body string) string { return answers(status, "application/problem+json", body) }
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cut.Close()
	html := answers(200, "text/html", `<h1>hi</h1>`)
	for name, test := range map[string]struct {
		url  string
		body any
		want string
	}{
		"dead":         {"http://127.0.0.1:1", nil, "no gateway answers at http://127.0.0.1:1: nothing listens there; start it with portcullis serve"},
		"cut off":      {cut.URL, nil, "does not answer"},
		"cut off POST": {cut.URL, 1, "may have carried out the request"},
		"no token":     {problem(401, `{"detail":"who are you"}`), nil, "does not accept the credential (who are you); set PORTCULLIS_TOKEN"},
		"no right":     {problem(403, `{"detail":"operators alone"}`), nil, "test: operators alone"},
		"parts":        {problem(422, `{"detail":"bad","errors":[{"location":"body.x","message":"missing"}]}`), nil, "bad; body.x missing"},
		"other server": {answers(404, "text/html", `<h1>nginx</h1>`), nil, "which no Portcullis gateway does: check --url"},
		"redirect":     {answers(302, "text/html", ``), nil, "answers 302"},
		"no JSON":      {html, nil, "test: the gateway's answer cannot be read"},
		"no JSON POST": {html, 1, "may have carried out the request, and its answer cannot be read"},
		"no URL":       {"gate.example.com", nil, "want a URL"},
		"no such host": {"http://nowhere.invalid", nil, "does not answer"},
	} {
		key := func() (secret.Text, error) { return secret.New("pct_x"), nil }
		c := &Client{Command: "test", Base: test.url, Credential: key}
		var out any
		err := c.read(t.Context(), "/admin/tools", nil, test.body, &out)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "pct_x") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestGatewayThatIsSilent(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer s.Close()
	defer close(release)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	require.OK(t, err)
	_, err = Send(50*time.Millisecond, req)
	if err == nil || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("a gateway that does not answer: %v", err)
	}
	c := &Client{Command: "test", Base: s.URL}
	for want, body := range map[string]any{"nothing was changed": nil, "look before you repeat it": 1} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := c.read(ctx, "/admin/tools", nil, body, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("interrupted: %v, want %q", err, want)
		}
		cancel()
	}
}

// A slow is a gateway that never answers.
type slow struct{}

func (slow) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// After an interrupt, a request about many items may continue for a while, so that its result is
// known.
func TestDecideAllInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, interrupt)
		c := &Client{Command: "test", Base: "http://gate.example.com", Transport: slow{}}
		began := time.Now()
		_, err := c.DecideAll(ctx, BulkDecision{Items: []admin.BulkItem{{ID: "s:a"}}}, nil)
		if took := time.Since(began); err == nil || took != time.Second+grace {
			t.Errorf("DecideAll = %v after %v, want an error after %v", err, took, time.Second+grace)
		}
	})
}
