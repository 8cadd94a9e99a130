// Package issuertest runs an authorization server for tests, which can behave as real servers do,
// and puts an MCP server behind it that requires its tokens. Package secrettest finds its secrets.
package issuertest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/secrettest"
)

// Habits are the differences from a standard issuer. The zero value has metadata, registers
// clients, rotates refresh tokens and issues tokens that are valid for an hour.
type Habits struct {
	NoMetadata     bool // only /authorize, /token and /register
	NoRegistration bool // clients must be configured
	NoResource     bool // refuses the parameter resource
	NoRefresh      bool // gives no refresh token
	KeepRefresh    bool // does not rotate: an answer to a refresh has no refresh token
	ScopeOnRefresh bool // requires the parameter scope in a refresh
	ErrorIn200     bool // sends errors with status 200
	Form           bool // sends tokens as a form
	TextExpires    bool // sends expires_in as a text
	// its metadata promises the parameter iss in callbacks, but callbacks lack it
	NoIss     bool
	OtherIss  bool             // names another issuer in callbacks
	Path      string           // of the issuer, such as /tenant
	OtherSite bool             // is at localhost, which for browsers is a different site from 127.0.0.1
	Life      time.Duration    // of a token; 0: an hour
	Metadata  map[string]any   // replaces members of the metadata
	Answer    http.HandlerFunc // answers the token endpoint instead; nil: none
	Lose      func() bool      // reports whether to issue a token and lose the answer; nil: never
	Now       func() time.Time // nil: time.Now
}

// An Issuer is a running authorization server.
type Issuer struct {
	Habits
	URL string // the issuer

	mu       sync.Mutex
	clients  map[string][]string // redirect URIs by client
	codes    map[string]grant
	access   map[string]access
	families map[string]*family // by refresh token

	Registered int // clients
	Refreshed  int // successful refreshes
	Reused     int // refresh tokens that were used twice
	Revoked    int
	Grants     []url.Values // requests to the token endpoint
	Asked      []url.Values // authorization requests
}

type grant struct {
	client, redirect, challenge, scope string
}

type access struct {
	family  *family
	expires time.Time
}

type family struct {
	scope string
	ended bool
}

// New starts an issuer that ends with the test.
func New(t testing.TB, h Habits) *Issuer {
	i := &Issuer{
		Habits: h, clients: map[string][]string{}, codes: map[string]grant{},
		access: map[string]access{}, families: map[string]*family{},
	}
	if i.Now == nil {
		i.Now = time.Now
	}
	if i.Life == 0 {
		i.Life = time.Hour
	}
	mux := http.NewServeMux()
	if !h.NoMetadata {
		mux.HandleFunc("GET /.well-known/oauth-authorization-server"+h.Path, i.metadata)
	}
	mux.HandleFunc("GET "+h.Path+"/authorize", i.authorize)
	mux.HandleFunc("POST "+h.Path+"/token", i.token)
	mux.HandleFunc("POST "+h.Path+"/register", i.register)
	mux.HandleFunc("POST "+h.Path+"/revoke", i.revoke)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	if i.URL = s.URL + h.Path; h.OtherSite {
		i.URL = strings.Replace(i.URL, "127.0.0.1", "localhost", 1)
	}
	return i
}

func (i *Issuer) metadata(w http.ResponseWriter, _ *http.Request) {
	m := map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"revocation_endpoint": i.URL + "/revoke", "code_challenge_methods_supported": []string{"S256"},
		"scopes_supported": []string{
			"read",
			"write",
			"offline_access",
		},
		"token_endpoint_auth_methods_supported": []string{
			"none",
			"client_secret_basic",
			"client_secret_post",
		},
		"authorization_response_iss_parameter_supported": true,
	}
	if !i.NoRegistration {
		m["registration_endpoint"] = i.URL + "/register"
	}
	for name, value := range i.Metadata {
		m[name] = value
	}
	writeJSON(w, http.StatusOK, m)
}

func (i *Issuer) register(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Redirects []string `json:"redirect_uris"`
		Auth      string   `json:"token_endpoint_auth_method"`
	}
	if i.NoRegistration || json.NewDecoder(r.Body).Decode(&asked) != nil ||
		len(asked.Redirects) == 0 {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": "invalid_client_metadata"})
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.Registered++
	id := fmt.Sprintf("client-%d", i.Registered)
	i.clients[id] = asked.Redirects
	made := map[string]any{"client_id": id, "token_endpoint_auth_method": asked.Auth}
	if asked.Auth != "none" {
		made["client_secret"] = secrettest.New("client")
	}
	writeJSON(w, http.StatusCreated, made)
}

// AddClient registers a client by hand.
func (i *Issuer) AddClient(id string, redirects ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.clients[id] = redirects
}

