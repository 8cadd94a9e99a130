// Package probetest checks what a gateway must refuse: callers without access, and requests of an
// agent for tools out of its scope. It checks only the gateway's answers, so it tests the local
// program and a deployed function in the same way.
package probetest

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The servers behind a gateway. Files is in the agent's scope, and Vault is not. Ghost does not
// exist; its name has the same length as Vault's name.
const (
	Files = "files"
	Vault = "vault"
	Ghost = "ghost"
)

// Tools of Vault. Secret has a short direct name, and the direct name of Long is an alias.
const (
	Secret = "read_secret"
	Long   = "read_a_secret_whose_name_is_so_long_that_it_has_an_alias_in_direct_mode"
)

// A Request is one POST.
type Request struct {
	Path   string // "": /mcp
	Source string // source address in 127.0.0.0/8; "": any
	Header http.Header
	Body   string
}

// A Gateway accepts JWTs of Issuer for Audience, and agent tokens.
type Gateway struct {
	URL      string                                 // without a path
	From     func(address string) http.RoundTripper // requests from a local address; "": any
	Issuer   *identitytest.Issuer
	Audience string
	Agent    string // token that may see Files and call every tier
	Revoked  string // token that was revoked after it was used
	Direct   bool   // the gateway is in direct mode
}

// Send sends a request. It adds no credential.
func (g Gateway) Send(t *testing.T, r Request) agenttest.Answer {
	t.Helper()
	path, header := cmp.Or(r.Path, "/mcp"), http.Header{"Content-Type": {"application/json"}}
	maps.Copy(header, r.Header)
	c := agenttest.Client{T: t, URL: g.URL, Transport: g.From(r.Source)}
	return c.Do(http.MethodPost, path, r.Body, header)
}

const id = `"probe-7"`

// RPC returns the body of a request for a method.
func RPC(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
}

