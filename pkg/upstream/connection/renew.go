package connection

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

const (
	leaseTime = 20 * time.Second       // maximum time in which only one process refreshes
	waitTime  = 5 * time.Second        // maximum wait for the refresh of another process
	lookEvery = 100 * time.Millisecond // interval of reads during this wait
	early     = 5 * time.Minute        // from the refresh of a long-lived token to its expiry

	// If an issuer did not answer, no process contacts it for this time: the first constant is for
	// a valid token, the second is for an expired token.
	retryDue     = 30 * time.Second
	retryExpired = 5 * time.Second

	// The gateway renews refused tokens at most maxRenewals times in renewalTime. Otherwise a
	// server that refuses every token would cause a refresh with each call.
	maxRenewals = 3
	renewalTime = time.Minute
)

// dueAt returns when to refresh a token: the later of 80 % of its life and 5 minutes before its
// expiry. It adds up to a tenth of the time that remains, so that not all processes try at the same
// time.
func (s *Service) dueAt(issued, expires time.Time) time.Time {
	if expires.IsZero() {
		return time.Time{}
	}
	life := expires.Sub(issued)
	at := issued.Add(max(life*8/10, life-early))
	if rest := expires.Sub(at) / 10; rest > 0 {
		at = at.Add(s.o.Jitter(rest))
	}
	return at
}

// Token returns the access token of a server, or an empty text if the gateway has no connection.
// It refreshes a token that is due. An [oauth.EndedError] says that a person must sign in again.
func (s *Service) Token(ctx context.Context, server oauth.Server) (secret.Text, error) {
	k := keyOf(server.Name, server.URL)
	var it item
	var err error
	if d, ok := ctx.Value(docKey{}).(document.Doc); ok && d.Key == k {
		it, err = itemOf(d)
	} else {
		it, err = s.read(ctx, k)
	}
	if err != nil || it.rev == 0 {
		return secret.Text{}, err
	}
	return s.use(ctx, server, k, it, "")
}

