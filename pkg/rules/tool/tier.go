package tool

import (
	"cmp"
	"fmt"
	"slices"
)

// A Tier is the strongest effect that a tool may have. The zero Tier is [Destructive]: an unknown
// tool may do anything.
type Tier uint8

// The three tiers, strongest first.
const (
	Destructive Tier = iota
	Write
	Read
)

func tierNames() []string { return []string{"destructive", "write", "read"} }

// String returns "destructive", "write" or "read".
func (t Tier) String() string {
	if t > Read {
		return fmt.Sprintf("tier(%d)", uint8(t))
	}
	return tierNames()[t]
}

// ParseTier reads what [Tier.String] prints.
func ParseTier(s string) (Tier, error) {
	t := slices.Index(tierNames(), s)
	if t < 0 {
		return Destructive, fmt.Errorf("tier %q is not read, write or destructive", s)
	}
	return Tier(t), nil
}

// MarshalText returns the tier's name, or an error if t is none of the three.
func (t Tier) MarshalText() ([]byte, error) {
	if t > Read {
		return nil, fmt.Errorf("%v is not a tier", t)
	}
	return []byte(t.String()), nil
}

// UnmarshalText reads a tier's name.
func (t *Tier) UnmarshalText(text []byte) error {
	v, err := ParseTier(string(text))
	if err != nil {
		return err
	}
	*t = v
	return nil
}

// Annotations are the hints of MCP's ToolAnnotations; nil means that the
// server did not say. They come from an untrusted server until a person
// approves the definition or the operator overrides them.
type Annotations struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    *bool  `json:"readOnlyHint,omitempty"`
	DestructiveHint *bool  `json:"destructiveHint,omitempty"`
	IdempotentHint  *bool  `json:"idempotentHint,omitempty"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`
}

// Override returns the annotations after every hint that o sets has replaced the hint of a.
func (a Annotations) Override(o Annotations) Annotations {
	return Annotations{
		Title:           cmp.Or(o.Title, a.Title),
		ReadOnlyHint:    cmp.Or(o.ReadOnlyHint, a.ReadOnlyHint),
		DestructiveHint: cmp.Or(o.DestructiveHint, a.DestructiveHint),
		IdempotentHint:  cmp.Or(o.IdempotentHint, a.IdempotentHint),
		OpenWorldHint:   cmp.Or(o.OpenWorldHint, a.OpenWorldHint),
	}
}

// Tier returns the tier that follows from the hints. If the tool says that it is read-only, the
// tier is Read. Otherwise, if the tool says that it is not destructive, the tier is Write. In all
// other cases it is Destructive.
func (a Annotations) Tier() Tier {
	switch {
	case a.ReadOnlyHint != nil && *a.ReadOnlyHint:
		return Read
	case a.DestructiveHint != nil && !*a.DestructiveHint:
		return Write
	}
	return Destructive
}
