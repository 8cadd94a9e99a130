package token

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// Each kind of secret text has its own prefix, so that a scanner of leaked secrets recognizes it,
// and so that no kind is confused with another or with a JWT.
const (
	Prefix      = "pct_" // agent tokens
	adminPrefix = "pca_" // the admin key of a gateway without authentication
)

// MinKey is the minimum length of a key, in bytes.
const MinKey = 32

const (
	randomBytes = 32
	idLength    = 20
	hashLength  = 2 * sha256.Size
	keyIDLength = 8
)

// New makes the text of a new token.
func New() secret.Text { return secret.New(Prefix + Random()) }

// NewAdmin makes an admin key.
func NewAdmin() secret.Text { return secret.New(adminPrefix + Random()) }

// Random returns 256 random bits as text that can be part of a URL.
func Random() string {
	var b [randomBytes]byte
	_, _ = rand.Read(b[:]) // never fails; without randomness, the program ends
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Read returns s as the text of a token; ok is false if it cannot be one.
func Read(s string) (t secret.Text, ok bool) { return read(Prefix, s) }

// ReadAdmin returns s as an admin key; ok is false if it cannot be one.
func ReadAdmin(s string) (t secret.Text, ok bool) { return read(adminPrefix, s) }

func read(prefix, s string) (secret.Text, bool) {
	random, ok := strings.CutPrefix(s, prefix)
	bits, err := base64.RawURLEncoding.Strict().DecodeString(random)
	if !ok || err != nil || len(bits) != randomBytes || strings.ContainsAny(random, "\r\n") {
		return secret.Text{}, false
	}
	return secret.New(s), true
}

// A Key makes the hashes of tokens and of other secret texts. A token is valid only while the
// gateway uses the key with which the token was made.
type Key struct{ secret.Text }

// NewKey returns the key of a secret of at least 32 bytes.
func NewKey(s string) (Key, error) {
	if len(s) < MinKey {
		return Key{}, fmt.Errorf("the key of agent tokens has %d bytes, want at least %d random bytes", len(s), MinKey)
	}
	return Key{secret.New(s)}, nil
}

// ID returns a short name of the key, for people and for the records of tokens. It returns "" for
// the zero Key. The name reveals nothing about the key.
func (k Key) ID() string {
	if k.Reveal() == "" {
		return ""
	}
	return k.Sum("key", secret.Text{})[:keyIDLength]
}

// Identify returns the id and the hash of the token with this text, as a store has them. They are
// hashes of different messages, so the id, which people see, reveals nothing about the hash.
func (k Key) Identify(t secret.Text) (id, hash string) {
	return k.Sum("id", t)[:idLength], k.Sum("hash", t)
}

// Sum returns the keyed hash of a text for one use, in lower-case hex. The hash reveals nothing
// about the text, and nothing about the text's hash for another use.
func (k Key) Sum(use string, t secret.Text) string {
	m := hmac.New(sha256.New, []byte(k.Reveal()))
	m.Write([]byte(use + "\x00" + t.Reveal())) // never fails
	return hex.EncodeToString(m.Sum(nil))
}

// SameHash reports whether two hashes, or other random texts, are equal and not empty, in a time
// that does not depend on where they differ.
func SameHash(a, b string) bool {
	return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// Digest returns the SHA-256 of a text in lower-case hex. Settings name a token by its digest.
func Digest(t secret.Text) string { return DigestOf(t.Reveal()) }

// DigestOf is [Digest] for a received text, which may not be a token.
func DigestOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
