// Package connection stores the gateway's sign-ins at upstream servers and keeps their tokens
// valid. A connection is a credential for one server. Its subject is the gateway: all callers share
// it.
//
// Tokens are stored sealed, and opened tokens stay in memory for 5 minutes. Only one process at a
// time refreshes a connection, because issuers that rotate refresh tokens end the whole sign-in if
// a refresh token is used twice.
package connection

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

// The reasons of an ended connection that are no [oauth.Code].
const (
	Restored  = "restored"           // no vault opens: the table was copied, or the key replaced
	Unrenewed = "credential_expired" // the token expired, and the issuer gave no refresh token
)

// Options configure a [Service]. Docs, Keys, HTTP and Table are required.
type Options struct {
	Docs  document.Store
	Keys  Keys
	HTTP  oauth.Doer // follows no redirect, and dials only allowed addresses
	Table string     // name of the table; authenticated

	Secrets secret.Source // resolves the references of client secrets; nil: none
	Agent   string        // User-Agent
	Log     *slog.Logger  // nil: slog.DiscardHandler
	Now     func() time.Time
	Jitter  func(limit time.Duration) time.Duration // nil: uniform in [0, limit)

	// Event, if set, gets each change of a connection. It must not block.
	Event func(ctx context.Context, e Event)
}

// An Event is a change of a connection, for the audit.
type Event struct {
	Server string
	Kind   string // connected, refreshed, ended, signed_out
	By     string // the person; "": the gateway
	Reason string // of ended

	Renewals int    // of the first refreshed event of a day: the renewals on Day
	Day      string // the last earlier day with a renewal
}

// The kinds of an [Event].
const (
	Connected     = "connected"
	kindRefreshed = "refreshed"
	Ended         = "ended"
	kindSignedOut = "signed_out"
)

// A Service signs in and supplies tokens. It is safe for concurrent use.
type Service struct {
	o     Options
	vault vault
	oauth oauth.Client

	mu    sync.Mutex
	cache map[document.Key]cached
	noted map[document.Key]noted
	past  map[document.Key][]string // access tokens that this process used before
}

// A cached is a connection that this process has opened.
type cached struct {
	rev  int64
	conn record
	at   time.Time
}

const (
	keepOpened = 5 * time.Minute // how long opened tokens stay in memory
	maxOpened  = 256
	maxPast    = 8 // access tokens of a server that stay secret after they were replaced
)

// New returns a Service. It makes no request.
func New(o Options) *Service {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Jitter == nil {
		o.Jitter = rand.N[time.Duration]
	}
	if o.Event == nil {
		o.Event = func(context.Context, Event) {}
	}
	return &Service{
		o: o, vault: vault{o.Docs, o.Keys, o.Table}, cache: map[document.Key]cached{},
		noted: map[document.Key]noted{}, past: map[document.Key][]string{},
		oauth: oauth.Client{HTTP: o.HTTP, Agent: o.Agent, Now: o.Now},
	}
}

// A record is a connection as it is stored: the content of a sealed document.
type record struct {
	Server   string `json:"server"`
	URL      string `json:"url"`
	Resource string `json:"resource,omitempty"` // as at the sign-in
	Issuer   string `json:"issuer"`             // as at the sign-in
	Token    string `json:"token_endpoint"`     // as at the sign-in
	Revoke   string `json:"revocation_endpoint,omitempty"`

	Client    client   `json:"client"`
	Access    string   `json:"access"`
	Previous  string   `json:"previous,omitempty"` // the last access token, still secret
	Refresh   string   `json:"refresh,omitempty"`
	Requested []string `json:"requested,omitempty"`
	Granted   []string `json:"granted,omitempty"` // nil: the issuer did not name them

	By      string    `json:"by"` // the person who signed in
	Since   time.Time `json:"since"`
	Renewed time.Time `json:"renewed"` // when the token was issued
	Due     time.Time `json:"due,omitzero"`
	Expires time.Time `json:"expires,omitzero"` // zero: unknown
	Count   int       `json:"count,omitempty"`  // of refreshes on Day, in UTC
	Day     string    `json:"day,omitempty"`
	Failed  time.Time `json:"failed,omitzero"` // when the issuer last did not answer a refresh

	// Refused is when the gateway began to count tokens that it renewed because the server refused
	// them. Refusals is the number of these tokens since then.
	Refused  time.Time `json:"refused,omitzero"`
	Refusals int       `json:"refusals,omitempty"`

	Reason  string    `json:"reason,omitempty"` // why it ended; "": it has not
	EndedAt time.Time `json:"ended_at,omitzero"`
}

// A client is the stored form of an [oauth.Registration].
type client struct {
	ID       string    `json:"id"`
	Secret   string    `json:"secret,omitempty"`
	Auth     string    `json:"auth"`
	Redirect string    `json:"redirect"`
	Expires  time.Time `json:"expires,omitzero"`
	Dynamic  bool      `json:"dynamic,omitempty"`
	Scopes   []string  `json:"scopes,omitempty"`
}

func clientOf(r oauth.Registration) client {
	return client{r.ID, r.Secret.Reveal(), r.Auth, r.Redirect, r.Expires, r.Dynamic, r.Scopes}
}

func (c client) registration() oauth.Registration {
	return oauth.Registration{
		ID: c.ID, Secret: secret.New(c.Secret), Auth: c.Auth, Redirect: c.Redirect,
		Expires: c.Expires, Dynamic: c.Dynamic, Scopes: c.Scopes,
	}
}

// usable reports whether the token is valid at now.
func (c *record) usable(now time.Time) bool {
	return c.Reason == "" && (c.Expires.IsZero() || now.Before(c.Expires))
}

