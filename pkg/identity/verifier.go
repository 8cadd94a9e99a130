package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/token"
)

// maxCredential is the longest bearer credential that is looked at, in bytes.
const maxCredential = 16 << 10

// ScopeAdmin is the scope of the admin API; the others are the names of the tiers.
const ScopeAdmin = "admin"

// firstScope is what a caller without credentials is told to ask for: enough to look
// around and to call what changes nothing. A call that needs more says so.
const firstScope = "read"

// A checker turns one kind of credential into an Agent. It returns an [*Error].
type checker interface {
	check(ctx context.Context, credential string) (Agent, error)
}

// Options are the ways in which callers prove who they are. One at least must be given.
type Options struct {
	JWT    *JWT    // nil: no JWT is taken
	Tokens *Tokens // nil: no agent token is taken
	IAM    *IAM    // nil: a signature that API Gateway verified is not taken
	Now    func() time.Time
}

// A Verifier is an [Authenticator] that asks for credentials. It is safe for
// concurrent use.
type Verifier struct {
	jwt, tokens checker // nil: not taken
	iam         *IAM
	scopes      []string // that a refused caller is told of
	now         func() time.Time
	throttle    throttle

	mu   sync.Mutex
	good map[[sha256.Size]byte]struct{} // hashes of credentials that were good once
}

var _ Authenticator = (*Verifier)(nil)

// New returns a Verifier. It makes no call.
func New(o Options) (*Verifier, error) {
	v := &Verifier{iam: o.IAM, now: o.Now, good: map[[sha256.Size]byte]struct{}{}}
	if v.now == nil {
		v.now = time.Now
	}
	if o.JWT != nil {
		v.jwt, v.scopes = o.JWT, []string{firstScope}
	}
	if o.Tokens != nil {
		v.tokens = o.Tokens
	}
	if v.jwt == nil && v.tokens == nil && v.iam == nil {
		return nil, errors.New("identity: no way to prove who one is")
	}
	return v, nil
}

// Authenticate returns who sends r. Bearer credentials decide if there are any: a
// request with bad ones is refused, whoever else vouches for it.
func (v *Verifier) Authenticate(r *http.Request) (Agent, error) {
	credential, err := bearer(r.Header)
	if err == nil && credential == "" {
		if v.iam != nil {
			if a, ok := v.iam.agent(r.Context()); ok {
				return a, nil
			}
		}
		return Agent{}, &Error{Kind: Missing, Scopes: v.scopes}
	}
	source := sourceOf(r.RemoteAddr)
	sum := sha256.Sum256([]byte(credential))
	if wait := v.throttle.wait(source, v.now()); wait > 0 && !v.known(sum) {
		return Agent{}, &Error{Kind: Throttled, RetryAfter: wait}
	}
	var a Agent
	if err == nil {
		a, err = v.check(r.Context(), credential)
	}
	if err == nil {
		v.remember(sum)
		return a, nil
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Kind: Invalid, Err: err}
	}
	if e.Kind == Invalid {
		e.Scopes = v.scopes
		v.throttle.failed(source, v.now())
	}
	return Agent{}, e
}

// check tells the kinds of credentials apart by their first bytes, which nothing but a
// kind's own may have.
func (v *Verifier) check(ctx context.Context, credential string) (Agent, error) {
	c := v.jwt
	if strings.HasPrefix(credential, token.Prefix) {
		c = v.tokens
	}
	if c == nil {
		return Agent{}, errors.New("credentials of this kind are not taken")
	}
	return c.check(ctx, credential)
}

// bearer returns the bearer credential, "" if there is none. A request with
// two, or with one that no issuer could have made, is refused as a whole.
func bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", errors.New("more than one Authorization header")
	}
	scheme, credential, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", nil // another scheme, such as the signature that API Gateway looks at
	}
	if credential == "" || len(credential) > maxCredential || strings.ContainsFunc(credential, notToken68) {
		return "", errors.New("the bearer credential is empty, too long, or not of token characters")
	}
	return credential, nil
}

// notToken68 reports what may not stand in a bearer credential (RFC 6750).
func notToken68(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~+/=", r)
}

// maxGood is how many good credentials are remembered.
const maxGood = 1024

// known reports whether a credential was good before. It is checked in full all the
// same; but a neighbour's failures do not shut out who has a name here.
func (v *Verifier) known(sum [sha256.Size]byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.good[sum]
	return ok
}

func (v *Verifier) remember(sum [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.good) >= maxGood {
		for other := range v.good {
			delete(v.good, other)
			break
		}
	}
	v.good[sum] = struct{}{}
}

// Admins lets through only those agents of auth that may use the admin API.
func Admins(auth Authenticator) Authenticator { return admins{auth} }

type admins struct{ Authenticator }

func (a admins) Authenticate(r *http.Request) (Agent, error) {
	agent, err := a.Authenticator.Authenticate(r)
	if e, ok := errors.AsType[*Error](err); ok && len(e.Scopes) > 0 {
		err = &Error{Kind: e.Kind, Scopes: []string{ScopeAdmin}, RetryAfter: e.RetryAfter, Err: e.Err}
	}
	if err == nil && !agent.Admin {
		err = &Error{Kind: Scope, Scopes: []string{ScopeAdmin}, Err: errors.New("agent " + agent.ID + " is no admin")}
	}
	if err != nil {
		return Agent{}, err
	}
	return agent, nil
}

// hasAny reports whether one of the wanted is in list.
func hasAny(list []string, wanted ...string) bool {
	return slices.ContainsFunc(wanted, func(w string) bool { return w != "" && slices.Contains(list, w) })
}
