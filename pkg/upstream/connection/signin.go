package connection

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

// Paths of the gateway for issuers.
const (
	CallbackPath = "/admin/sign-in/callback"        // issuers send browsers back to it
	DocumentPath = "/.well-known/oauth-client.json" // of the client ID metadata document
)

// ClientID returns the address of the client ID metadata document of a gateway at base. It is "" if
// issuers cannot read the document, because base is no https address or is on this machine.
func ClientID(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "https" || hostname.IsLoopback(u.Hostname()) {
		return ""
	}
	return base + DocumentPath
}

// flowKey is the key for which the state of a sign-in is sealed. No document is stored under it.
var flowKey = document.Key{Part: "CRED#flow", ID: "FLOW"}

// A Request asks for a sign-in.
type Request struct {
	Server    oauth.Server
	Challenge oauth.Challenge // of the server's last refusal
	Redirect  string          // the callback
	Document  string          // address of the client ID metadata document; "": none
	By        string          // the person
	Confirm   bool            // the person agreed to a changed issuer or to a new key of the vault
}

// A Pending is a sign-in that waits for its callback.
type Pending struct {
	URL    string   // at the issuer, for the browser
	Sealed string   // the state, which only the gateway can read
	Issuer string   // its host
	Scopes []string // requested
	Guess  bool     // the issuer has no metadata, so its support of PKCE is unknown
}

// A flow is the sealed state of a sign-in.
type flow struct {
	Flow   oauth.Flow `json:"flow"`
	Client client     `json:"client"`
	Server string     `json:"server"`
	URL    string     `json:"url"`
	By     string     `json:"by"`
}

// Start prepares a sign-in. It stores nothing except a new registration. Errors are
// [oauth.Fault]s, or errors of the stores.
func (s *Service) Start(ctx context.Context, r Request) (Pending, error) {
	if err := s.needKey(ctx, r.Confirm); err != nil {
		return Pending{}, err
	}
	u, err := url.Parse(r.Server.URL)
	if err != nil {
		return Pending{}, &oauth.Fault{Code: oauth.BadMetadata, Text: "the server has no URL"}
	}
	set := r.Server.Settings
	if max := set.Scopes; max != nil {
		over := slices.DeleteFunc(slices.Clone(r.Challenge.Scopes), func(scope string) bool {
			return slices.Contains(max, scope)
		})
		if len(over) > 0 {
			return Pending{}, &oauth.Fault{
				Code: ScopeNotAllowed,
				Text: "the server requires more than the configured scopes: " + text.List(over, maxNamed) +
					"; add these scopes to auth.scopes, or remove auth.scopes",
			}
		}
	}
	d, err := s.oauth.Discover(ctx, u, r.Challenge, set)
	if err != nil {
		return Pending{}, err
	}
	k := keyOf(r.Server.Name, r.Server.URL)
	it, err := s.read(ctx, k)
	if err != nil {
		return Pending{}, err
	}
	if it.rev != 0 {
		before, err := s.openItem(ctx, k, it)
		switch {
		case err != nil && !isEnded(err):
			return Pending{}, err
		case err == nil && changed(&before, d) && !r.Confirm:
			return Pending{}, &oauth.Fault{
				Code: oauth.IssuerChanged,
				Text: "the server's issuer was " +
					oauth.Host(before.Issuer) + " and is now " + oauth.Host(d.Issuer.Issuer),
			}
		case err == nil && !changed(&before, d) && set.Scopes == nil:
			// A new sign-in requests the scopes of the last sign-in, and the scopes that a refusal
			// has named since then.
			d.Scopes = union(before.Requested, r.Challenge.Scopes)
		}
	}
	r.Server.Settings.Scopes = d.Scopes // a new registration names these scopes
	client, err := s.client(ctx, d.Issuer, r)
	if err != nil {
		return Pending{}, err
	}
	f := s.oauth.NewFlow(d, client, r.Redirect)
	state, err := s.sealFlow(ctx, flow{f, clientOf(client), r.Server.Name, r.Server.URL, r.By})
	if err != nil {
		return Pending{}, err
	}
	return Pending{
		URL: f.URL(), Sealed: state, Issuer: oauth.Host(d.Issuer.Issuer), Scopes: d.Scopes,
		Guess: d.Issuer.Guessed,
	}, nil
}

