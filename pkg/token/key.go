package token

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
)

// Each kind of secret text begins with a prefix of its own, so that a scanner of leaked
// secrets knows one, and so that none is taken for another kind or for a JWT.
const (
	Prefix      = "pct_" // agent tokens
	AdminPrefix = "pca_" // the admin key of a gateway that lets every agent in
)

const (
	randomBytes = 32
	idLength    = 20
	hashLength  = 2 * sha256.Size
	minKey      = 32 // bytes
)

// A Text is the text of a token or of an admin key. It does not print: [Text.Reveal] is
// the one way out.
type Text struct{ s string }

// hidden is what stands for a secret wherever one would be printed.
const hidden = "[secret]"

// Reveal returns the text, to be shown once to whoever asked for it.
func (t Text) Reveal() string { return t.s }

// String implements fmt.Stringer.
func (Text) String() string { return hidden }

// GoString implements fmt.GoStringer.
func (Text) GoString() string { return hidden }

// LogValue implements slog.LogValuer.
func (Text) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements encoding.TextMarshaler.
func (Text) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// New makes the text of a new token.
func New() Text { return Text{Prefix + Random()} }

// NewAdmin makes an admin key.
func NewAdmin() Text { return Text{AdminPrefix + Random()} }

// Random returns 256 random bits as text that can stand in a URL.
func Random() string {
	var b [randomBytes]byte
	_, _ = rand.Read(b[:]) // it never fails; the program ends if there is no randomness
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Read takes s for the text of a token; ok is false if it cannot be one.
func Read(s string) (t Text, ok bool) { return read(Prefix, s) }

// ReadAdmin takes s for an admin key; ok is false if it cannot be one.
func ReadAdmin(s string) (t Text, ok bool) { return read(AdminPrefix, s) }

func read(prefix, s string) (Text, bool) {
	random, ok := strings.CutPrefix(s, prefix)
	bits, err := base64.RawURLEncoding.Strict().DecodeString(random)
	if !ok || err != nil || len(bits) != randomBytes || strings.ContainsAny(random, "\r\n") {
		return Text{}, false
	}
	return Text{s}, true
}

// A Key makes the hashes of tokens. Another key makes every token invalid. It does
// not print.
type Key struct{ key []byte }

// NewKey returns the key of a secret of at least 32 bytes.
func NewKey(secret string) (Key, error) {
	if len(secret) < minKey {
		return Key{}, fmt.Errorf("the key of agent tokens has %d bytes: want %d or more, random", len(secret), minKey)
	}
	return Key{[]byte(secret)}, nil
}

// String implements fmt.Stringer.
func (Key) String() string { return hidden }

// GoString implements fmt.GoStringer.
func (Key) GoString() string { return hidden }

// LogValue implements slog.LogValuer.
func (Key) LogValue() slog.Value { return slog.StringValue(hidden) }

// Identify returns where a store keeps the token with this text, and the hash that
// it must have. The two are hashes of different messages: who knows an id, which is
// shown to people, knows nothing of the hash.
func (k Key) Identify(t Text) (id, hash string) {
	return k.sum("id", t)[:idLength], k.sum("hash", t)
}

func (k Key) sum(use string, t Text) string {
	m := hmac.New(sha256.New, k.key)
	m.Write([]byte(use + "\x00" + t.s)) // a hash never fails
	return hex.EncodeToString(m.Sum(nil))
}

// SameHash compares two hashes in a time that does not depend on where they differ.
func SameHash(a, b string) bool {
	return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// Digest returns the SHA-256 of a text, lower-case hex. Settings name a token by it.
func Digest(t Text) string { return DigestOf(t.s) }

// DigestOf is [Digest] of what somebody sent, which may be no token.
func DigestOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