// needsRefresh reports whether the token should be refreshed at now.
func (c *record) needsRefresh(now time.Time) bool {
	return c.Reason == "" && c.Refresh != "" && !c.Due.IsZero() && !now.Before(c.Due) &&
		now.Sub(c.Failed) >= retryDue
}

// A State is a connection as people see it. It contains no token.
type State struct {
	Server    string    `json:"server"`
	Status    string    `json:"status"` // connected or ended
	Reason    string    `json:"reason,omitempty"`
	Issuer    string    `json:"issuer,omitempty"` // its host
	By        string    `json:"by,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Renewed   time.Time `json:"renewed,omitzero"`
	Expires   time.Time `json:"expires,omitzero"` // of the token
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Renewals  int       `json:"renewals,omitempty"`  // of the token, on the day of Renewed in UTC
	Renewable bool      `json:"renewable,omitempty"` // the issuer gave a refresh token
	Scopes    []string  `json:"scopes,omitempty"`
	Missing   []string  `json:"missing,omitempty"` // requested and not granted
}

func (s *Service) state(c *record) State {
	st := State{
		Server: c.Server, Status: Connected, Reason: c.Reason, Issuer: oauth.Host(c.Issuer), By: c.By,
		Since: c.Since, Renewed: c.Renewed, Expires: c.Expires, EndedAt: c.EndedAt,
		Renewals: c.Count, Renewable: c.Refresh != "", Scopes: c.Requested,
	}
	if c.Granted != nil {
		st.Scopes = c.Granted
		st.Missing = slices.DeleteFunc(slices.Clone(c.Requested), func(scope string) bool {
			return slices.Contains(c.Granted, scope)
		})
	}
	switch {
	case c.Reason != "":
		st.Status = Ended
	case !c.usable(s.o.Now()) && c.Refresh == "":
		st.Status, st.Reason, st.EndedAt = Ended, Unrenewed, c.Expires
	}
	return st
}

// State returns the connection of a server, or ok = false if it has none.
func (s *Service) State(ctx context.Context, server oauth.Server) (st State, ok bool, err error) {
	k := keyOf(server.Name, server.URL)
	item, err := s.read(ctx, k)
	if err != nil || item.rev == 0 {
		return State{}, false, err
	}
	c, err := s.openItem(ctx, k, item)
	if ended, is := errors.AsType[*oauth.EndedError](err); is {
		return State{Server: server.Name, Status: Ended, Reason: ended.Reason}, true, nil
	}
	if err != nil {
		return State{}, false, err
	}
	return s.state(&c), true, nil
}

// An item is a stored document, not opened.
type item struct {
	sealed
	rev int64 // 0: absent
}

type docKey struct{}

// WithDocument returns a context in which [Service.Token] uses a document that was read already.
func WithDocument(ctx context.Context, d document.Doc) context.Context {
	return context.WithValue(ctx, docKey{}, d)
}

// Key returns the key of the document of a server's connection, for a batch read.
func Key(server, url string) document.Key { return keyOf(server, url) }

func (s *Service) read(ctx context.Context, k document.Key) (item, error) {
	d, err := document.Get(ctx, s.o.Docs, k)
	if err != nil {
		return item{}, err
	}
	return itemOf(d)
}

func itemOf(d document.Doc) (it item, err error) {
	if d.Rev == 0 {
		return it, nil
	}
	it.rev = d.Rev
	return it, json.Unmarshal(d.Data, &it.sealed)
}

// openItem returns the connection of an item. A connection that cannot be opened has ended.
func (s *Service) openItem(ctx context.Context, k document.Key, it item) (c record, err error) {
	now := s.o.Now()
	s.mu.Lock()
	known, ok := s.cache[k]
	s.mu.Unlock()
	if ok && known.rev == it.rev && now.Sub(known.at) < keepOpened {
		return known.conn, nil
	}
	err = s.vault.open(ctx, k, it.sealed, &c)
	if errors.Is(err, ErrForeign) || errors.Is(err, ErrNoKey) {
		return c, &oauth.EndedError{Reason: Restored}
	}
	if err == nil {
		s.keep(k, cached{it.rev, c, now})
	}
	return c, err
}

// keep adds an opened connection to the memory.
func (s *Service) keep(k document.Key, o cached) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaced(k, o.conn.Access)
	maps.DeleteFunc(s.cache, func(_ document.Key, old cached) bool {
		return o.at.Sub(old.at) >= keepOpened
	})
	if len(s.cache) >= maxOpened {
		for other := range s.cache {
			delete(s.cache, other)
			break
		}
	}
	s.cache[k] = o
}

func (s *Service) drop(k document.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaced(k, "")
	delete(s.cache, k)
}

// replaced remembers the opened access token of a server if another token replaces it. A server may
// repeat a token in a result much later. The caller holds the lock.
func (s *Service) replaced(k document.Key, by string) {
	old := s.cache[k].conn.Access
	if old == "" || old == by {
		return
	}
	if len(s.past) >= maxOpened {
		clear(s.past)
	}
	s.past[k] = append(s.past[k], old)
	s.past[k] = s.past[k][max(0, len(s.past[k])-maxPast):]
}

// list returns the documents of all connections.
func (s *Service) list(ctx context.Context) (map[document.Key]item, error) {
	docs, _, err := s.o.Docs.ListDocs(ctx, partGateway)
	if err != nil {
		return nil, err
	}
	items := map[document.Key]item{}
	for _, d := range docs {
		it, err := itemOf(d)
		if err != nil {
			return nil, err
		}
		items[d.Key] = it
	}
	return items, nil
}
