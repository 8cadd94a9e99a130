package signin

import "fmt"

// A Reason says why nobody is signed in, for what a person is told.
type Reason int

// The zero Reason says nothing but that.
const (
	Malformed     Reason = iota // the browser came back with an answer that no issuer gives
	NotBegun                    // this browser keeps no sign-in that is under way
	Late                        // it began too long ago
	OtherState                  // the answer is to another sign-in than the one that is under way
	OtherIssuer                 // the answer or the token is of another issuer
	Refused                     // the issuer refuses
	Unsuited                    // the issuer refuses the gateway, not the person: one of them is set up wrong
	SpentCode                   // the issuer does not take the code: it was used, or is too old
	BadToken                    // the ID token's signature or form is not good
	OldToken                    // the ID token has expired, or is of another time
	OtherAudience               // the ID token is for another client
	OtherNonce                  // the ID token is of another sign-in
	TooManyGroups               // the ID token leaves the groups out
	Nonsense                    // the issuer answers what it must not
	Unavailable                 // the issuer does not answer
	NoKey                       // the gateway's own key cannot be read for now
)

// String names the reason for the log.
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

// An Error says that nobody is signed in. Reason and Code may reach people; Err is for the log
// alone, and holds no code and no token.
type Error struct {
	Reason Reason
	Code   string // with which the issuer refuses, if it is one that the standards have; "": none
	Err    error  // may be nil
}

// Error is for the log.
func (e *Error) Error() string {
	s := "sign-in at the issuer: " + e.Reason.String()
	if e.Err != nil {
		s = fmt.Sprintf("%s: %v", s, e.Err)
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// refusals are the codes with which an issuer refuses a person (RFC 6749, 4.1.2.1; OpenID Connect
// Core, 3.1.2.6), and what each says.
var refusals = map[string]Reason{
	"access_denied": Refused, "interaction_required": Refused, "login_required": Refused, "account_selection_required": Refused, "consent_required": Refused,
	"invalid_request": Unsuited, "unauthorized_client": Unsuited, "unsupported_response_type": Unsuited, "invalid_scope": Unsuited,
	"request_not_supported": Unsuited, "request_uri_not_supported": Unsuited, "registration_not_supported": Unsuited,
	"server_error": Unavailable, "temporarily_unavailable": Unavailable,
}
