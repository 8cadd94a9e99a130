package config

import "log/slog"

// Headers are the HTTP headers that go to a server, by canonical name.
type Headers map[string]Secret

// Plain returns the headers with their values in clear, references such as
// ${env:NAME} not yet replaced; nil if there are none.
func (h Headers) Plain() map[string]string {
	if len(h) == 0 {
		return nil
	}
	plain := make(map[string]string, len(h))
	for name, value := range h {
		plain[name] = value.Reveal()
	}
	return plain
}

// A Secret is a string that cannot print: fmt, slog and encoding/json all show
// "[secret]". The text sits behind a pointer, because fmt reads the
// unexported fields of whatever struct holds a Secret without asking its methods.
type Secret struct{ text *string }

// secretMark stands for the text wherever a Secret is printed.
const secretMark = "[secret]"

// NewSecret returns a Secret that holds text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Equal reports whether two secrets hold the same text.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// String returns "[secret]".
func (Secret) String() string { return secretMark }

// GoString returns "[secret]".
func (Secret) GoString() string { return secretMark }

// LogValue returns "[secret]".
func (Secret) LogValue() slog.Value { return slog.StringValue(secretMark) }

// MarshalText returns "[secret]".
func (Secret) MarshalText() ([]byte, error) { return []byte(secretMark), nil }
