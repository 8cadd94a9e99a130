package secret

import (
	"context"
	"strings"
	"time"
)

// A Version is one value of a secret that is replaced now and then.
type Version struct {
	Text  Text
	Since time.Time // when it was put; zero: not known
}

// Versions are the value of a secret and the one that it replaced.
type Versions struct {
	Current  Version
	Previous Version // its Text is empty if the secret was never replaced
}

// A Versioned source keeps the value that a secret had before it was replaced.
type Versioned interface {
	// Versions is [Source]'s Secret for both values. A value that was current when it began and one
	// that is when it ends are among them, if the secret is replaced once meanwhile.
	Versions(ctx context.Context, ref string) (Versions, error)
}

// ReadVersions returns both values of a secret; the one alone if the source does not keep another.
func ReadVersions(ctx context.Context, s Source, ref string) (Versions, error) {
	if v, ok := s.(Versioned); ok {
		return v.Versions(ctx, ref)
	}
	text, err := s.Secret(ctx, ref)
	return Versions{Current: Version{Text: New(text)}}, err
}

// SplitVersions returns the values that stand in a setting: the current one and, after a comma, the
// one before. replaced says whether there is a comma.
func SplitVersions(setting string) (v Versions, replaced bool) {
	current, previous, replaced := strings.Cut(setting, ",")
	v.Current.Text = New(current)
	if replaced {
		v.Previous.Text = New(previous)
	}
	return v, replaced
}

// Replaced returns when the current value took the place of the one before; zero: not known. Where
// somebody went back to an older value, that is later than the value itself.
func (v Versions) Replaced() time.Time {
	if v.Current.Since.IsZero() || v.Previous.Since.After(v.Current.Since) {
		return v.Previous.Since
	}
	return v.Current.Since
}