// Secrets returns the tokens and the client secret of a server's connection, as far as this process
// has decrypted them. No result, error or log may show these texts.
func (s *Service) Secrets(server oauth.Server) (texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := keyOf(server.Name, server.URL)
	c := s.cache[k].conn
	all := append([]string{c.Access, c.Previous, c.Refresh, c.Client.Secret}, s.past[k]...)
	for _, text := range all {
		if text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// Renew returns a token that replaces rejected, which the server refused although it should be
// valid. It returns an empty text if there is no other token.
func (s *Service) Renew(
	ctx context.Context,
	server oauth.Server,
	rejected secret.Text,
) (secret.Text, error) {
	k := keyOf(server.Name, server.URL)
	it, err := s.read(ctx, k)
	if err != nil || it.rev == 0 {
		return secret.Text{}, err
	}
	t, err := s.use(ctx, server, k, it, rejected.Reveal())
	if err == nil && t.Equal(rejected) {
		return secret.Text{}, nil
	}
	return t, err
}

// use returns the token of an item. If the token is due or equals rejected, use first refreshes it.
func (s *Service) use(
	ctx context.Context, server oauth.Server, k document.Key, it item, rejected string,
) (secret.Text, error) {
	end := s.o.Now().Add(waitTime)
	for {
		now := s.o.Now()
		c, ready, err := s.openReady(ctx, k, it, rejected)
		if err != nil {
			return secret.Text{}, err
		}
		if ready {
			return secret.New(c.Access), nil
		}
		if it.Lease.Before(now) {
			if c.Access == rejected {
				c.countRefusal(now)
			}
			c, err = s.refresh(ctx, server, k, it, c)
			if !errors.Is(err, document.ErrConflict) {
				if err != nil && c.usable(now) && c.Access != rejected && !isEnded(err) {
					err = nil // the old token is still valid, and the next call tries again
				}
				return secret.New(c.Access), err
			}
		} else if c.usable(now) && c.Access != rejected {
			return secret.New(c.Access), nil // another process is refreshing the token
		} else if !now.Before(end) {
			return secret.Text{}, errBusy
		} else if err := wait(ctx, lookEvery); err != nil {
			return secret.Text{}, err
		}
		if it, err = s.read(ctx, k); err != nil {
			return secret.Text{}, err
		}
		if it.rev == 0 { // signed out meanwhile
			return secret.Text{}, &oauth.EndedError{Reason: kindSignedOut}
		}
	}
}

// isRefusedOften reports whether the server refused so many valid tokens that another token would
// not help.
func (c *record) isRefusedOften(now time.Time) bool {
	return c.usable(now) && now.Sub(c.Refused) < renewalTime && c.Refusals >= maxRenewals
}

// countRefusal counts a token that the server refused, unless it has expired on the way.
func (c *record) countRefusal(now time.Time) {
	if !c.usable(now) {
		return
	}
	if now.Sub(c.Refused) >= renewalTime {
		c.Refused, c.Refusals = now.UTC(), 0
	}
	c.Refusals++
}

// openReady opens an item, and reports whether its token can be used without a refresh.
func (s *Service) openReady(
	ctx context.Context, k document.Key, it item, rejected string,
) (c record, ready bool, err error) {
	c, err = s.openItem(ctx, k, it)
	now := s.o.Now()
	switch {
	case err != nil:
	case c.Reason != "":
		err = &oauth.EndedError{Reason: c.Reason}
	case c.usable(now) && c.Access != rejected && !c.needsRefresh(now):
		ready = true
	case c.Refresh == "" && !c.usable(now):
		err = &oauth.EndedError{Reason: Unrenewed}
	case c.Refresh == "" || c.Access == rejected && c.isRefusedOften(now):
		ready = true // the token is due or rejected, but cannot be renewed now
	case now.Sub(c.Failed) < retryExpired:
		err = errSilent
	}
	return c, ready, err
}

// The errors for a token that was not refreshed in time.
var (
	errBusy = &oauth.Fault{
		Code: oauth.Unreachable, Text: "another process has not finished the refresh of the token",
	}
	errSilent = &oauth.Fault{
		Code: oauth.Unreachable, Text: "the issuer did not answer a refresh of the token a moment ago",
	}
)

func isEnded(err error) bool {
	_, ended := errors.AsType[*oauth.EndedError](err)
	return ended
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// refresh takes the lease, refreshes the token and stores the new one. It returns
// [document.ErrConflict] if another process took the lease first.
//
// The refresh continues even if the caller goes away. Some issuers replace the refresh token at
// each refresh: if the gateway did not store the new refresh token, it would lose the connection.
func (s *Service) refresh(
	ctx context.Context, server oauth.Server, k document.Key, it item, c record,
) (record, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTime)
	defer cancel()
	it.Lease, it.Holder = s.o.Now().Add(leaseTime), rand.Text()
	rev, err := s.vault.put(ctx, k, it.sealed, it.rev)
	if err != nil {
		return c, err
	}
	s.keep(k, cached{rev, c, s.o.Now()})
	grant, err := s.grant(ctx, server, &c)
	var t oauth.Token
	if err == nil {
		t, err = s.oauth.Refresh(ctx, grant, secret.New(c.Refresh), c.Granted)
	}
	next := c
	switch code := oauth.CodeOf(err); {
	case err == nil:
		s.take(&next, t)
		next.countRefresh()
	case code == oauth.InvalidGrant || code == oauth.InvalidClient || code == oauth.InvalidScope ||
		code == oauth.InvalidTarget || code == oauth.IssuerChanged:
		next.Reason, next.EndedAt = s.reason(ctx, server, &c, code), s.o.Now().UTC()
		next.Access, next.Refresh = "", ""
	default:
		next.Failed = s.o.Now().UTC()
	}
	if stored := s.store(ctx, k, next, rev); stored != nil {
		return c, fmt.Errorf("store the refreshed token: %w", stored)
	}
	e := Event{Server: server.Name, Kind: kindRefreshed}
	if err == nil && next.Day != c.Day {
		e.Renewals, e.Day = c.Count, c.Day
	}
	switch {
	case next.Reason != "":
		e.Kind, e.Reason = Ended, next.Reason
		err = &oauth.EndedError{Reason: next.Reason}
	case err != nil:
		s.o.Log.LogAttrs(
			ctx,
			slog.LevelWarn,
			"token not refreshed",
			slog.String("server", server.Name),
			slog.String("error", err.Error()),
		)
		return c, err
	}
	s.o.Event(ctx, e)
	return next, err
}

// store writes a connection at the revision rev, which has the lease. The write releases the lease.
// If it fails, store tries again, because a token that is not stored is lost.
func (s *Service) store(ctx context.Context, k document.Key, c record, rev int64) error {
	sealed, err := s.vault.seal(ctx, k, c)
	if err != nil {
		return err
	}
	sealed.Server = c.Server
	for try := 1; ; try++ {
		next, err := s.vault.put(ctx, k, sealed, rev)
		if err == nil {
			s.keep(k, cached{next, c, s.o.Now()})
			return nil
		}
		s.drop(k)
		if errors.Is(err, document.ErrConflict) || try == 5 ||
			wait(ctx, time.Duration(try)*lookEvery) != nil {
			return err
		}
	}
}

// take puts the new token t into the connection c.
func (s *Service) take(c *record, t oauth.Token) {
	now := s.o.Now().UTC()
	c.Previous = c.Access
	c.Access, c.Renewed, c.Expires, c.Due = t.Access.Reveal(), now, t.Expires, s.dueAt(
		now,
		t.Expires,
	)
	c.Failed = time.Time{}
	if r := t.Refresh.Reveal(); r != "" {
		c.Refresh = r
	}
	if t.Scopes != nil {
		c.Granted = t.Scopes
	}
}

// countRefresh adds a refresh to the count of its day.
func (c *record) countRefresh() {
	day := c.Renewed.Format(time.DateOnly)
	if c.Day != day {
		c.Day, c.Count = day, 0
	}
	c.Count++
}

// grant returns the data that a request to the token endpoint needs. If the client is in the
// config, grant reads the client's secret again, because the secret may have changed.
func (s *Service) grant(
	ctx context.Context,
	server oauth.Server,
	c *record,
) (oauth.Grant, error) {
	g := oauth.Grant{
		Issuer: c.Issuer, Token: c.Token, Resource: c.Resource, Client: c.Client.registration(),
	}
	if server.Settings.ClientID != "" && server.Settings.ClientID == g.Client.ID {
		text, err := s.secret(ctx, server.Settings)
		if err != nil {
			return g, err
		}
		g.Client.Secret = text
	}
	return g, nil
}

// secret returns the secret of a configured client.
func (s *Service) secret(ctx context.Context, set oauth.Settings) (secret.Text, error) {
	ref, ok := secret.Reference(set.Secret.Reveal())
	if !ok || s.o.Secrets == nil {
		return set.Secret, nil
	}
	text, err := s.o.Secrets.Secret(ctx, ref)
	if err != nil {
		return secret.Text{}, &oauth.Fault{
			Code: oauth.InvalidClient, Text: "the client secret of the server cannot be read", Err: err,
		}
	}
	return secret.New(text), nil
}

// reason returns why a refused refresh ends a connection. It reads the metadata again: a changed
// issuer or token endpoint explains the refusal, and a person must confirm the change.
func (s *Service) reason(
	ctx context.Context,
	server oauth.Server,
	c *record,
	code oauth.Code,
) string {
	u, err := url.Parse(server.URL)
	if err != nil {
		return string(code)
	}
	d, err := s.oauth.Discover(ctx, u, oauth.Challenge{}, server.Settings)
	if err == nil && changed(c, d) {
		return string(oauth.IssuerChanged)
	}
	return string(code)
}

// changed reports whether a server has another issuer or token endpoint than its connection.
func changed(c *record, d oauth.Discovery) bool {
	return c.Issuer != d.Issuer.Issuer || c.Token != d.Issuer.Token
}

// union returns the scopes of both lists.
func union(a, b []string) []string {
	return oauth.ValidScopes(slices.Concat(a, b))
}
