package identity

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// A Person is somebody who signed in at an issuer.
type Person struct {
	Name    string   // their name in the audit
	Subject string   // issuer and sub: unique, and the same at each sign-in
	Groups  []string // their groups that have a role at this gateway
}

// ErrGroupsLeftOut says that a token lacks the person's groups because they are too many.
var ErrGroupsLeftOut = errors.New("the issuer left the groups out of the token: they are too many")

// unverified follows a name that looks like an address and that the issuer did not verify.
const unverified = " (not verified)"

// Person reads the claims of a verified ID token.
//
// The name is the e-mail address only if the issuer verified it; otherwise anybody could sign up
// with another person's address. Without a verified address, the name is the user name, marked if
// it looks like an address. Without a user name, it is the subject.
func (m ClaimMap) Person(claims map[string]any) (Person, error) {
	m = m.filled()
	sub, _ := claims[claimSubject].(string)
	if !nameable(sub) {
		return Person{}, errors.New(`claim "sub" is missing, or not a name that an issuer may give`)
	}
	if leftOut(claims, m.AdminClaim) {
		return Person{}, fmt.Errorf("%w (claim %q)", ErrGroupsLeftOut, m.AdminClaim)
	}
	groups, err := groups(claims, m.AdminClaim)
	if err != nil {
		return Person{}, err
	}
	about, err := subject(claims, sub)
	if err != nil {
		return Person{}, err
	}
	return Person{Name: personName(claims, sub), Subject: about, Groups: m.Roles.withRole(groups)}, nil
}

func personName(claims map[string]any, sub string) string {
	email, _ := claims["email"].(string)
	verified := claims["email_verified"] == true || claims["email_verified"] == "true" // Cognito's form
	if verified && readable(email) && strings.Contains(email, "@") && !strings.ContainsFunc(email, unicode.IsSpace) {
		return email
	}
	name, _ := claims["preferred_username"].(string)
	if strings.Contains(name, "@") {
		name += unverified
	}
	if !readable(name) {
		return sub
	}
	return name
}

// readable reports whether people who read a name cannot take it for another name or for a reserved
// name.
func readable(name string) bool {
	return nameable(name) && name == strings.TrimSpace(name) && !reserved(strings.ToLower(name)) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// nameable reports whether an issuer may give somebody this name.
func nameable(id string) bool { return validID(id) && !reserved(id) }

// leftOut reports whether the issuer says that a claim is too large for the token. The token then
// says where to get the claim (_claim_names of OpenID Connect Core, 5.6.2), or has "hasgroups",
// which Entra uses in implicit flows.
func leftOut(claims map[string]any, name string) bool {
	elsewhere, _ := claims["_claim_names"].(map[string]any)
	return elsewhere[name] != nil || name == "groups" && claims["hasgroups"] == true
}

// withRole returns the groups that have a role, each once.
func (r Roles) withRole(groups []string) []string {
	var out []string
	for _, g := range groups {
		named := hasAny([]string{g}, r.Viewers...) || hasAny([]string{g}, r.Operators...) ||
			slices.ContainsFunc(r.Approvers, func(a ApproverGroup) bool { return a.Group == g })
		if named && g != "" && !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	return out
}

// GroupClaim returns the claim that lists groups.
func (m ClaimMap) GroupClaim() string { return m.filled().AdminClaim }
