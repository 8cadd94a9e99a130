package identitytest

import (
	"crypto/rand"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
)

// A client is a registered client at which people sign in.
type client struct{ id, secret, redirect string }

// A Bend describes how an issuer breaks the protocol. Each of its functions may be nil.
type Bend struct {
	Metadata func(map[string]any)                          // changes the issuer's metadata
	Answer   func(url.Values)                              // changes the parameters of the redirect to the client
	Token    func(map[string]any)                          // changes the claims of an ID token
	Trade    func(http.ResponseWriter, *http.Request) bool // answers the request with a code; false: the issuer answers correctly
	ID       func(string) string                           // changes a signed ID token
}

// Bend makes the issuer break the protocol from now on. The zero Bend makes it correct again.
func (i *Issuer) Bend(b Bend) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.bend = b
}

func (i *Issuer) bent() Bend {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.bend
}

// Client registers a client at which people sign in, with its redirect address. A client without a
// secret is a public client. The person who signs in is [Issuer.Subject], with the claims of
// [Issuer.Extra].
func (i *Issuer) Client(id, secret, redirect string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.clients[id] = client{id, secret, redirect}
}

// Become changes the person who signs in, and their claims.
func (i *Issuer) Become(subject string, claims map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.Subject, i.Extra = subject, claims
}

// Ask makes the issuer show every person a page with one button, before it sends the browser back.
func (i *Issuer) Ask() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asks = true
}

// SignedOut returns how often somebody signed out at the issuer.
func (i *Issuer) SignedOut() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ended
}

// Visit requests the address to which a client sends the browser for a sign-in. It returns the
// address to which the issuer then sends the browser.
func (i *Issuer) Visit(address string) *url.URL {
	i.t.Helper()
	w := httptest.NewRecorder()
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(address, i.URL+"/authorize?") {
		i.t.Fatalf("%q leads to no sign-in: %v", address, err)
	}
	i.authorize(w, httptest.NewRequestWithContext(i.t.Context(), http.MethodGet, u.RequestURI(), nil))
	back, err := url.Parse(w.Header().Get("Location"))
	if err != nil || w.Code != http.StatusFound {
		i.t.Fatalf("the issuer answers %d %s", w.Code, w.Body)
	}
	return back
}

func (i *Issuer) clientOf(id string) (client, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	c, ok := i.clients[id]
	return c, ok
}

// signIn signs in the current person, and sends the browser back with a code.
func (i *Issuer) signIn(w http.ResponseWriter, r *http.Request, c client) {
	q := r.URL.Query()
	to, err := url.Parse(c.redirect)
	if err != nil || q.Get("redirect_uri") != c.redirect || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 ||
		q.Get("response_type") != "code" || len(q.Get("state")) < 22 || len(q.Get("nonce")) < 22 || !slices.Contains(strings.Fields(q.Get("scope")), "openid") {
		http.Error(w, "bad authorization request", http.StatusBadRequest)
		return
	}
	i.mu.Lock()
	asks := i.asks && !q.Has("agreed")
	i.mu.Unlock()
	if asks {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Issuer</title><h1>Issuer</h1><a id="agree" href="%s">Continue</a>`, html.EscapeString(r.URL.RequestURI()+"&agreed=1"))
		return
	}
	code := rand.Text()
	i.mu.Lock()
	i.codes[code] = grant{challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri"), scope: q.Get("scope"), client: c.id, nonce: q.Get("nonce")}
	i.asked = append(i.asked, q.Get("scope"))
	i.mu.Unlock()
	answer := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {i.URL}}
	if bend := i.bent().Answer; bend != nil {
		bend(answer)
	}
	to.RawQuery = answer.Encode()
	w.Header().Set("Location", to.String())
	w.WriteHeader(http.StatusFound)
}

// identify returns an ID token for a code, to the client for which the code was made.
func (i *Issuer) identify(w http.ResponseWriter, r *http.Request, g grant) {
	b := i.bent()
	if b.Trade != nil && b.Trade(w, r) {
		return
	}
	c, _ := i.clientOf(g.client)
	id, secret, basic := r.BasicAuth()
	if basic { // RFC 6749, 2.3.1
		id, secret = unescaped(id), unescaped(secret)
	} else {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if id != c.id || secret != c.secret || r.PostFormValue("grant_type") != "authorization_code" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":"invalid_client"}`))
		return
	}
	i.mu.Lock()
	over := map[string]any{"nonce": g.nonce}
	maps.Copy(over, i.Extra)
	i.mu.Unlock()
	claims := i.Claims(g.client, over)
	if b.Token != nil {
		b.Token(claims)
	}
	token := Sign(i.t, i.Key(), claims)
	if b.ID != nil {
		token = b.ID(token)
	}
	i.answer(w, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 300, "scope": g.scope, "id_token": token})
}

func unescaped(s string) string {
	out, err := url.QueryUnescape(s)
	if err != nil {
		return ""
	}
	return out
}

// endSession is the endpoint at which people sign out.
func (i *Issuer) endSession(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	i.ended++
	i.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Signed out</title><h1>Signed out of the issuer</h1>`)
}
