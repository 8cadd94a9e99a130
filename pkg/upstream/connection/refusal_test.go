package connection_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A counter counts requests to the store and to the key.
type counter struct {
	document.Store
	connection.Keys
	reads, writes, unwraps atomic.Int64
}

func (c *counter) Docs(ctx context.Context, keys ...document.Key) ([]document.Doc, error) {
	c.reads.Add(1)
	return c.Store.Docs(ctx, keys...)
}

func (c *counter) PutDocs(ctx context.Context, docs ...document.Doc) error {
	c.writes.Add(1)
	return c.Store.PutDocs(ctx, docs...)
}

func (c *counter) Unwrap(ctx context.Context, wrapped []byte, about string) ([]byte, error) {
	c.unwraps.Add(1)
	return c.Keys.Unwrap(ctx, wrapped, about)
}

func (c *counter) reset() { c.reads.Store(0); c.writes.Store(0); c.unwraps.Store(0) }

// warm returns a service that has opened a connection, and the counter. In the context of a call,
// the document of the connection was read already.
func warm(t testing.TB) (*fixture, *connection.Service, context.Context, *counter) {
	f := newFixture(t, issuertest.Habits{})
	f.key = []byte(strings.Repeat("k", 32))
	c := &counter{
		Store: f.docs,
		Keys:  &connection.LocalKey{Read: func() ([]byte, error) { return f.key, nil }},
	}
	s := f.serviceWith(c, c)
	f.signIn(t, s)
	d, err := document.Get(t.Context(), f.docs, connection.Key(f.server.Name, f.server.URL))
	require.OK(t, err)
	c.reset()
	return f, s, connection.WithDocument(t.Context(), d), c
}

// A call with a warm connection does not read the store or unwrap the key. After 5 minutes, one
// call unwraps the key once.
func TestWarmToken(t *testing.T) {
	f, s, ctx, c := warm(t)
	use := func(n int) {
		t.Helper()
		for range n {
			if token, err := s.Token(ctx, f.server); err != nil || token.Reveal() == "" {
				t.Fatal(token.Reveal(), err)
			}
		}
	}
	use(100)
	if c.reads.Load()+c.writes.Load()+c.unwraps.Load() != 0 {
		t.Errorf(
			"%d reads, %d writes, %d unwraps",
			c.reads.Load(),
			c.writes.Load(),
			c.unwraps.Load(),
		)
	}
	f.wait(5 * time.Minute)
	use(100)
	if c.reads.Load()+c.writes.Load() != 0 || c.unwraps.Load() != 1 {
		t.Errorf(
			"after 5 minutes: %d reads, %d writes, %d unwraps",
			c.reads.Load(),
			c.writes.Load(),
			c.unwraps.Load(),
		)
	}
}

func BenchmarkWarmToken(b *testing.B) {
	f, s, ctx, _ := warm(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Token(ctx, f.server); err != nil {
			b.Fatal(err)
		}
		s.Secrets(f.server)
	}
}

func refused(reason string, scopes ...string) outcome.Outcome {
	return outcome.Outcome{
		Status:    outcome.Denied,
		Reason:    reason,
		Connected: true,
		Challenge: &outcome.Challenge{Scopes: scopes},
	}
}

