// Package token has the gateway's own agent tokens: the stored form of a token, how its text is
// made and looked up, and the [Store] of tokens.
//
// The text of a token is shown once and never stored. A store has a keyed hash of it, so a copy of
// the table admits nobody, and nobody can test a guess without the key.
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

// Errors that a caller may have to distinguish.
var (
	ErrNotFound = errors.New("token not found")          // never made
	ErrConflict = errors.New("token changed since read") // caller re-reads and retries
)

// Limits of a token.
const (
	MaxLife  = 365 * 24 * time.Hour
	maxName  = 64  // bytes; it names the agent in the audit
	maxList  = 200 // servers or toolsets
	maxEntry = 128 // bytes of one entry
)

// useEvery is the shortest time between two writes of LastUsed.
const useEvery = time.Hour

// Format is the form in which this program writes tokens. It grows only if a program that knows
// only an earlier form would wrongly admit a caller. A new member is no new form, because programs
// keep members that they do not know.
const Format = 1

// A Token is the stored form of an agent token. Revoked and expired tokens stay: they show who
// made them and who ended them.
type Token struct {
	Format    int       `json:"format"`        // set by the store at each write; 0: written before forms were counted
	ID        string    `json:"id"`            // name for people; cannot be used as a token
	Hash      string    `json:"hash"`          // keyed, of the text; lower-case hex
	Key       string    `json:"key,omitempty"` // id of the hash's key; "": an older token without it
	Name      string    `json:"name"`
	Servers   []string  `json:"servers"`            // visible servers; one "*" means every server
	Tiers     []string  `json:"tiers"`              // callable tiers: read, write, destructive
	Toolsets  []string  `json:"toolsets,omitempty"` // bounds of its selection; none: no bound
	Admin     bool      `json:"admin,omitempty"`    // it may use the admin API
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	ExpiresAt time.Time `json:"expires_at"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	RevokedBy string    `json:"revoked_by,omitempty"`
	LastUsed  time.Time `json:"last_used,omitzero"` // to the hour; written by TouchToken
	Rev       int64     `json:"rev"`                // 0: not stored yet

	Unknown rawjson.Members `json:"-"` // members of a newer program; a store keeps them
}

// Next returns t as a store writes it: at the next revision.
func (t Token) Next() Token {
	t.Format = max(t.Format, Format)
	t.Rev++
	return t
}

// Encode checks t and returns it as [Token.Next] does, and its stored form. That form lacks
// LastUsed, which is stored separately, so that noting a use never conflicts with a revocation.
func (t Token) Encode() (next Token, data []byte, err error) {
	if err := t.Check(); err != nil {
		return Token{}, nil, err
	}
	kept := t.Next()
	kept.LastUsed = time.Time{}
	data, err = rawjson.Marshal(kept, kept.Unknown)
	return t.Next(), data, err
}

// Decode reads what Encode wrote. lastUsed is a time in RFC 3339; "": never.
func Decode(data []byte, lastUsed string) (t Token, err error) {
	if t.Unknown, err = rawjson.Unmarshal(data, &t); err != nil {
		return Token{}, err
	}
	if lastUsed != "" {
		t.LastUsed, err = time.Parse(time.RFC3339Nano, lastUsed)
	}
	return t, err
}

// Live reports whether t is accepted at the given time. A token in a newer form is not
// accepted, because this program does not know the restrictions of that form.
func (t Token) Live(now time.Time) bool {
	return t.Format <= Format && t.RevokedAt.IsZero() && now.Before(t.ExpiresAt)
}

// Untouched reports whether LastUsed has to be written again.
func (t Token) Untouched(now time.Time) bool { return now.Sub(t.LastUsed) >= useEvery }

// Revoke returns t revoked; a revoked token stays as it is.
func (t Token) Revoke(actor string, now time.Time) Token {
	if t.RevokedAt.IsZero() {
		t.RevokedAt, t.RevokedBy = now.UTC(), actor
	}
	return t
}

// Check reports every fault of a token before it is stored.
func (t Token) Check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !validName(t.Name) {
		fault("name %q: want 1 to %d letters, digits, and . _ @ -", t.Name, maxName)
	}
	if len(t.ID) != idLength || len(t.Hash) != hashLength {
		fault("id or hash was not made by this package")
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

// validName reports whether a token may have this name. The name is in the audit, in rules and in
// logs, so it is plain.
func validName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._@-", r)
	})
}
