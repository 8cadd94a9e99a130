package identitytest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A grant is the authorization behind a code.
type grant struct{ challenge, redirect, resource, scope, client, nonce string }

// register accepts every client (RFC 7591).
func (i *Issuer) register(w http.ResponseWriter, r *http.Request) {
	var client map[string]any
	if err := json.NewDecoder(r.Body).Decode(&client); err != nil {
		http.Error(w, `{"error":"invalid_client_metadata"}`, http.StatusBadRequest)
		return
	}
	client["client_id"], client["client_id_issued_at"] = rand.Text(), time.Now().Unix()
	client["token_endpoint_auth_method"] = "none"
	data, err := json.Marshal(client)
	if err != nil {
		i.t.Error(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	if _, err := w.Write(data); err != nil {
		i.t.Error(err)
	}
}

// authorize consents immediately and sends the code to the client's address.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if c, ok := i.clientOf(q.Get("client_id")); ok {
		i.signIn(w, r, c)
		return
	}
	to, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("resource") == "" || q.Get("response_type") != "code" {
		http.Error(w, "bad authorization request", http.StatusBadRequest)
		return
	}
	code, scopes := rand.Text(), i.granted(q.Get("scope"))
	i.mu.Lock()
	i.codes[code] = grant{challenge: q.Get("code_challenge"), redirect: q.Get("redirect_uri"), resource: q.Get("resource"), scope: scopes}
	i.asked = append(i.asked, q.Get("scope"))
	i.mu.Unlock()
	answer := to.Query()
	answer.Set("code", code)
	answer.Set("state", q.Get("state"))
	to.RawQuery = answer.Encode()
	w.Header().Set("Location", to.String())
	w.WriteHeader(http.StatusFound)
}

// Grant sets the scopes that the issuer grants. The issuer leaves out requested scopes that are not
// in scopes.
func (i *Issuer) Grant(scopes ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.grants = scopes
}

func (i *Issuer) granted(asked string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out []string
	for _, s := range strings.Fields(asked) {
		if slices.Contains(i.grants, s) {
			out = append(out, s)
		}
	}
	return strings.Join(out, " ")
}

// Asked returns the scopes of each authorization request.
func (i *Issuer) Asked() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.asked)
}

// token exchanges a code for a token. It refuses if the verifier, the redirect address or the
// resource does not match the authorization request.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	code := r.PostFormValue("code")
	i.mu.Lock()
	g, ok := i.codes[code]
	delete(i.codes, code)
	i.mu.Unlock()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge || r.PostFormValue("redirect_uri") != g.redirect || r.PostFormValue("resource") != g.resource {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		return
	}
	if g.client != "" {
		i.identify(w, r, g)
		return
	}
	over := map[string]any{"scope": g.scope}
	for name, value := range i.Extra {
		over[name] = value
	}
	i.answer(w, map[string]any{
		"access_token": i.Token(g.resource, over), "token_type": "Bearer", "expires_in": 3600, "scope": g.scope,
	})
}
