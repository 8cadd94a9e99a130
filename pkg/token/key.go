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

// Prefix begins the text of every token, so that a scanner of leaked secrets knows
// one, and so that it is never taken for a JWT.
const Prefix = "pct_"

const (
	randomBytes = 32
	textLength  = len(Prefix) + (randomBytes*8+5)/6
	idLength    = 20
	hashLength  = 2 * sha256.Size
	minKey      = 32 // bytes
)

// A Text is the text of a token. It does not print: [Text.Reveal] is the one way out.
type Text struct{ s string }

// hidden is what stands for a secret wherever one would be printed.
const hidden = "[secret]"

// Reveal returns the text, to be shown once to whoever asked for the token.
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
func New() Text {
	var b [randomBytes]byte
	_, _ = rand.Read(b[:]) // it never fails; the program ends if there is no randomness
	return Text{Prefix + base64.RawURLEncoding.EncodeToString(b[:])}
}

// Read takes s for the text of a token; ok is false if it cannot be one.
func Read(s string) (t Text, ok bool) {
	if len(s) != textLength || !strings.HasPrefix(s, Prefix) {
		return Text{}, false
	}
	_, err := base64.RawURLEncoding.Strict().DecodeString(s[len(Prefix):])
	return Text{s}, err == nil
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

// Digest returns the SHA-256 of a token's text, lower-case hex. Settings name a token
// by it.
func Digest(t Text) string {
	sum := sha256.Sum256([]byte(t.s))
	return hex.EncodeToString(sum[:])
}
