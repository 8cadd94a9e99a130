// Package token is the gateway's own agent tokens: what is kept of one, how its
// text is made and found again, and the [Store] of tokens.
//
// The text of a token is shown once and never kept. A store holds a keyed hash of
// it, so that a copy of the table neither lets anybody in nor lets a guess be
// tried without the key.
package token

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// What a caller may have to tell apart.
var (
	ErrNotFound = errors.New("token not found")          // never made
	ErrConflict = errors.New("token changed since read") // caller re-reads and retries
)

// Limits of a token.
const (
	MaxLife  = 365 * 24 * time.Hour
	maxName  = 64  // bytes; the audit names an agent by it
	maxList  = 200 // servers or toolsets
	maxEntry = 128 // bytes of one of these
)

// useEvery is the least time between two writes of when a token was last used.
const useEvery = time.Hour

// Format is the number of the form that this program writes tokens in. It grows only if
// a program that knows an earlier form would let somebody in whom it should not; a member
// more is no new form, since programs keep what they do not know.
const Format = 1

// A Token is what is kept of an agent token. Revoked and expired ones stay: they
// say who made them and who ended them.
type Token struct {
	Format    int       `json:"format"`        // set by the store at each write; 0: written before forms were counted
	ID        string    `json:"id"`            // names the token to people; cannot be used as one
	Hash      string    `json:"hash"`          // keyed, of the text; lower-case hex
	Key       string    `json:"key,omitempty"` // id of the key of the hash; "": made before tokens had it
	Name      string    `json:"name"`
	Servers   []string  `json:"servers"`            // that it may see; one "*" stands for every server
	Tiers     []string  `json:"tiers"`              // that it may call: read, write, destructive
	Toolsets  []string  `json:"toolsets,omitempty"` // that bound its selection; none: no bound
	Admin     bool      `json:"admin,omitempty"`    // it may use the admin API
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	ExpiresAt time.Time `json:"expires_at"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	RevokedBy string    `json:"revoked_by,omitempty"`
	LastUsed  time.Time `json:"last_used,omitzero"` // to the hour; what TouchToken wrote
	Rev       int64     `json:"rev"`                // 0: not stored yet

	Unknown rawjson.Members `json:"-"` // what else a newer program wrote; a store keeps it
}

// Next returns t as a store keeps it when it is written: at the next revision.
func (t Token) Next() Token {
	t.Format = max(t.Format, Format)
	t.Rev++
	return t
}

// Encode checks t and returns it as [Token.Next] makes it, and as a store keeps that: without
// LastUsed, which lies beside it, so that noting a use never collides with a revocation.
func (t Token) Encode() (next Token, data []byte, err error) {
	if err := t.Check(); err != nil {
		return Token{}, nil, err
	}
	kept := t.Next()
	kept.LastUsed = time.Time{}
	data, err = rawjson.Marshal(kept, kept.Unknown)
	return t.Next(), data, err
}

// Decode returns the token of which Encode made data. lastUsed is a time in RFC 3339; "": never.
func Decode(data []byte, lastUsed string) (t Token, err error) {
	if t.Unknown, err = rawjson.Unmarshal(data, &t); err != nil {
		return Token{}, err
	}
	if lastUsed != "" {
		t.LastUsed, err = time.Parse(time.RFC3339Nano, lastUsed)
	}
	return t, err
}

// Live reports whether t lets anybody in at the given time. One in a form that this program
// does not know does not: what it says to narrow itself would not be heard.
func (t Token) Live(now time.Time) bool {
	return t.Format <= Format && t.RevokedAt.IsZero() && now.Before(t.ExpiresAt)
}

// Untouched reports whether it is time to write again that t was used.
func (t Token) Untouched(now time.Time) bool { return now.Sub(t.LastUsed) >= useEvery }

// Revoke returns t revoked; one that is revoked already stays as it is.
func (t Token) Revoke(actor string, now time.Time) Token {
	if t.RevokedAt.IsZero() {
		t.RevokedAt, t.RevokedBy = now.UTC(), actor
	}
	return t
}

// Check reports every fault of a token that is to be stored.
func (t Token) Check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !validName(t.Name) {
		fault("name %q: want 1 to %d letters, digits, and . _ @ -", t.Name, maxName)
	}
	if len(t.ID) != idLength || len(t.Hash) != hashLength {
		fault("id or hash is not of this package's making")
	}
	for _, tier := range t.Tiers {
		if !slices.Contains([]string{"read", "write", "destructive"}, tier) {
			fault("tier %q: want read, write or destructive", tier)
		}
	}
	for kind, names := range map[string][]string{"servers": t.Servers, "toolsets": t.Toolsets} {
		if len(names) > maxList {
			fault("%s: %d names, at most %d are allowed", kind, len(names), maxList)
		}
		for _, name := range names {
			if name == "" || len(name) > maxEntry || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
				fault("%s: %q is no name", kind, name)
			}
		}
	}
	if life := t.ExpiresAt.Sub(t.CreatedAt); life <= 0 || life > MaxLife {
		fault("expires %s after it is made: want more than nothing and at most 365 days", life)
	}
	if t.CreatedBy == "" {
		fault("created_by is empty")
	}
	return errors.Join(faults...)
}

// validName reports whether a token may have this name. It stands in the audit, in
// rules and in logs, so it is plain.
func validName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._@-", r)
	})
}