// ScopeNotAllowed is the code of a sign-in for which the server requires more than the configured
// scopes.
const ScopeNotAllowed oauth.Code = "scope_not_allowed"

// KeyMissing is the code of a sign-in at a vault whose key is missing.
const KeyMissing oauth.Code = "key_missing"

const maxNamed = 5 // scopes in a text

// needKey makes the key of a local vault before the first sign-in. If the vault has connections and
// no key, the key was lost. A new key would hide that the old file can be put back.
func (s *Service) needKey(ctx context.Context, confirm bool) error {
	local, ok := s.o.Keys.(*LocalKey)
	if !ok {
		return nil
	}
	if _, err := local.read(); !errors.Is(err, ErrNoKey) {
		return err
	}
	items, err := s.list(ctx)
	switch {
	case err != nil:
		return err
	case len(items) > 0 && !confirm:
		return &oauth.Fault{
			Code: KeyMissing,
			Text: "the key of the stored sign-ins is missing: put the " +
				"file vault.key back, or confirm that all servers need a new sign-in",
		}
	}
	return local.Make()
}

// client returns the client to use at an issuer, and stores a new registration.
func (s *Service) client(
	ctx context.Context,
	i oauth.Issuer,
	r Request,
) (oauth.Registration, error) {
	set := r.Server.Settings
	var err error
	if set.Secret, err = s.secret(ctx, set); err != nil {
		return oauth.Registration{}, err
	}
	k := clientKey(i.Issuer, r.Redirect)
	it, err := s.read(ctx, k)
	if err != nil {
		return oauth.Registration{}, err
	}
	var stored client
	if it.rev != 0 {
		if err := s.vault.open(ctx, k, it.sealed, &stored); err != nil {
			stored = client{} // another registration replaces it
		}
	}
	reg, made, err := s.oauth.Client(ctx, i, set, r.Redirect, r.Document, stored.registration())
	if err != nil || !made {
		return reg, err
	}
	sealed, err := s.vault.seal(ctx, k, clientOf(reg))
	if err != nil {
		return reg, err
	}
	data, err := json.Marshal(sealed)
	if err != nil {
		return reg, err
	}
	return reg, document.Replace(ctx, s.o.Docs, document.Doc{Key: k, Data: data, Rev: it.rev})
}

// sealFlow returns f as a text that fits into a cookie: the length of the wrapped key, the key and
// the sealed flow.
func (s *Service) sealFlow(ctx context.Context, f flow) (string, error) {
	sealed, err := s.vault.seal(ctx, flowKey, f)
	if err != nil {
		return "", err
	}
	data := binary.BigEndian.AppendUint16(nil, uint16(len(sealed.Key)))
	return base64.RawURLEncoding.EncodeToString(slices.Concat(data, sealed.Key, sealed.Text)), nil
}

const maxFlow = 32 << 10 // characters of a sealed state

