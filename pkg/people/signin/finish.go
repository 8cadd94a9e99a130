package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// skew is the allowed difference between the issuer's clock and ours.
const skew = 5 * time.Minute

// maxLogged limits the characters of an issuer's error text in the log.
const maxLogged = 200

// Finish takes the issuer's answer, which the browser brings back, and the cookie from
// [Issuer.Begin]. It returns the person who signed in, and the data that Begin put into the
// cookie. If the cookie is valid, it returns the data even with an error. An error is an [*Error].
func (c *Issuer) Finish(ctx context.Context, cookie string, answer url.Values) (who identity.Person, carry []byte, err error) {
	p, carry, err := c.open(ctx, cookie)
	if err != nil {
		return who, carry, err
	}
	for _, name := range []string{"state", "iss", "code", "error"} {
		if len(answer[name]) > 1 {
			return who, carry, &Error{Reason: Malformed, Err: fmt.Errorf("%s is given twice", name)}
		}
	}
	if !token.SameHash(p.State, answer.Get("state")) {
		return who, carry, &Error{Reason: OtherState}
	}
	m, err := c.metadata(ctx)
	if err != nil {
		return who, carry, err
	}
	code, err := c.code(m, answer)
	if err != nil {
		return who, carry, err
	}
	raw, err := c.exchange(ctx, m, code, p.Verifier)
	if err != nil {
		return who, carry, err
	}
	t, err := c.verify(ctx, raw, p)
	if err != nil {
		return who, carry, err
	}
	who, err = c.person(t)
	return who, carry, err
}

// code returns the code in an answer whose state Finish has checked.
func (c *Issuer) code(m identity.Metadata, answer url.Values) (string, error) {
	if iss, named := answer["iss"]; named && iss[0] != c.o.Provider.Issuer() {
		return "", &Error{Reason: OtherIssuer, Err: fmt.Errorf("the answer is from %q", text.Clip(text.Line(iss[0]), maxLogged))}
	} else if !named && m.NamesItself {
		return "", &Error{Reason: OtherIssuer, Err: errors.New("the answer does not name its " +
			"issuer, although this issuer always does")}
	}
	if answer.Has("error") {
		return "", refused(answer.Get("error"), answer.Get("error_description"))
	}
	if answer.Get("code") == "" {
		return "", &Error{Reason: Malformed, Err: errors.New("the answer has neither a code nor an error")}
	}
	return answer.Get("code"), nil
}

// refused returns the error for an issuer's refusal. The issuer's text goes only to the log,
// because anybody may have written it into the address.
func refused(code, description string) *Error {
	e := &Error{Reason: Refused, Err: fmt.Errorf("the issuer says %q: %q", text.Clip(text.Line(code), maxLogged), text.Clip(text.Line(description), maxLogged))}
	if reason, known := refusals[code]; known {
		e.Reason, e.Code = reason, code
	}
	return e
}

// exchange trades the code for an ID token.
func (c *Issuer) exchange(ctx context.Context, m identity.Metadata, code, verifier string) (string, error) {
	var password secret.Text
	if c.o.Secret != nil {
		var err error
		if password, err = c.o.Secret(ctx); err != nil {
			return "", &Error{Reason: NoKey, Err: fmt.Errorf("client secret: %w", err)}
		}
		if methods := m.TokenAuth; methods != nil && !slices.Contains(methods, "client_secret_basic") && !slices.Contains(methods, "client_secret_post") {
			return "", &Error{Reason: Unsuited, Err: fmt.Errorf("the issuer accepts no client secret, only %q", methods)}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	conf := c.config(m, password.Reveal())
	t, err := conf.Exchange(oidc.ClientContext(ctx, c.o.HTTP), code, oauth2.VerifierOption(verifier))
	if err != nil {
		return "", exchangeError(ctx, err)
	}
	raw, ok := t.Extra("id_token").(string)
	if !ok || raw == "" {
		return "", &Error{Reason: Nonsense, Err: errors.New("the issuer gave no ID token for the code")}
	}
	return raw, nil
}

// exchangeError returns why the issuer gave no ID token for a code. It uses only the status and the
// error code of the answer, because the rest may contain anything.
func exchangeError(ctx context.Context, err error) *Error {
	failed, answered := errors.AsType[*oauth2.RetrieveError](err)
	var sent *url.Error
	switch {
	case !answered && (ctx.Err() != nil || errors.As(err, &sent)):
		cause := ctx.Err()
		if sent != nil {
			cause = sent.Err
		}
		return &Error{Reason: Unavailable, Err: fmt.Errorf("exchange the code: %w", cause)}
	case !answered:
		return &Error{Reason: Nonsense, Err: errors.New("the issuer's answer to the code cannot be read")}
	}
	e := &Error{Reason: Nonsense, Err: fmt.Errorf("the issuer answers the code with %d %q", failed.Response.StatusCode, text.Clip(text.Line(failed.ErrorCode), maxLogged))}
	switch status := failed.Response.StatusCode; {
	case failed.ErrorCode == "invalid_grant":
		e.Reason = SpentCode
	case failed.ErrorCode != "":
		e.Reason = Unsuited
	case status >= http.StatusInternalServerError || status == http.StatusTooManyRequests:
		e.Reason = Unavailable
	}
	return e
}

// verify returns the ID token if it is from this issuer, for this client and for this sign-in.
func (c *Issuer) verify(ctx context.Context, raw string, p pending) (*oidc.IDToken, error) {
	t, err := c.o.Provider.Verify(ctx, raw)
	if err != nil {
		reason := BadToken
		if _, down := errors.AsType[*identity.Error](err); down {
			reason = Unavailable
		} else if _, old := errors.AsType[*oidc.TokenExpiredError](err); old {
			reason = OldToken
		} else if errors.Is(err, identity.ErrOtherIssuer) {
			reason = OtherIssuer
		}
		return nil, &Error{Reason: reason, Err: err}
	}
	var more struct {
		Party *string `json:"azp"`
	}
	if err := t.Claims(&more); err != nil {
		return nil, &Error{Reason: BadToken, Err: err}
	}
	now := c.o.Now()
	switch {
	case !slices.Contains(t.Audience, c.o.ID), more.Party != nil && *more.Party != c.o.ID, more.Party == nil && len(t.Audience) > 1:
		return nil, &Error{Reason: OtherAudience, Err: fmt.Errorf("the ID token is for %q", t.Audience)}
	case !token.SameHash(p.Nonce, t.Nonce):
		return nil, &Error{Reason: OtherNonce}
	case t.IssuedAt.Before(p.Began.Add(-skew)), t.IssuedAt.After(now.Add(skew)):
		return nil, &Error{Reason: OldToken, Err: fmt.Errorf("the ID token was issued at %v, and the time is now %v", t.IssuedAt.UTC(), now.UTC())}
	}
	return t, nil
}

// person returns the person in the ID token.
func (c *Issuer) person(t *oidc.IDToken) (identity.Person, error) {
	claims, err := identity.ClaimsOf(t)
	var who identity.Person
	if err == nil {
		who, err = c.o.Claims.Person(claims)
	}
	switch {
	case errors.Is(err, identity.ErrGroupsLeftOut):
		return who, &Error{Reason: TooManyGroups, Err: err}
	case err != nil:
		return who, &Error{Reason: BadToken, Err: err}
	}
	return who, nil
}
