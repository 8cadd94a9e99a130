package connection_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// If a token is due or expired, only one of many callers in two processes refreshes it.
func TestRefreshOnce(t *testing.T) {
	f := newFixture(t, issuertest.Habits{})
	processes := []*connection.Service{f.service(), f.service()}
	f.signIn(t, processes[0])
	for round := 1; round <= 100; round++ {
		f.wait(55*time.Minute + time.Duration(round%2)*10*time.Minute) // due, or expired
		var calls sync.WaitGroup
		for n := range 64 {
			calls.Go(func() {
				text, err := processes[n%2].Token(t.Context(), f.server)
				if err != nil || !f.accepted(t, text.Reveal()) {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		calls.Wait()
		if got := f.issuer.Count(&f.issuer.Refreshed); got != round {
			t.Fatalf("round %d: %d refreshes", round, got)
		}
	}
	if n := f.issuer.Count(&f.issuer.Reused); n != 0 {
		t.Errorf("%d refresh tokens were used twice", n)
	}
}

// A refused refresh ends the connection for all processes, and stores the reason. A sign-in begins
// the connection again.
func TestRefreshRefused(t *testing.T) {
	f := newFixture(t, issuertest.Habits{})
	s, other := f.service(), f.service()
	f.signIn(t, s)
	f.token(t, other)
	f.issuer.EndAll()
	f.wait(time.Hour)
	for _, s := range []*connection.Service{s, other, f.service()} {
		if _, err := s.Token(t.Context(), f.server); reasonOf(err) != string(oauth.InvalidGrant) {
			t.Errorf("%v", err)
		}
	}
	st, ok, err := s.State(t.Context(), f.server)
	if !ok || err != nil || st.Status != connection.Ended ||
		st.Reason != string(oauth.InvalidGrant) ||
		st.EndedAt.IsZero() {
		t.Errorf("%+v, %v, %v", st, ok, err)
	}
	if n := len(f.events); n != 2 || f.events[1].Kind != connection.Ended {
		t.Errorf("events %+v", f.events)
	}
	if st := f.signIn(t, other); st.Status != connection.Connected {
		t.Errorf("after a new sign-in: %+v", st)
	}
	if !f.accepted(t, f.token(t, s)) {
		t.Error("the new token is not accepted")
	}
}

func reasonOf(err error) string {
	if ended, ok := errors.AsType[*oauth.EndedError](err); ok {
		return ended.Reason
	}
	return ""
}

// If an issuer does not answer, the connection does not end, and not every call contacts the
// issuer.
func TestIssuerDown(t *testing.T) {
	asked := 0
	down := func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	f := newFixture(t, issuertest.Habits{})
	s := f.service()
	f.signIn(t, s)
	f.issuer.Answer = down
	f.wait(56 * time.Minute)
	for range 3 {
		f.token(t, s) // it is still valid
	}
	if asked != 1 {
		t.Errorf("the issuer got %d requests", asked)
	}
	f.wait(5 * time.Minute)
	for range 3 {
		if _, err := s.Token(t.Context(), f.server); oauth.CodeOf(err) != oauth.Unreachable {
			t.Errorf("%v", err)
		}
	}
	if asked != 2 {
		t.Errorf("the issuer got %d requests", asked)
	}
	f.issuer.Answer = nil
	f.wait(6 * time.Second)
	if !f.accepted(t, f.token(t, s)) {
		t.Error("the token is not accepted")
	}
}

// If a server refuses a token before its expiry, the gateway renews the token.
func TestRenew(t *testing.T) {
	f := newFixture(t, issuertest.Habits{})
	s, other := f.service(), f.service()
	f.signIn(t, s)
	old := f.token(t, s)
	f.issuer.EndAccess()
	next, err := s.Renew(t.Context(), f.server, secret.New(old))
	require.OK(t, err)
	same, err := other.Renew(t.Context(), f.server, secret.New(old))
	require.OK(t, err)
	if !next.Equal(same) || !f.accepted(t, next.Reveal()) ||
		f.issuer.Count(&f.issuer.Refreshed) != 1 {
		t.Errorf("%d refreshes", f.issuer.Count(&f.issuer.Refreshed))
	}
}

// A server that refuses every token causes three refreshes a minute, not one refresh for each call.
func TestRenewIsLimited(t *testing.T) {
	f := newFixture(t, issuertest.Habits{})
	s := f.service()
	f.signIn(t, s)
	for range 5 {
		_, err := s.Renew(t.Context(), f.server, secret.New(f.token(t, s)))
		require.OK(t, err)
	}
	if n := f.issuer.Count(&f.issuer.Refreshed); n != 3 {
		t.Errorf("%d refreshes", n)
	}
	f.wait(time.Minute)
	_, err := s.Renew(t.Context(), f.server, secret.New(f.token(t, s)))
	require.OK(t, err)
	if n := f.issuer.Count(&f.issuer.Refreshed); n != 4 {
		t.Errorf("%d refreshes after a minute", n)
	}
}

// If a token expired on the way to the server, the gateway renews it each time: the server is right
// to refuse it.
func TestRenewExpired(t *testing.T) {
	f := newFixture(t, issuertest.Habits{Life: 5 * time.Second})
	s := f.service()
	f.signIn(t, s)
	for n := 1; n <= 5; n++ {
		old := f.token(t, s)
		f.wait(6 * time.Second)
		next, err := s.Renew(t.Context(), f.server, secret.New(old))
		if err != nil || !f.accepted(t, next.Reveal()) {
			t.Errorf("renewal %d: %v", n, err)
		}
	}
}

// Without a refresh token, the gateway uses the token until it expires.
func TestNoRefreshToken(t *testing.T) {
	f := newFixture(t, issuertest.Habits{NoRefresh: true})
	s := f.service()
	if st := f.signIn(t, s); st.Renewable {
		t.Errorf("%+v", st)
	}
	f.wait(59 * time.Minute)
	old := f.token(t, s)
	if next, err := s.Renew(t.Context(), f.server, secret.New(old)); err != nil ||
		next.Reveal() != "" {
		t.Errorf("renewed: %q, %v", next.Reveal(), err)
	}
	f.wait(time.Minute)
	if _, err := s.Token(t.Context(), f.server); reasonOf(err) != connection.Unrenewed {
		t.Errorf("%v", err)
	}
}

// If the store loses the answer to the write of a refreshed token, the gateway does not use the
// token, and does not lose it.
func TestStoreFails(t *testing.T) {
	f := newFixture(t, issuertest.Habits{})
	s := f.service()
	f.signIn(t, s)
	f.wait(time.Hour)
	fails := 2
	f.docs.OnPut = func(_ context.Context, docs []document.Doc) (kept bool, err error) {
		var held struct{ Holder string }
		if json.Unmarshal(docs[0].Data, &held) == nil && held.Holder == "" && fails > 0 {
			fails--
			return false, errors.New("the store does not answer")
		}
		return false, nil
	}
	if !f.accepted(t, f.token(t, s)) {
		t.Error("the token is not accepted")
	}
	if n := f.issuer.Count(&f.issuer.Refreshed); n != 1 {
		t.Errorf("%d refreshes", n)
	}
}