func (s *Service) openFlow(ctx context.Context, state string) (f flow, err error) {
	forged := &oauth.Fault{
		Code: oauth.BadCallback,
		Text: "the sign-in did not begin at this gateway",
	}
	if len(state) > maxFlow || strings.ContainsAny(state, "\r\n") {
		return f, forged
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(state)
	if err != nil {
		return f, forged
	}
	if len(data) < 2 {
		return f, forged
	}
	n, data := int(binary.BigEndian.Uint16(data)), data[2:]
	if n > len(data) {
		return f, forged
	}
	text := sealed{Version: sealVersion, Key: data[:n], Text: data[n:]}
	if err := s.vault.open(ctx, flowKey, text, &f); errors.Is(err, ErrForeign) {
		return f, forged
	} else if err != nil {
		return f, err
	}
	f.Flow.Client = f.Client.registration()
	return f, nil
}

// Finish ends a sign-in with the query of the callback, and stores the connection. find returns the
// server as it is configured now. Errors are [oauth.Fault]s, or errors of the stores. After an
// error, nothing was stored, and an earlier connection is unchanged.
func (s *Service) Finish(
	ctx context.Context, sealed, query string, find func(name string) (oauth.Server, bool),
) (State, error) {
	f, err := s.openFlow(ctx, sealed)
	if err != nil {
		return State{}, err
	}
	server, ok := find(f.Server)
	if !ok || server.URL != f.URL {
		return State{}, &oauth.Fault{Code: oauth.BadCallback, Text: "the server " + f.Server +
			" was removed from the config or changed during the sign-in"}
	}
	t, err := s.oauth.Finish(ctx, f.Flow, query)
	if err != nil {
		if oauth.CodeOf(err) == oauth.InvalidClient && f.Client.Dynamic {
			s.forgetClient(ctx, f)
		}
		return State{}, err
	}
	i := f.Flow.Discovery.Issuer
	c := record{
		Server: f.Server, URL: f.URL, Resource: f.Flow.Discovery.Resource, Issuer: i.Issuer,
		Token: i.Token, Revoke: i.Revocation, Client: f.Client, By: f.By, Since: s.o.Now().UTC(),
		Requested: f.Flow.Discovery.Scopes,
	}
	if server.Settings.ClientID != "" {
		c.Client.Secret = "" // the config has the secret
	}
	s.take(&c, t)
	k := keyOf(c.Server, c.URL)
	// The new sign-in replaces a refresh that another process makes at the same time.
	_, err = document.Retry(ctx, document.ErrConflict, func() (struct{}, error) {
		it, err := s.read(ctx, k)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, s.store(ctx, k, c, it.rev)
	})
	if err != nil {
		return State{}, err
	}
	s.forgetRefusal(ctx, k)
	s.o.Event(ctx, Event{Server: c.Server, Kind: Connected, By: c.By})
	return s.state(&c), nil
}

// forgetClient deletes a registration that its issuer no longer knows, so that the next sign-in
// registers again. After an error, a later sign-in tries again.
func (s *Service) forgetClient(ctx context.Context, f flow) {
	k := clientKey(f.Flow.Discovery.Issuer.Issuer, f.Flow.Redirect)
	if it, err := s.read(ctx, k); err == nil && it.rev != 0 {
		_ = s.o.Docs.PutDocs(ctx, document.Doc{Key: k, Rev: it.rev})
	}
}

// SignOut deletes the connection of a server here, and revokes its token at the issuer. The result
// was reports whether there was a connection. The result revoke is why the issuer did not revoke
// the token, or nil.
func (s *Service) SignOut(
	ctx context.Context,
	server oauth.Server,
	by string,
) (was bool, revoke, err error) {
	k := keyOf(server.Name, server.URL)
	var c record
	var opened error
	was, err = document.Retry(ctx, document.ErrConflict, func() (bool, error) {
		it, err := s.read(ctx, k)
		if err != nil || it.rev == 0 {
			return false, err
		}
		c, opened = s.openItem(ctx, k, it)
		return true, s.o.Docs.PutDocs(ctx, document.Doc{Key: k, Rev: it.rev})
	})
	s.drop(k)
	if err != nil || !was {
		return was, nil, err
	}
	s.forgetRefusal(ctx, k)
	s.o.Event(ctx, Event{Server: server.Name, Kind: kindSignedOut, By: by})
	if opened != nil || c.Reason != "" {
		return true, &oauth.Fault{Code: Ended, Text: "the sign-in had ended before"}, nil
	}
	if c.Revoke == "" {
		return true, &oauth.Fault{
			Code: oauth.BadMetadata,
			Text: "the issuer " + oauth.Host(c.Issuer) +
				" has no endpoint to revoke tokens",
		}, nil
	}
	g, err := s.grant(ctx, server, &c)
	if err != nil {
		return true, err, nil
	}
	token := c.Refresh
	if token == "" {
		token = c.Access
	}
	return true, s.oauth.Revoke(ctx, g, c.Revoke, secret.New(token)), nil
}
