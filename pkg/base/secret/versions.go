package secret

import (
	"context"
	"strings"
	"time"
)

// A Version is one value of a secret that is sometimes replaced.
type Version struct {
	Text  Text
	Since time.Time // when it was set; zero: unknown
}

// Versions are the current value of a secret and the value before it.
type Versions struct {
	Current  Version
	Previous Version // its Text is empty if the secret was never replaced
}

// A Versioned source keeps the value that a secret had before it was replaced.
type Versioned interface {
	// Versions looks up both values, as [Source]'s Secret looks up one. If the secret is replaced
	// once during the call, the result includes the value from its beginning and the value from its
	// end.
	Versions(ctx context.Context, ref string) (Versions, error)
}

// ReadVersions returns both values of a secret, or only the current one if the source keeps no
// other.
func ReadVersions(ctx context.Context, s Source, ref string) (Versions, error) {
	if v, ok := s.(Versioned); ok {
		return v.Versions(ctx, ref)
	}
	text, err := s.Secret(ctx, ref)
	return Versions{Current: Version{Text: New(text)}}, err
}

// SplitVersions returns the values in a setting: the current value and, after a comma, the value
// before it. replaced says whether there is a comma.
func SplitVersions(setting string) (v Versions, replaced bool) {
	current, previous, replaced := strings.Cut(setting, ",")
	v.Current.Text = New(current)
	if replaced {
		v.Previous.Text = New(previous)
	}
	return v, replaced
}

// Replaced returns when the current value replaced the value before it; zero: unknown. If somebody
// restored an older value, the returned time is later than the time of the value itself.
func (v Versions) Replaced() time.Time {
	if v.Current.Since.IsZero() || v.Previous.Since.After(v.Current.Since) {
		return v.Previous.Since
	}
	return v.Current.Since
}
