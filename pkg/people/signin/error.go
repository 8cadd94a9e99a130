package signin

import "fmt"

// A Reason says why a sign-in failed, for the message to the person.
type Reason int

// The reasons. The zero Reason is Malformed, the least specific one.
const (
	Malformed     Reason = iota // the browser returned with an answer of invalid form
	NotBegun                    // the browser has no pending sign-in
	Late                        // the sign-in began too long ago
	OtherState                  // the answer belongs to a different sign-in
	OtherIssuer                 // the answer or the token is from another issuer
	Refused                     // the issuer refused the person
	Unsuited                    // the issuer refused the gateway, not the person: one of the two is misconfigured
	SpentCode                   // the issuer refused the code: it was used, or is too old
	BadToken                    // the ID token's signature or form is invalid
	OldToken                    // the ID token has expired, or its time is wrong
	OtherAudience               // the ID token is for another client
	OtherNonce                  // the ID token belongs to a different sign-in
	TooManyGroups               // the ID token omits the groups
	Nonsense                    // the issuer gave an invalid answer
	Unavailable                 // the issuer does not answer
	NoKey                       // the gateway cannot read its own key now
)

// String returns the name of the reason for the log.
func (r Reason) String() string {
	names := [...]string{
		"malformed answer", "no sign-in under way", "began too long ago", "another state", "another issuer", "refused", "unsuited client", "code not taken",
		"bad ID token", "ID token of another time", "another audience", "another nonce", "groups left out", "nonsense", "issuer unavailable", "no seal key",
	}
	if r < 0 || int(r) >= len(names) {
		return "unknown"
	}
	return names[r]
}

// An Error is a failed sign-in. People may see Reason and Code. Err is only for the log, and
// contains no code and no token.
type Error struct {
	Reason Reason
	Code   string // the issuer's error code, if the standards define it; "": none
	Err    error  // may be nil
}

// Error returns a text for the log.
func (e *Error) Error() string {
	s := "sign-in at the issuer: " + e.Reason.String()
	if e.Err != nil {
		s = fmt.Sprintf("%s: %v", s, e.Err)
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// refusals maps the codes with which an issuer refuses a person (RFC 6749, 4.1.2.1; OpenID Connect
// Core, 3.1.2.6) to reasons.
var refusals = map[string]Reason{
	"access_denied": Refused, "interaction_required": Refused, "login_required": Refused, "account_selection_required": Refused, "consent_required": Refused,
	"invalid_request": Unsuited, "unauthorized_client": Unsuited, "unsupported_response_type": Unsuited, "invalid_scope": Unsuited,
	"request_not_supported": Unsuited, "request_uri_not_supported": Unsuited, "registration_not_supported": Unsuited,
	"server_error": Unavailable, "temporarily_unavailable": Unavailable,
}
