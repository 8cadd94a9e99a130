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
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	fetchTime = 5 * time.Second
	keysTTL   = time.Hour        // after which keys are asked for anew: one may have been withdrawn
	keysHold  = 24 * time.Hour   // for which old ones are used if the issuer does not answer
	keysEvery = 30 * time.Second // at most one fetch in this time, whatever tokens come
	keysAgain = 2 * time.Second  // the same, after a fetch that failed
	maxKeys   = 1 << 20          // bytes of a key set
)

// A keySet holds the keys of an issuer. A token with a key id that is not among them has
// the issuer asked again, but not more often than every 30 s: anybody can send
// tokens with key ids that do not exist.
type keySet struct {
	issuer, url string // url "": not discovered yet
	algorithms  []string
	client      *http.Client
	now         func() time.Time

	fetching sync.Mutex // held by who asks the issuer; others go on with the keys that there are

	mu      sync.Mutex
	held    []jose.JSONWebKey
	read    time.Time // when they were read; zero: never
	tried   time.Time // when they were last asked for
	lastErr error     // how that ended
}

// A failure carries out of the library, which keeps the text of an error alone, that
// the keys could not be had.
type failure struct{ err *Error }

type failureKey struct{}

var _ oidc.KeySet = (*keySet)(nil)

var (
	errSignature  = errors.New("no key of the issuer made the signature")
	errUnknownKey = errors.New("the issuer has no key of this id")
)

// VerifySignature implements [oidc.KeySet].
func (k *keySet) VerifySignature(ctx context.Context, credential string) ([]byte, error) {
	var algs []jose.SignatureAlgorithm
	for _, alg := range k.algorithms {
		algs = append(algs, jose.SignatureAlgorithm(alg))
	}
	jws, err := jose.ParseSignedCompact(credential, algs)
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
	return nil, errSignature
}

// keys returns the keys to try for a key id, "" for a token that names none. The error
// is an [*Error] if the issuer did not answer.
func (k *keySet) keys(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	if held, ok := k.fresh(id); ok {
		return held, nil
	}
	k.fetching.Lock()
	defer k.fetching.Unlock()
	if held, ok := k.fresh(id); ok { // another request fetched them meanwhile
		return held, nil
	}
	if k.due() {
		held, err := k.fetch(ctx)
		k.mu.Lock()
		if k.tried, k.lastErr = k.now(), err; err == nil {
			k.held, k.read = held, k.tried
		}
		k.mu.Unlock()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	usable := !k.read.IsZero() && k.now().Sub(k.read) < keysHold
	switch {
	case usable && hasKey(k.held, id):
		return k.held, nil
	case usable && k.lastErr == nil:
		return nil, errUnknownKey
	}
	return nil, &Error{Kind: Unavailable, RetryAfter: keysAgain, Err: fmt.Errorf("keys of the issuer: %w", k.lastErr)}
}

// fresh returns the keys if they are young and the wanted one is among them.
func (k *keySet) fresh(id string) ([]jose.JSONWebKey, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	young := !k.read.IsZero() && k.now().Sub(k.read) < keysTTL
	return k.held, young && hasKey(k.held, id)
}

// due reports whether the issuer may be asked again.
func (k *keySet) due() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	every := keysEvery
	if k.lastErr != nil {
		every = keysAgain
	}
	return k.tried.IsZero() || k.now().Sub(k.tried) >= every
}

func hasKey(keys []jose.JSONWebKey, id string) bool {
	return id == "" || slices.ContainsFunc(keys, func(key jose.JSONWebKey) bool { return key.KeyID == id })
}

// fetch reads the keys. The request that happens to need them may be given up by its
// sender; the next ones need them as well.
func (k *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	if k.url == "" {
		p, err := oidc.NewProvider(oidc.ClientContext(ctx, k.client), k.issuer)
		if err != nil {
			return nil, err
		}
		var found struct {
			URL string `json:"jwks_uri"`
		}
		if err := p.Claims(&found); err != nil {
			return nil, err
		}
		if err := checkIssuerURL(found.URL); err != nil {
			return nil, fmt.Errorf("jwks_uri: %w", err)
		}
		k.url = found.URL
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
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
