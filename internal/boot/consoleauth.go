package boot

import (
	"net/url"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// Settings for people who sign in at the issuer.
const (
	clientName    = "PORTCULLIS_ADMIN_CLIENT_ID"
	secretName    = "PORTCULLIS_ADMIN_CLIENT_SECRET"
	viewersName   = "PORTCULLIS_VIEWERS"
	approversName = "PORTCULLIS_APPROVERS"
	operatorsName = "PORTCULLIS_OPERATORS"
	adminName     = "PORTCULLIS_ADMIN_GROUP"
)

// issuerNames are the settings of the issuer and of its groups' roles. The gateway needs them for
// tokens of agents, and for people who sign in.
var issuerNames = []string{"PORTCULLIS_ISSUER", "PORTCULLIS_ALGORITHMS", "PORTCULLIS_JWKS_URL", "PORTCULLIS_ADMIN_CLAIM", adminName, viewersName, approversName, operatorsName}

// issuer reads the settings of the trusted issuer, and the roles of its groups.
func (r *reader) issuer(a *Access) {
	a.JWT.Issuer, a.JWT.Algorithms, a.JWT.KeysURL = r.getenv("PORTCULLIS_ISSUER"), r.list("PORTCULLIS_ALGORITHMS"), r.getenv("PORTCULLIS_JWKS_URL")
	a.JWT.Claims.AdminClaim = r.getenv("PORTCULLIS_ADMIN_CLAIM")
	a.JWT.Claims.Roles = r.roles()
	a.ClientSecret = secret.New(r.getenv(secretName))
	if a.ClientID == "" && r.getenv(secretName) != "" {
		r.fault("%s is set, but %s is not: set the client id that the issuer gave with it", secretName, clientName)
	}
	if a.ClientID != "" || a.Takes(identity.WayJWT) {
		return
	}
	for _, name := range issuerNames {
		if r.getenv(name) != "" {
			r.fault("%s is set, but PORTCULLIS_AUTH does not name jwt, and people do not sign "+
				"in at an issuer: to let people sign in there, set %s", name, clientName)
		}
	}
}

// people checks the settings that people need to sign in at the issuer.
func (r *reader) people(a *Access, adminURL string) {
	if a.JWT.Issuer == "" {
		r.fault("%s is set, but PORTCULLIS_ISSUER is not: set it to the issuer that gave the client id", clientName)
		// if the gateway accepts JWTs, the check of agents' tokens reports err
	} else if _, err := identity.NewProvider(a.JWT.ProviderOptions); err != nil && !a.Takes(identity.WayJWT) {
		r.fault("PORTCULLIS_ISSUER, _ALGORITHMS, _JWKS_URL: %w", err)
	}
	switch at, err := url.Parse(adminURL); {
	case adminURL == "":
		r.fault("%s is set, but PORTCULLIS_BASE_URL is not: the issuer sends browsers back to an address below it", clientName)
	case err == nil && identity.InClear(at):
		r.fault("%s is set, and browsers reach /admin at %s, which is not https: the network could read the sign-in; set PORTCULLIS_BASE_URL (or PORTCULLIS_ADMIN_URL) to an https address", clientName, adminURL)
	}
	if a.JWT.Claims.Roles.Empty() {
		r.fault("%s is set, and no group may do anything: name one in %s, or in %s or %s", clientName, operatorsName, approversName, viewersName)
	}
	if slices.Equal(a.Ways, []string{identity.WayIAM}) {
		r.fault("%s is set, but PORTCULLIS_AUTH names only iam, which requires signed requests, "+
			"and browsers do not sign: also name jwt or token", clientName)
	}
}

// roles reads the roles of groups at /admin.
func (r *reader) roles() identity.Roles {
	out := identity.Roles{Viewers: r.list(viewersName), Operators: r.list(operatorsName)}
	named := map[string]string{} // for each group, the setting that names it
	name := func(setting, group string) {
		switch first, twice := named[group]; {
		case twice && first == setting:
			r.fault("%s names the group %q twice: name it once", setting, group)
		case twice:
			r.fault("%s names the group %q, and %s does too: name it only in the setting of the "+
				"higher role, which includes the lower role", setting, group, first)
		}
		named[group] = setting
	}
	for _, group := range out.Viewers {
		name(viewersName, group)
	}
	for _, entry := range r.list(approversName) {
		group, servers, bound := strings.Cut(entry, "=")
		a := identity.ApproverGroup{Group: strings.TrimSpace(group)}
		if a.Group == "" {
			r.fault("%s %q: want a group (db-team), or a group and its servers "+
				"(db-team=postgres|mysql)", approversName, entry)
			continue
		}
		name(approversName, a.Group)
		for server := range strings.SplitSeq(servers, "|") {
			if server = strings.TrimSpace(server); server != "" {
				a.Servers = append(a.Servers, server)
			}
		}
		if bound && a.Servers == nil {
			r.fault("%s %q names no server after the =: add servers with | between, or remove "+
				"the = for all servers", approversName, entry)
			continue // do not add the approver: without servers it could decide about all
		}
		out.Approvers = append(out.Approvers, a)
	}
	for _, group := range out.Operators {
		name(operatorsName, group)
	}
	if group := r.getenv(adminName); group != "" && !slices.Contains(out.Operators, group) {
		name(adminName, group)
		out.Operators = append(out.Operators, group)
	}
	return out
}
