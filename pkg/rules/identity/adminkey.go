package identity

import (
	"errors"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// An AdminKey takes who bears one text for an admin, who sees no server and calls no
// tool. It is how people are told from agents where [None] lets every agent in.
type AdminKey struct {
	Digest string // SHA-256 of the text, lower-case hex; "": nobody bears it
	ID     string // what the audit names the bearer
}

var _ Authenticator = AdminKey{}

// Authenticate compares digests, so that the time it takes says nothing of the text.
func (k AdminKey) Authenticate(r *http.Request) (Agent, error) {
	credential, err := bearer(r.Header)
	switch {
	case err != nil:
		return Agent{}, &Error{Kind: Invalid, Err: err}
	case credential == "":
		return Agent{}, &Error{Kind: Missing}
	case !token.SameHash(k.Digest, token.DigestOf(credential)):
		return Agent{}, &Error{Kind: Invalid, Err: errors.New("not the admin key")}
	}
	return Agent{ID: k.ID, Way: WayNone, Rights: Everything()}, nil
}
