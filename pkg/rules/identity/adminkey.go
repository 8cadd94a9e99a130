package identity

import (
	"errors"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// An AdminKey admits the bearer of one secret text as an admin, who sees no server and calls no
// tool. With it, a gateway whose agents use [None] can distinguish people from agents.
type AdminKey struct {
	Digest string // SHA-256 of the text, lower-case hex; "": no bearer
	ID     string // name of the bearer in the audit
}

var _ Authenticator = AdminKey{}

// Authenticate compares digests, so that its duration reveals nothing about the text.
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