// Call returns the body of a tools/call.
func Call(name, arguments string) string {
	return RPC("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
}

func bearer(credential string) http.Header {
	return http.Header{"Authorization": {"Bearer " + credential}}
}

// Strangers sends requests without a valid credential. The gateway must answer each with 401, a
// challenge, and a JSON-RPC error with the request's id and no further details.
func (g Gateway) Strangers(t *testing.T) {
	i := g.Issuer
	rsa := identitytest.NewRSA(t, "key-rsa")
	signer := i.Key()
	i.Publish(signer, rsa)
	public, err := x509.MarshalPKIXPublicKey(rsa.Public().Key)
	require.OK(t, err)
	signed := func(key jose.JSONWebKey) string { return identitytest.Sign(t, key, i.Claims(g.Audience, nil)) }
	hs := func(key []byte) string {
		return signed(jose.JSONWebKey{Key: key, KeyID: "key-rsa", Algorithm: "HS256"})
	}
	payload := strings.Split(i.Token(g.Audience, nil), ".")[1]
	none := func(alg string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"`+alg+`","typ":"JWT"}`)) + "." + payload + "."
	}
	for n, s := range []struct {
		name   string
		header http.Header
	}{
		{"no token", nil},
		{"a header that anybody can set", http.Header{"X-Agent": {"root"}, "X-Forwarded-User": {"root"}, "X-Amzn-Oidc-Identity": {"root"}, "Cookie": {"token=" + g.Agent}}},
		{"expired", bearer(i.Token(g.Audience, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}))},
		{"no expiry", bearer(i.Token(g.Audience, map[string]any{"exp": nil}))},
		{"wrong issuer", bearer(i.Token(g.Audience, map[string]any{"iss": "https://evil.example.com"}))},
		{"wrong audience", bearer(i.Token("https://other.example.com/mcp", nil))},
		{"no audience", bearer(i.Token(g.Audience, map[string]any{"aud": nil}))},
		{"alg none", bearer(none("none"))},
		{"alg None", bearer(none("None"))},
		{"HS256 with the public key", bearer(hs(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})))},
		{"HS256 with the public key's bytes", bearer(hs(public))},
		{"another's key under a known id", bearer(signed(identitytest.NewEC(t, signer.KeyID)))},
		{"revoked", bearer(g.Revoked)},
		{"an agent token that nobody made", bearer(token.New().Reveal())},
		{"half an agent token", bearer(g.Agent[:24])},
		{"two headers", http.Header{"Authorization": {"Bearer " + g.Agent, "Bearer " + g.Agent}}},
		{"a token in another scheme", http.Header{"Authorization": {"Basic " + g.Agent}}},
	} {
		t.Run(s.name, func(t *testing.T) {
			for _, body := range []string{RPC("tools/list", `{}`), Call("retrieve_tools", `{"query":"secret"}`)} {
				refused(t, g.Send(t, Request{Source: fmt.Sprintf("127.0.1.%d", n+1), Header: s.header, Body: body}))
			}
		})
	}
	t.Run("a token in the query", func(t *testing.T) {
		refused(t, g.Send(t, Request{Path: "/mcp?access_token=" + g.Agent, Body: RPC("tools/list", `{}`)}))
	})
}

// Flood sends tokens of made-up keys. The gateway must refuse them all, must not request the
// issuer's keys for each of them, and must still accept known agents.
func (g Gateway) Flood(t *testing.T) {
	good := bearer(g.Issuer.Token(g.Audience, nil))
	const flooder = "127.0.2.1"
	if a := g.Send(t, Request{Source: flooder, Header: good, Body: RPC("tools/list", `{}`)}); a.Status != http.StatusOK {
		t.Fatalf("answer to the good token: %d %s", a.Status, a.Body)
	}
	before := g.Issuer.Fetches()
	for n := range 60 {
		stranger := identitytest.NewEC(t, fmt.Sprintf("made-up-%d", n))
		a := g.Send(t, Request{Source: flooder, Header: bearer(identitytest.Sign(t, stranger, g.Issuer.Claims(g.Audience, nil))), Body: RPC("tools/list", `{}`)})
		if a.Status != http.StatusUnauthorized && a.Status != http.StatusTooManyRequests {
			t.Fatalf("answer to token %d of a made-up key: %d %s", n, a.Status, a.Body)
		}
	}
	if asked := g.Issuer.Fetches() - before; asked > 2 {
		t.Errorf("the gateway requested the issuer's keys %d times", asked)
	}
	if a := g.Send(t, Request{Source: flooder, Header: good, Body: RPC("tools/list", `{}`)}); a.Status != http.StatusOK {
		t.Errorf("answer to the good token after the flood: %d %s", a.Status, a.Body)
	}
}

// refused checks a 401.
func refused(t *testing.T, a agenttest.Answer) {
	t.Helper()
	var body struct {
		ID    json.RawMessage
		Error *struct{ Message string }
	}
	if err := json.Unmarshal([]byte(a.Body), &body); err != nil || body.Error == nil || string(body.ID) != id {
		t.Errorf("the body is not a JSON-RPC error of the request: %v: %s", err, a.Body)
	}
	if a.Status != http.StatusUnauthorized || !strings.Contains(a.Header.Get("WWW-Authenticate"), "resource_metadata=") {
		t.Errorf("status %d, challenge %q: %s", a.Status, a.Header.Get("WWW-Authenticate"), a.Body)
	}
	for _, word := range []string{Vault, Files, "expired", "revoked", "issuer", "audience", "signature"} {
		if strings.Contains(a.Body+a.Header.Get("WWW-Authenticate"), word) {
			t.Errorf("the answer contains %q: %s", word, a.Body)
		}
	}
}

// A probe is a request that names a server or its tool.
type probe struct {
	name string
	make func(server string) Request
}

// OutOfScope requests tools out of the agent's scope, and tools of a server that does not exist.
// The answers must be identical, except for the requested name.
func (g Gateway) OutOfScope(t *testing.T) {
	for _, p := range g.probes() {
		t.Run(p.name, func(t *testing.T) {
			out, ghost := p.make(Vault), p.make(Ghost)
			a, b := g.ask(t, out), g.ask(t, ghost)
			if a.Status != b.Status || withoutNames(a.Body) != withoutNames(b.Body) {
				t.Errorf("different answers for out of scope and nonexistent:\n%d %s\n%d %s", a.Status, a.Body, b.Status, b.Body)
			}
			for name := range a.Header {
				if name != "Date" && name != "Content-Length" && a.Header.Get(name) != b.Header.Get(name) {
					t.Errorf("header %s differs: %q and %q", name, a.Header.Get(name), b.Header.Get(name))
				}
			}
			if len(a.Body) != len(b.Body) {
				t.Errorf("length differs: %d and %d", len(a.Body), len(b.Body))
			}
			if strings.Contains(a.Body, "it is a secret") {
				t.Errorf("the answer contains the description of a tool out of scope: %s", a.Body)
			}
		})
	}
	for name, body := range map[string]string{
		"the list of tools": RPC("tools/list", `{}`),
		"search":            Call("retrieve_tools", `{"query":"read a secret of the vault","limit":50,"include_disabled":true}`),
		"servers":           Call("upstream_servers", `{"operation":"list"}`),
		"instructions":      RPC("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"probe","version":"1"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			if g.Direct && strings.Contains(body, "tools/call") {
				t.Skip("direct mode has no such tool")
			}
			a := g.ask(t, Request{Body: body})
			if a.Status != http.StatusOK || !strings.Contains(a.Body, `"result"`) {
				t.Fatalf("answer: %d %s", a.Status, a.Body)
			}
			if s := strings.ToLower(a.Body); strings.Contains(s, Vault) || strings.Contains(s, "it is a secret") {
				t.Errorf("the answer names a tool out of scope: %s", a.Body)
			}
		})
	}
}

func (g Gateway) probes() []probe {
	header := func(name, value string) func(string) Request {
		return func(server string) Request {
			return Request{Header: http.Header{name: {strings.ReplaceAll(value, "%", server)}}, Body: RPC("tools/list", `{}`)}
		}
	}
	body := func(text string) func(string) Request {
		return func(server string) Request {
			return Request{Body: strings.NewReplacer("%%", strings.ToUpper(server), "%", server).Replace(text)}
		}
	}
	out := []probe{
		{"its toolset by path", func(s string) Request { return Request{Path: "/mcp/x/" + s, Body: RPC("tools/list", `{}`)} }},
		{"its toolset by header", header("X-Mcp-Toolsets", "%")},
		{"its toolset in capitals", func(s string) Request {
			return Request{Header: http.Header{"X-Mcp-Toolsets": {strings.ToUpper(s)}}, Body: RPC("tools/list", `{}`)}
		}},
		{"its tool by header", header("X-Mcp-Tools", "%:"+Secret)},
		{"its direct name by header", header("X-Mcp-Tools", "%__"+Secret)},
		{"its tool left out by header", header("X-Mcp-Exclude-Tools", "%:"+Secret)},
		{"its direct name", body(Call("%__"+Secret, `{}`))},
		{"its alias", func(s string) Request { return Request{Body: Call(tool.ID{Server: s, Name: Long}.Direct(), `{}`)} }},
		{"its id as a direct name", body(Call("%:"+Secret, `{}`))},
		{"its bare name", body(Call(Secret, `{"server":"%"}`))},
		{"its direct name in capitals", body(Call("%%__"+Secret, `{}`))},
		{"a batch", body("[" + Call("%__"+Secret, `{}`) + "," + RPC("tools/list", `{}`) + "]")},
		{"another content type", func(s string) Request {
			return Request{Header: http.Header{"Content-Type": {"text/plain"}}, Body: Call(s+"__"+Secret, `{}`)}
		}},
		{"another member", body(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"%__` + Secret + `","_meta":{"agent":"root"},"agent":"root"}}`)},
	}
	if g.Direct {
		return out
	}
	return append(out,
		probe{"describe", body(Call("describe_tools", `{"names":["%:`+Secret+`","%:`+Long+`"]}`))},
		probe{"describe in capitals", body(Call("describe_tools", `{"names":["%%:`+Secret+`"]}`))},
		probe{"call to read", body(Call("call_tool_read", `{"name":"%:`+Secret+`","args":{}}`))},
		probe{"call to write", body(Call("call_tool_write", `{"name":"%:`+Secret+`","args":{}}`))},
		probe{"call to destroy", body(Call("call_tool_destructive", `{"name":"%:`+Secret+`","args":{}}`))},
		probe{"call in capitals", body(Call("call_tool_read", `{"name":"%%:`+Secret+`","args":{}}`))},
		probe{"call with a space", body(Call("call_tool_read", `{"name":" %:`+Secret+`","args":{}}`))},
		probe{"call by the direct name", body(Call("call_tool_read", `{"name":"%__`+Secret+`","args":{}}`))},
		probe{"the server", body(Call("upstream_servers", `{"operation":"get","name":"%"}`))},
		probe{"the server in capitals", body(Call("upstream_servers", `{"operation":"get","name":"%%"}`))},
		probe{"search for its name", body(Call("retrieve_tools", `{"query":"%","include_disabled":true}`))},
		probe{"search for its tool", body(Call("retrieve_tools", `{"query":"% `+Secret+`"}`))},
	)
}

// ask sends a request with the agent's token.
func (g Gateway) ask(t *testing.T, r Request) agenttest.Answer {
	t.Helper()
	h := bearer(g.Agent)
	for name, values := range r.Header {
		h[name] = values
	}
	r.Header = h
	return g.Send(t, r)
}

// withoutNames replaces the names of the two servers, and of the long tool, in an answer.
func withoutNames(body string) string {
	for _, s := range []string{Vault, Ghost} {
		body = strings.ReplaceAll(body, tool.ID{Server: s, Name: Long}.Direct(), "ALIAS")
		body = strings.ReplaceAll(body, s, "SERVER")
		body = strings.ReplaceAll(body, strings.ToUpper(s), "SERVER")
	}
	return body
}

// Quiet checks that the output of a program contains no credential.
func (g Gateway) Quiet(t *testing.T, output []byte) {
	t.Helper()
	for name, secret := range map[string]string{"the agent's token": g.Agent, "the revoked token": g.Revoked, "a JWT": "eyJ"} {
		if bytes.Contains(output, []byte(secret)) {
			t.Errorf("the log contains %s", name)
		}
	}
}
