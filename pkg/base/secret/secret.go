// Package secret holds text that cannot be printed. It also resolves references to secrets, such as
// ${env:NAME} in a config, with the sources of the secrets.
package secret

import "log/slog"

// A Text is a string that cannot be printed: fmt, slog and encoding/json all show "[secret]". The
// string is behind a pointer. If a Text is in an unexported field of a struct, fmt prints that
// field without calling the methods of the Text.
type Text struct{ text *string }

// mark replaces the text wherever it is printed.
const mark = "[secret]"

// New returns a Text that holds s.
func New(s string) Text { return Text{&s} }

// Reveal returns the text.
func (t Text) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// Equal reports whether t and other hold the same text.
func (t Text) Equal(other Text) bool { return t.Reveal() == other.Reveal() }

// String returns "[secret]".
func (Text) String() string { return mark }

// GoString returns "[secret]".
func (Text) GoString() string { return mark }

// LogValue returns "[secret]".
func (Text) LogValue() slog.Value { return slog.StringValue(mark) }

// MarshalText returns "[secret]".
func (Text) MarshalText() ([]byte, error) { return []byte(mark), nil }
