package identity

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// maxCredential is the longest bearer credential that is checked, in bytes.
const maxCredential = 16 << 10

// scopeAdmin is the scope of the admin API; the others are the names of the tiers.
const scopeAdmin = "admin"

// Options are the ways in which callers can prove their identity. At least one of JWT, Tokens and
// IAM must be set.
type Options struct {
	JWT    *JWT    // nil: no JWT is accepted
	Tokens *Tokens // nil: no agent token is accepted
	IAM    *IAM    // nil: a signature that API Gateway verified is not accepted

	// Scopes are what a caller without valid credentials should request from the issuer, without
	// the prefix. Some clients can never request another scope later. Without a JWT there are
	// none.
	Scopes []string

	// TrustedProxies is how many proxies between the callers and this program add to
	// X-Forwarded-For. Failed look-ups are counted by the address that the outermost proxy saw. 0:
	// by the address of the connection.
	TrustedProxies int

	Now func() time.Time // nil: time.Now
}

// A Verifier is an [Authenticator] that requires credentials. It is safe for concurrent use.
type Verifier struct {
	o        Options
	scopes   []string // named to a refused caller
	throttle throttle

	mu   sync.Mutex
	good map[[sha256.Size]byte]struct{} // hashes of agent tokens that were valid at the last look-up
}

var _ Authenticator = (*Verifier)(nil)

// New returns a Verifier. It makes no call.
func New(o Options) (*Verifier, error) {
	v := &Verifier{o: o, good: map[[sha256.Size]byte]struct{}{}}
	if o.Now == nil {
		v.o.Now = time.Now
	}
	if o.JWT != nil {
		v.scopes = o.Scopes
	}
	if o.JWT == nil && o.Tokens == nil && o.IAM == nil {
		return nil, errors.New("identity: no way to prove an identity is configured")
	}
	return v, nil
}

// Authenticate returns the sender of r. If r has bearer credentials, nothing else counts: a request
// with invalid bearer credentials is refused, even if API Gateway names a signer.
func (v *Verifier) Authenticate(r *http.Request) (Agent, error) {
	credential, err := bearer(r.Header)
	if err == nil && credential == "" {
		if v.o.IAM != nil {
			if a, ok := v.o.IAM.agent(r.Context()); ok {
				return a, nil
			}
		}
		return Agent{}, &Error{Kind: Missing, Scopes: v.scopes}
	}
	var a Agent
	if err == nil {
		a, err = v.check(r, credential)
	}
	if err == nil {
		return a, nil
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Kind: Invalid, Err: err}
	}
	if e.Kind == Invalid {
		e.Scopes = v.scopes
	}
	return Agent{}, e
}

// check recognizes the kind of a credential by its first bytes, which are unique to the kind. The
// check of a JWT reads no store, so its sender never waits because of other senders at the same
// address.
func (v *Verifier) check(r *http.Request, credential string) (Agent, error) {
	switch ours := strings.HasPrefix(credential, token.Prefix); {
	case ours && v.o.Tokens != nil:
		return v.checkToken(r, credential)
	case !ours && v.o.JWT != nil:
		return v.o.JWT.check(r.Context(), r.URL.Path, credential)
	}
	return Agent{}, errors.New("credentials of this kind are not accepted")
}

// checkToken looks up an agent token, which reads the store: a source with invalid tokens has to
// wait.
func (v *Verifier) checkToken(r *http.Request, credential string) (Agent, error) {
	text, ok := token.Read(credential)
	if !ok {
		return Agent{}, errors.New("not the text of an agent token")
	}
	if a, ok := v.o.Tokens.bootstrap(text); ok {
		return a, nil
	}
	source, sum := sourceOf(r, v.o.TrustedProxies), sha256.Sum256([]byte(credential))
	if wait := v.throttle.wait(source, v.o.Now()); wait > 0 && !v.isKnown(sum) {
		return Agent{}, &Error{Kind: Throttled, RetryAfter: wait}
	}
	a, err := v.o.Tokens.lookUp(r.Context(), text)
	if err == nil {
		v.note(sum, true)
		return a, nil
	}
	if _, unavailable := errors.AsType[*Error](err); !unavailable {
		v.note(sum, false)
		v.throttle.failed(source, v.o.Now())
	}
	return Agent{}, err
}

// bearer returns the bearer credential, "" if there is none. It refuses a request with two
// credentials, or with one that no issuer can have made.
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
		return "", nil // another scheme, such as the signature that API Gateway checks
	}
	if credential == "" || len(credential) > maxCredential || strings.ContainsFunc(credential, notToken68) {
		return "", errors.New("the bearer credential is empty, too long, or not of token characters")
	}
	return credential, nil
}

// notToken68 reports whether a bearer credential may not contain r (RFC 6750).
func notToken68(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~+/=", r)
}

// maxGood is how many valid agent tokens are remembered.
const maxGood = 1024

// isKnown reports whether an agent token was valid at its last look-up. A known token is still
// looked up again, but failures of other tokens from its address do not delay it.
func (v *Verifier) isKnown(sum [sha256.Size]byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.good[sum]
	return ok
}

// note records whether an agent token was valid.
func (v *Verifier) note(sum [sha256.Size]byte, good bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.good, sum)
	if !good {
		return
	}
	for other := range v.good {
		if len(v.good) < maxGood {
			break
		}
		delete(v.good, other)
	}
	v.good[sum] = struct{}{}
}

// Admins admits only the agents of auth that have a role at /admin.
func Admins(auth Authenticator) Authenticator { return admins{auth} }

type admins struct{ Authenticator }

func (a admins) Authenticate(r *http.Request) (Agent, error) {
	agent, err := a.Authenticator.Authenticate(r)
	if e, ok := errors.AsType[*Error](err); ok && len(e.Scopes) > 0 {
		err = &Error{Kind: e.Kind, Scopes: []string{scopeAdmin}, RetryAfter: e.RetryAfter, Err: e.Err}
	}
	if err == nil && agent.Rights.Role == NoRole {
		err = &Error{Kind: Scope, Scopes: []string{scopeAdmin}, Err: errors.New("agent " + agent.ID + " has no role at /admin")}
	}
	if err != nil {
		return Agent{}, err
	}
	return agent, nil
}

// hasAny reports whether list contains one of the wanted texts.
func hasAny(list []string, wanted ...string) bool {
	return slices.ContainsFunc(wanted, func(w string) bool { return w != "" && slices.Contains(list, w) })
}
