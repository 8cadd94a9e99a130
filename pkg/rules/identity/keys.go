package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	fetchTime = 5 * time.Second
	keysTTL   = time.Hour        // keys are fetched again after this time, because the issuer may have withdrawn one
	keysHold  = 24 * time.Hour   // old keys are used this long if the issuer does not answer
	keysEvery = 30 * time.Second // at most one fetch in this time, for any number of tokens
	keysAgain = 2 * time.Second  // at most one fetch in this time, after a fetch that failed
	maxKeys   = 1 << 20          // bytes of a key set
)

// A keySet holds the keys of an issuer. It fetches the keys again for a token with an unknown key
// id, but at most every 30 s, because anybody can send tokens with invented key ids.
type keySet struct {
	url        func(context.Context) (string, error) // returns the address of the keys
	algorithms []jose.SignatureAlgorithm
	client     *http.Client
	now        func() time.Time

	fetching sync.Mutex              // locked during a fetch; other requests use the present keys
	last     atomic.Pointer[keyRead] // nil: the keys were never fetched
}

// A keyRead is the result of fetching an issuer's keys. It is immutable.
type keyRead struct {
	keys  []jose.JSONWebKey // from the last successful fetch
	read  time.Time         // time of that fetch; zero: never
	tried time.Time         // time of the last fetch
	err   error             // result of the last fetch
}

// has reports whether there is a key with this id ("": any key), and the keys are not older than
// age.
func (r *keyRead) has(id string, now time.Time, age time.Duration) bool {
	return r != nil && !r.read.IsZero() && now.Sub(r.read) < age &&
		(id == "" || slices.ContainsFunc(r.keys, func(key jose.JSONWebKey) bool { return key.KeyID == id }))
}

// canFetch reports whether the keys may be fetched again.
func (r *keyRead) canFetch(now time.Time) bool {
	switch {
	case r == nil:
		return true
	case r.err != nil:
		return now.Sub(r.tried) >= keysAgain
	}
	return now.Sub(r.tried) >= keysEvery
}

// A failure returns the error of a failed fetch to the caller of the OIDC library, because the
// library passes on only the text of an error.
type failure struct{ err *Error }

type failureKey struct{}

var _ oidc.KeySet = (*keySet)(nil)

// VerifySignature implements [oidc.KeySet].
func (k *keySet) VerifySignature(ctx context.Context, credential string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(credential, k.algorithms)
	if err != nil {
		return nil, fmt.Errorf("malformed token: %w", err)
	}
	header := jws.Signatures[0].Header
	keys, err := k.keys(ctx, header.KeyID)
	if err != nil {
		if f, ok := ctx.Value(failureKey{}).(*failure); ok {
			f.err, _ = errors.AsType[*Error](err)
		}
		return nil, err
	}
	for _, key := range keys {
		if header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if payload, err := jws.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the issuer made the signature")
}

// keys returns the keys to try for a token with this key id; "": the token names no key. The error
// is an [*Error] if the issuer did not answer.
func (k *keySet) keys(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	r := k.last.Load()
	if !r.has(id, k.now(), keysTTL) {
		r = k.refresh(ctx, id)
	}
	switch {
	case r.has(id, k.now(), keysHold):
		return r.keys, nil
	case r.has("", k.now(), keysHold) && r.err == nil:
		return nil, errors.New("the issuer has no key of this id")
	}
	return nil, &Error{Kind: Unavailable, RetryAfter: keysAgain, Err: fmt.Errorf("keys of the issuer: %w", r.err)}
}

// refresh fetches the issuer's keys, unless another request just did or it is too early.
func (k *keySet) refresh(ctx context.Context, id string) *keyRead {
	k.fetching.Lock()
	defer k.fetching.Unlock()
	r := k.last.Load()
	if r.has(id, k.now(), keysTTL) || !r.canFetch(k.now()) {
		return r
	}
	next := &keyRead{}
	if r != nil {
		*next = *r
	}
	keys, err := k.fetch(ctx)
	if next.tried, next.err = k.now(), err; err == nil {
		next.keys, next.read = keys, next.tried
	}
	k.last.Store(next)
	return next
}

// fetch fetches the keys. It does not depend on the request that needs them first, whose sender
// may give up: later requests need them, too.
func (k *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	url, err := k.url(ctx)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("key set answered %d", resp.StatusCode)
	}
	var set jose.JSONWebKeySet
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxKeys)).Decode(&set); err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	usable := slices.DeleteFunc(set.Keys, func(key jose.JSONWebKey) bool {
		return key.Use == "enc" || !key.Valid() || !key.IsPublic()
	})
	if len(usable) == 0 {
		return nil, errors.New("key set: no public key to check signatures with")
	}
	return usable, nil
}
