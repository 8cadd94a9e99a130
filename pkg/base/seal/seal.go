// Package seal makes texts that a client keeps for the gateway and cannot read, change or make up:
// a session, the state of an open question, or a task of a server. A sealed text needs no store:
// every instance that has the key can read it.
//
// A text is authenticated and encrypted with AES-256-GCM (NIST SP 800-38D), under a key that is
// derived from the operator's secret with HKDF-SHA256 (RFC 5869). Its purpose is authenticated,
// too: a text that was sealed as a session is valid only as a session.
package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// A Purpose is the use of a sealed text.
type Purpose string

// The purposes. The caller that seals a text defines its content.
const (
	Session Purpose = "session" // who a client of the handshake protocol is, and what it can do
	State   Purpose = "state"   // state that a server wants back with the answer to its question
	Ask     Purpose = "ask"     // a request to a person
	Task    Purpose = "task"    // a task of a server, and the agent and tool that it belongs to
	Login   Purpose = "login"   // state of a browser while its user signs in at an issuer
)

// ErrForged says that a text was not sealed here for that purpose. Somebody made the text up or
// changed it, it was sealed for another purpose, or its key is no longer known.
var ErrForged = errors.New("not a text that was sealed here")

// ErrNoKey says that a key could not be read, so that the text could not be checked.
var ErrNoKey = errors.New("no key to seal with")

// Keys are the secrets from which keys are derived, each of at least [MinKey] random bytes.
type Keys struct {
	Current  []byte // seals new texts
	Previous []byte // still opens older texts; nil: there is none
}

// MinKey is the least length of a secret, in bytes.
const MinKey = 32

const (
	version   = 1
	idSize    = 4 // of a key's id
	headSize  = 1 + idSize
	maxSealed = 64 << 10 // characters of the longest text that Open reads

	refreshEvery = time.Hour   // interval of reading the secrets, which may have been replaced
	refreshSoon  = time.Minute // the same interval after an unknown key
)

// A Sealer seals and opens. It is safe for concurrent use.
type Sealer struct {
	now  func() time.Time
	keys *secret.Refreshable[[]key] // the current one first
}

// New returns a Sealer with the secrets that keys returns. The Sealer calls keys at the first use
// and sometimes again. While keys fails, the Sealer uses the last secrets.
func New(keys func(context.Context) (Keys, error)) *Sealer {
	s := &Sealer{now: time.Now}
	s.keys = secret.NewRefreshable(func(ctx context.Context) ([]key, error) { return derived(ctx, keys) }, func() time.Time { return s.now() })
	return s
}

// A key is derived from a secret.
type key struct {
	id   [idSize]byte
	aead cipher.AEAD
}

func derive(secret []byte) (k key, err error) {
	if len(secret) < MinKey {
		return k, fmt.Errorf("the secret has %d bytes, at least %d are needed", len(secret), MinKey)
	}
	const size = 32 // AES-256
	bits, err := hkdf.Key(sha256.New, secret, nil, "portcullis seal 1", size+idSize)
	if err != nil {
		return k, err
	}
	copy(k.id[:], bits[size:])
	block, err := aes.NewCipher(bits[:size])
	if err != nil {
		return k, err
	}
	k.aead, err = cipher.NewGCMWithRandomNonce(block)
	return k, err
}

// Seal returns plain as a text of the characters [A-Za-z0-9_-]. The error is [ErrNoKey].
func (s *Sealer) Seal(ctx context.Context, p Purpose, plain []byte) (string, error) {
	keys, err := s.keys.Get(ctx, refreshEvery)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoKey, err)
	}
	k := keys[0]
	head := append([]byte{version}, k.id[:]...)
	return base64.RawURLEncoding.EncodeToString(k.aead.Seal(head, nil, plain, bound(head, p))), nil //nolint:gosec // G407: the AEAD makes the nonce
}

// Open returns the content that was sealed for the purpose. The error is [ErrForged], or [ErrNoKey]
// if a key could not be read and so the text could not be checked.
func (s *Sealer) Open(ctx context.Context, p Purpose, sealed string) ([]byte, error) {
	// The decoder would ignore line ends.
	if len(sealed) > maxSealed || strings.ContainsAny(sealed, "\r\n") {
		return nil, ErrForged
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(b) < headSize || b[0] != version {
		return nil, ErrForged
	}
	k, err := s.find(ctx, [idSize]byte(b[1:headSize]))
	if err != nil {
		return nil, err
	}
	plain, err := k.aead.Open(nil, nil, b[headSize:], bound(b[:headSize], p))
	if err != nil {
		return nil, ErrForged
	}
	return plain, nil
}

// bound returns the data that is authenticated in addition to the content.
func bound(head []byte, p Purpose) []byte { return append(append([]byte{}, head...), p...) }

// find returns the key with an id. An unknown key may be newer than the cached keys.
func (s *Sealer) find(ctx context.Context, id [idSize]byte) (key, error) {
	keys, err := s.keys.Get(ctx, refreshEvery)
	if err != nil {
		return key{}, fmt.Errorf("%w: %w", ErrNoKey, err)
	}
	if k, ok := withID(keys, id); ok {
		return k, nil
	}
	if keys, err = s.keys.Fresh(ctx, refreshSoon); err != nil {
		return key{}, fmt.Errorf("%w: %w", ErrNoKey, err)
	}
	if k, ok := withID(keys, id); ok {
		return k, nil
	}
	if err := s.keys.Err(); err != nil { // the key may be one that could not be read
		return key{}, fmt.Errorf("%w: %w", ErrNoKey, err)
	}
	return key{}, ErrForged
}

func withID(keys []key, id [idSize]byte) (key, bool) {
	for _, k := range keys {
		if k.id == id {
			return k, true
		}
	}
	return key{}, false
}

// derived returns the keys of the secrets that read returns, the current key first.
func derived(ctx context.Context, read func(context.Context) (Keys, error)) ([]key, error) {
	secrets, err := read(ctx)
	if err != nil {
		return nil, err
	}
	current, err := derive(secrets.Current)
	if err != nil {
		return nil, err
	}
	keys := []key{current}
	if secrets.Previous != nil {
		previous, err := derive(secrets.Previous)
		if err != nil {
			return nil, fmt.Errorf("previous: %w", err)
		}
		keys = append(keys, previous)
	}
	return keys, nil
}