// authorize agrees for the person, and sends the browser back.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.Asked = append(i.Asked, q)
	redirects, known := i.clients[q.Get("client_id")]
	if !known || !slices.Contains(redirects, q.Get("redirect_uri")) {
		http.Error(w, "unknown client or redirect", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}}
	if !i.NoIss {
		back.Set("iss", i.URL)
	}
	if i.OtherIss {
		back.Set("iss", "https://other.example")
	}
	if i.NoResource && q.Has("resource") {
		back.Set("error", "invalid_target")
	} else {
		code := secrettest.New("code")
		i.codes[code] = grant{q.Get("client_id"), q.Get("redirect_uri"), q.Get("code_challenge"), q.Get("scope")}
		back.Set("code", code)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	if i.Answer != nil {
		i.Answer(w, r)
		return
	}
	_ = r.ParseForm()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.Grants = append(i.Grants, r.PostForm)
	f := r.PostForm
	if i.NoResource && f.Has("resource") {
		i.fail(w, "invalid_target")
		return
	}
	var fam *family
	switch f.Get("grant_type") {
	case "authorization_code":
		g, ok := i.codes[f.Get("code")]
		delete(i.codes, f.Get("code"))
		sum := sha256.Sum256([]byte(f.Get("code_verifier")))
		if !ok || g.redirect != f.Get("redirect_uri") ||
			g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
			i.fail(w, "invalid_grant")
			return
		}
		fam = &family{scope: g.scope}
	case "refresh_token":
		var ok bool
		if fam, ok = i.families[f.Get("refresh_token")]; !ok || fam.ended {
			i.Reused++
			if fam != nil {
				fam.ended = true
			}
			i.fail(w, "invalid_grant")
			return
		}
		if i.ScopeOnRefresh && f.Get("scope") == "" {
			i.fail(w, "invalid_scope")
			return
		}
		if !i.KeepRefresh { // a second use revokes all tokens of the family
			i.families[f.Get("refresh_token")] = &family{ended: true}
		}
		i.Refreshed++
	default:
		i.fail(w, "unsupported_grant_type")
		return
	}
	i.give(w, fam, f.Get("grant_type") == "refresh_token")
}

// give answers a request with a token.
func (i *Issuer) give(w http.ResponseWriter, fam *family, again bool) {
	token := secrettest.New("access")
	i.access[token] = access{fam, i.Now().Add(i.Life)}
	m := map[string]any{
		"access_token": token,
		"token_type":   "Bearer",
		"expires_in":   int(i.Life.Seconds()),
		"scope":        fam.scope,
	}
	if i.TextExpires {
		m["expires_in"] = fmt.Sprint(int(i.Life.Seconds()))
	}
	if !i.NoRefresh && (!again || !i.KeepRefresh) {
		refresh := secrettest.New("refresh")
		i.families[refresh] = fam
		m["refresh_token"] = refresh
	}
	if i.Lose != nil && i.Lose() {
		panic(http.ErrAbortHandler)
	}
	if i.Form {
		form := url.Values{}
		for name, value := range m {
			form.Set(name, fmt.Sprint(value))
		}
		w.Header().Set("Content-Type", "application/x-www-form-urlencoded")
		_, _ = w.Write([]byte(form.Encode()))
		return
	}
	writeJSON(w, http.StatusOK, m)
}

func (i *Issuer) fail(w http.ResponseWriter, code string) {
	status := http.StatusBadRequest
	if i.ErrorIn200 {
		status = http.StatusOK
	}
	writeJSON(
		w,
		status,
		map[string]any{"error": code, "error_description": secrettest.New("words")},
	)
}

func (i *Issuer) revoke(_ http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.Revoked++
	if fam := i.families[r.PostForm.Get("token")]; fam != nil {
		fam.ended = true
	}
}

// EndAll ends every token and every refresh token.
func (i *Issuer) EndAll() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.access)
	for _, fam := range i.families {
		fam.ended = true
	}
}

// EndAccess ends every access token; refresh tokens stay valid.
func (i *Issuer) EndAccess() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.access)
}

// Count returns the current value of a counter.
func (i *Issuer) Count(n *int) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return *n
}

// valid reports whether a token is valid now.
func (i *Issuer) valid(token string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	a, ok := i.access[token]
	return ok && !a.family.ended && i.Now().Before(a.expires)
}

// Front makes an MCP server demand tokens of the issuer. scopes are in its challenge; "":
// none. It also serves the metadata of the resource.
func (i *Issuer) Front(scopes string) func(http.Handler) http.Handler {
	const wellKnown = "/.well-known/oauth-protected-resource"
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			base := "http://" + r.Host
			if strings.HasPrefix(r.URL.Path, wellKnown) {
				writeJSON(w, http.StatusOK, map[string]any{
					"resource": base + strings.TrimPrefix(
						r.URL.Path,
						wellKnown,
					), "authorization_servers": []string{i.URL},
					"scopes_supported": []string{"read", "write"},
				})
				return
			}
			token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !i.valid(token) {
				challenge := fmt.Sprintf("Bearer resource_metadata=%q", base+wellKnown+r.URL.Path)
				if scopes != "" {
					challenge += fmt.Sprintf(", scope=%q", scopes)
				}
				w.Header().Set("WWW-Authenticate", challenge)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Browse is a browser: it opens the address at the issuer, and returns the address to which the
// issuer sent it.
func Browse(t testing.TB, address string) string {
	t.Helper()
	c := http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := c.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusFound {
		t.Fatalf("the issuer answers %s", resp.Status)
	}
	return resp.Header.Get("Location")
}

// Query returns the query of the callback to which the browser was sent.
func Query(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(Browse(t, address))
	if err != nil {
		t.Fatal(err)
	}
	return u.RawQuery
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
