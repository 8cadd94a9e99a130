package upstream

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A signInServer answers 401 with a challenge, and serves metadata at its own path.
type signInServer struct {
	challenge, path, metadata string
	status                    int // of the metadata; 0: 200
}

// front returns the handler. requests counts all requests except POST.
func (s signInServer) front(t *testing.T, requests *atomic.Int64) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				if s.challenge != "" {
					w.Header().Set("WWW-Authenticate", s.challenge)
				}
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			requests.Add(1)
			if r.Header.Get("X-Api-Key") != "" || r.Header.Get("Authorization") != "" {
				t.Errorf("%s got a configured header", r.URL)
			}
			switch {
			case r.URL.Path != s.path:
				http.NotFound(w, r)
			case s.status != 0:
				w.WriteHeader(s.status)
			default:
				fmt.Fprint(w, s.metadata)
			}
		})
	}
}

const (
	wellKnown   = "/.well-known/oauth-protected-resource"
	resource    = `{"resource": "http://server0/mcp", "authorization_servers": ["https://login.example"], "scopes_supported": ["read", "write"]}`
	bearer      = `Bearer realm="a, resource_metadata=b", resource_metadata="http://server0:80/meta"`
	bearerScope = bearer + `, scope="mcp:use"`
)

// The outcome of a load explains how to sign in.
func TestSignInRequired(t *testing.T) {
	issuer := []string{"https://login.example"}
	for name, tt := range map[string]struct {
		server   signInServer
		header   string // configured header
		reason   string
		want     *outcome.Challenge
		requests int64
	}{
		"the challenge names the metadata": {
			signInServer{bearerScope, "/meta", resource, 0}, "X-Api-Key", outcome.ReasonSignInRequired,
			&outcome.Challenge{Text: bearerScope, Scopes: []string{"mcp:use"}, Metadata: "http://server0:80/meta", Issuers: issuer}, 1},
		"metadata at the well-known address of the path": {
			signInServer{"", wellKnown + "/mcp", resource, 0}, "", outcome.ReasonSignInRequired,
			&outcome.Challenge{Scopes: []string{"read", "write"}, Listed: true, Metadata: "http://server0:80" + wellKnown + "/mcp", Issuers: issuer}, 1},
		"there is no metadata": {signInServer{challenge: "Bearer"}, "", outcome.ReasonSignInRequired, &outcome.Challenge{Text: "Bearer"}, 2},
		"no challenge":         {signInServer{}, "", outcome.ReasonAuthRequired, nil, 2},
		"the name of the scheme in a value": {
			signInServer{challenge: `Basic realm="Bearer"`}, "", outcome.ReasonAuthRequired, &outcome.Challenge{Text: `Basic realm="Bearer"`}, 0},
		"a second scheme": {
			signInServer{challenge: `Basic realm="x", bearer`}, "", outcome.ReasonSignInRequired, &outcome.Challenge{Text: `Basic realm="x", bearer`}, 2},
		"another scheme is required": {
			signInServer{`Basic realm="x"`, wellKnown, resource, 0}, "", outcome.ReasonAuthRequired, &outcome.Challenge{Text: `Basic realm="x"`}, 0},
		"a credential was refused": {
			signInServer{bearerScope, "/meta", resource, 0}, "Authorization", outcome.ReasonAuthRequired,
			&outcome.Challenge{Text: bearerScope, Scopes: []string{"mcp:use"}, Sent: true, Metadata: "http://server0:80/meta"}, 0},
		"a credential was refused, without a challenge": {
			signInServer{}, "Authorization", outcome.ReasonAuthRequired, &outcome.Challenge{Sent: true}, 0},
		"the metadata is elsewhere": {
			signInServer{challenge: `Bearer resource_metadata=http://server1:80/meta`}, "", outcome.ReasonSignInRequired,
			&outcome.Challenge{Text: `Bearer resource_metadata=http://server1:80/meta`, Fault: "the server's metadata are at another scheme, host or port, and were not read"}, 0},
		"the metadata redirects": {
			signInServer{bearer, "/meta", "", 307}, "", outcome.ReasonSignInRequired,
			&outcome.Challenge{Text: bearer, Fault: "server0:80 answers a request for metadata with HTTP status 307"}, 1},
		"the metadata is about another resource": {
			signInServer{bearer, "/meta", `{"resource": "http://server0/mc", "authorization_servers": ["https://login.example"]}`, 0}, "", outcome.ReasonResourceMismatch,
			&outcome.Challenge{Text: bearer, Fault: "the server's metadata describe another resource"}, 1},
		"the metadata is hostile": {
			signInServer{bearer, "/meta", `{"resource": "http://server0/mcp", "scopes_supported": ["a b", "\u001b[2J", "<b>", "` + strings.Repeat("x", maxNamed+1) + `"],
				"authorization_servers": ["javascript:alert(1)", "https://a\u001b.example", "https://u:p@b.example", "https://c.example/` + strings.Repeat("x", maxNamed) + `", "https://d.example"]}`, 0},
			"", outcome.ReasonSignInRequired,
			&outcome.Challenge{Text: bearer, Scopes: []string{"<b>"}, Listed: true, Metadata: "http://server0:80/meta", Issuers: []string{"https://d.example"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var requests, elsewhere atomic.Int64
			f := newFixture(t, Options{}, upstreamtest.Options{Front: tt.server.front(t, &requests)}, upstreamtest.Options{Front: tt.server.front(t, &elsewhere)})
			if tt.header != "" {
				f.targets[0].Headers = map[string]string{tt.header: "swordfish"}
			}
			out := f.load()
			if out.Status != denied || out.Reason != tt.reason || requests.Load() != tt.requests || elsewhere.Load() != 0 {
				t.Errorf("%s %s after %d requests and %d elsewhere, want %s after %d and none", out.Status, out.Reason, requests.Load(), elsewhere.Load(), tt.reason, tt.requests)
			}
			if diff := cmp.Diff(tt.want, out.Challenge); diff != "" {
				t.Error(diff)
			}
			if _, err := f.call(Call{Name: "x"}); strings.Contains(err.Error(), "login.example") {
				t.Errorf("the error of a call names the issuer: %v", err)
			}
		})
	}
}

// Hanging metadata delays a load only by the time limit of metadata.
func TestSignInMetadataHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{}, upstreamtest.Options{Front: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					<-r.Context().Done()
				}
				w.Header().Set("WWW-Authenticate", bearer)
				w.WriteHeader(http.StatusUnauthorized)
			})
		}})
		began := time.Now()
		f.loads(denied, outcome.ReasonSignInRequired)
		if took := time.Since(began); took != metadataTime {
			t.Errorf("Load took %v, want %v", took, metadataTime)
		}
	})
}