// A refused call is stored once in 10 minutes for a server and a set of scopes. The scopes of
// several calls add up. A sign-in or a sign-out deletes them.
func TestRefused(t *testing.T) {
	f, s, _, c := warm(t)
	scopes := func() []string {
		t.Helper()
		all, err := s.Refusals(t.Context())
		require.OK(t, err)
		r, ok := connection.RefusalOf(all, f.server.Name, f.server.URL)
		if !ok {
			return nil
		}
		return r.Challenge.Scopes
	}
	const missing = outcome.ReasonInsufficientScope
	for step, tt := range []struct {
		wait   time.Duration
		scopes []string
		writes int64
		want   []string
	}{
		{0, []string{"write"}, 1, []string{"write"}},
		{9 * time.Minute, []string{"write"}, 1, []string{"write"}},
		{0, []string{"admin"}, 2, []string{"write", "admin"}},
		{10 * time.Minute, []string{"admin"}, 3, []string{"write", "admin"}},
		{24 * time.Hour, nil, 3, nil}, // the refusal expires
	} {
		f.wait(tt.wait)
		f.docs.Now = f.clock
		if tt.scopes != nil {
			s.Refused(t.Context(), f.server, refused(missing, tt.scopes...))
		}
		if got := scopes(); !slices.Equal(got, tt.want) || c.writes.Load() != tt.writes {
			t.Errorf(
				"step %d: %q after %d writes, want %q after %d",
				step,
				got,
				c.writes.Load(),
				tt.want,
				tt.writes,
			)
		}
	}
	s.Refused(t.Context(), f.server, refused(missing, "write"))
	f.signIn(t, s)
	if got := scopes(); got != nil {
		t.Errorf("after a sign-in: %q", got)
	}
	s.Refused(t.Context(), f.server, refused(missing, "write"))
	_, _, err := s.SignOut(t.Context(), f.server, "ada")
	require.OK(t, err)
	if got := scopes(); got != nil {
		t.Errorf("after a sign-out: %q", got)
	}
	for n := range 1000 { // bounded memory
		s.Refused(
			t.Context(),
			oauth.Server{Name: fmt.Sprint(n), URL: f.server.URL},
			refused(missing, "x"),
		)
	}
}

// A new sign-in requests the scopes of the last sign-in and the scopes that a refused call named.
// If these are more than the configured scopes, Start refuses, and its text names all of the
// additional scopes.
func TestScopesOfNextSignIn(t *testing.T) {
	f, s, _, _ := warm(t)
	r := f.request()
	r.Challenge = oauth.Challenge{Scopes: []string{"write", "admin"}}
	p, err := s.Start(t.Context(), r)
	require.OK(t, err)
	slices.Sort(p.Scopes)
	if want := []string{"admin", "offline_access", "read", "write"}; !slices.Equal(p.Scopes, want) {
		t.Errorf("requested scopes = %q, want %q", p.Scopes, want)
	}
	r.Server.Settings.Scopes = []string{"read"}
	if _, err = s.Start(t.Context(), r); oauth.CodeOf(err) != connection.ScopeNotAllowed ||
		!strings.Contains(err.Error(), "write") ||
		!strings.Contains(err.Error(), "admin") {
		t.Errorf("over the maximum: %v", err)
	}
}

// Secrets also returns replaced tokens: in the process that replaced them all of them, and in other
// processes the token before the last refresh.
func TestSecrets(t *testing.T) {
	f, s, _, _ := warm(t)
	other := f.service()
	var seen []string
	for range 4 {
		token := f.token(t, s)
		seen = append(seen, token)
		if got := s.Secrets(f.server); !contains(got, seen...) {
			t.Errorf("%q lacks one of %q", got, seen)
		}
		if f.token(t, other); !contains(other.Secrets(f.server), seen[max(0, len(seen)-2):]...) {
			t.Errorf("another process: %q lacks one of %q", other.Secrets(f.server), seen)
		}
		f.issuer.EndAccess()
		renewed, err := s.Renew(t.Context(), f.server, secret.New(token))
		require.OK(t, err)
		if renewed.Equal(secret.New(token)) {
			t.Fatal("not renewed")
		}
	}
	if got := s.Secrets(oauth.Server{Name: "mail", URL: f.server.URL}); got != nil {
		t.Errorf("another server has %q", got)
	}
}

func contains(all []string, some ...string) bool {
	return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
}

// The first refresh of a day reports the number of refreshes of the day before.
func TestRefreshesOfADay(t *testing.T) {
	f := newFixture(t, issuertest.Habits{})
	s := f.service()
	f.signIn(t, s)
	for range 30 {
		f.wait(59 * time.Minute)
		f.token(t, s)
	}
	st, _, err := s.State(t.Context(), f.server)
	require.OK(t, err)
	var days []string
	total := st.Renewals
	for _, e := range f.events {
		if e.Renewals > 0 {
			days = append(days, e.Day)
			total += e.Renewals
		}
	}
	if total != 30 || len(days) != 1 || days[0] != "2026-01-02" {
		t.Errorf("%d refreshes, reports of %q, %d today", total, days, st.Renewals)
	}
}
