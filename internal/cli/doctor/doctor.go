// Package doctor reports the problems of a gateway and its environment: findings, each with a
// stable code, its cause, and the remedy.
//
// It reuses existing classifications: the outcomes of package upstream for servers, and the reasons
// of the gateway's health. A Probe uses the connections that the gateway would open. This package
// adds the texts that help people to solve the problems.
package doctor

import (
	"maps"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// A Severity says how bad a finding is.
type Severity string

// The severities, from the worst.
const (
	Fault   Severity = "fault"   // something does not work, or other people can use it
	Warning Severity = "warning" // it works, but not well, or it will stop working soon
	Note    Severity = "note"    // worth knowing
)

// A Finding is one problem or fact.
type Finding struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	About    string   `json:"about,omitempty"` // a file with its line, a server, an address
	Cause    string   `json:"cause"`
	Do       string   `json:"do,omitempty"`  // what to do, in words
	Run      string   `json:"run,omitempty"` // a line to run
	Fixed    bool     `json:"fixed,omitempty"`

	Fix func() error `json:"-"` // repairs it if that is safe; nil: no repair
}

// Find returns a finding with the severity and the remedy of its code.
func Find(code, about, cause string) Finding {
	k, ok := kinds()[code]
	if !ok {
		k = kind{Fault, ""} // unknown code; a test detects this
	}
	return Finding{Code: code, Severity: k.severity, About: about, Cause: cause, Do: k.do}
}

// Codes returns every code in alphabetical order.
func Codes() []string {
	return slices.Sorted(maps.Keys(kinds()))
}

// A kind is the common part of all findings with one code.
type kind struct {
	severity Severity
	do       string
}

// kinds returns the codes. docs/doctor.md describes the symptom, the cause and the remedy of each.
func kinds() map[string]kind {
	all := map[string]kind{
		"settings":       {Fault, "Correct the named environment variables; docs/settings.md explains them."},
		"config_fault":   {Fault, "Correct the file. Until then the last good version stays in use, if there is one."},
		"config_warning": {Warning, "Correct the file, or leave it if it is intended."},
		"policy_fault":   {Fault, "Correct the file. Until then the last good version stays in use, if there is one."},
		"policy_warning": {Warning, "Correct the file, or leave it if it is intended."},
		"nothing_denied": {Note, "Nothing, if every agent that may see the server may " +
			"call all of its approved tools. Otherwise write a rule, or a list."},
		"variable_unset": {Fault, "Set the variable where the gateway is started."},
		"secret_elsewhere": {Warning, "On this machine write ${env:NAME}; only the " +
			"functions on AWS can read the present reference."},
		"catalog_unread": {Fault, "The next sync of a gateway replaces it."},
		"catalog_newer": {Fault, "Run the newer version again. To stay with this version, delete the " +
			"file: the next sync makes a new catalog from the servers and the approval records."},
		"file_mode": {Fault, "Remove the rights of other users."},
		"key_exposed": {Fault, "Other users may have read the key: remove the file, and start the " +
			"gateway again, which makes a new key."},
		"vault_key_exposed": {Fault, "Other users may have read the key, and with it every token of " +
			"the gateway's sign-ins: remove the file, and sign in again at each server."},
		"vault_key_missing": {Fault, "Put the file back from a copy, and start the gateway again. " +
			"Otherwise sign in again at each server; the first sign-in makes a new key."},
		"folder_unwritable": {Fault, "Make the folder writable for the user who runs the " +
			"gateway."},
		"disk_full": {Warning, "Free space on the disk: the gateway refuses or loses " +
			"what it cannot write."},
		"serve_stale":       {Warning, "Remove it: the gateway that it names does not run any more."},
		"approvals_damaged": {Fault, "Restore it from a copy, or from the tool catalog."},
		"approvals_held":    {Fault, "Stop the process that has the file open, or wait for it."},
		"folder_unopened": {Fault, "Fix this first; the doctor can check the rest of the " +
			"folder after that."},
		"backups_old":       {Note, "Remove the copies that nobody needs."},
		"gitignore_lacks":   {Warning, "Add the lines, so that no key and no state gets into the repository."},
		"secrets_unignored": {Warning, "Add the line, so that git add does not take the file. If a commit has it already, replace the secrets."},
		"not_started":       {Note, "Start the gateway: then the doctor can check more."},
		"unhealthy":         {Fault, ""},
		"gateway_unreached": {Fault, "Start the gateway, or correct the address."},
		"gateway_foreign": {Fault, "Correct the address: something other than a Portcullis " +
			"gateway answers there."},
		"no_admin": {Fault, "Stop the gateway, make an admin's token with the command that the finding shows, and start the gateway again. With that token make the other tokens."},
		"credential": {Warning, "Set PORTCULLIS_TOKEN to a credential that the " +
			"gateway accepts, and that may see /admin."},
		"base_url_plain":   {Warning, "Serve it over https: over http every credential goes through the network in clear."},
		"base_url_differs": {Fault, "Set PORTCULLIS_BASE_URL of the gateway to the address that clients use: they refuse a token for another address."},
		"base_url_unreached": {Warning, "Correct PORTCULLIS_BASE_URL, or the proxy in front " +
			"of the gateway."},
		"clock_skew": {Warning, "Set the clock that is wrong: tokens and signatures are good for minutes, and certificates have a first and a last day."},
		"name_long":  {Warning, `Use "mode": "search", in which clients do not see the names of tools, or give the server a shorter name.`},
		"tokens_end": {Warning, "Replace these tokens, and give the new tokens to the programs " +
			"before the gateway stops accepting the key; docs/operate.md has the steps."},
		"tokens_void": {Warning, "Replace these tokens, and revoke them; docs/operate.md says " +
			"how to restore a key that was replaced by mistake."},
		"certificate_expires": {Warning, "Have the server's owner renew the certificate."},
		"server_no_tools": {Warning, "Check whether the server lists its tools to this " +
			"credential."},
		"definitions_refused":  {Warning, "The server's owner has to fix them; GET /admin/servers names each."},
		"server_unasked":       {Warning, "Run doctor again: it had no time to ask the server."},
		"server_needs_command": {Note, "Add --allow-commands to have it started: its program then runs with your user's rights."},
	}
	for reason, do := range remedies() {
		code := "server_" + reason
		if _, ok := all[code]; !ok {
			all[code] = kind{Fault, do}
		}
	}
	return all
}

// remedies returns the remedy for a server by the reason of its outcome.
func remedies() map[string]string {
	return map[string]string{
		outcome.ReasonConfig: "Look at the server's url and headers. An address that is not public is dialed only if PORTCULLIS_ALLOW_NETS has it.",
		outcome.ReasonTimeout: "Check whether the server hangs, or a firewall drops " +
			"the traffic to it.",
		outcome.ReasonDNSTimeout: "Look at this machine's name server: it does not answer.",
		outcome.ReasonDNS: "Correct the host in the server's url: the name cannot " +
			"be resolved here.",
		outcome.ReasonRefused:     "Start the server, or correct host and port in its url.",
		outcome.ReasonUnreachable: "Look at the network between this machine and the server.",
		outcome.ReasonReset: "Look in the server's log, and at proxies in front of " +
			"it: the connection broke during an answer.",
		outcome.ReasonTLS: "Have the server's certificate renewed, or made for the host in its url by an authority that this machine trusts.",
		outcome.ReasonNotHTTP: "Correct the scheme or the port in the server's url: " +
			"the server there does not speak HTTP.",
		outcome.ReasonRedirect:    "Write the address to which the server redirects into the server's url; the gateway follows no redirect.",
		outcome.ReasonRateLimited: "Wait; the server accepts no more requests for now.",
		outcome.ReasonHTTP5xx:     "Look in the server's log: it failed.",
		outcome.ReasonNotFound:    "Correct the path in the server's url; it is often /mcp.",
		outcome.ReasonBadRequest: "Check that the url is the address of the MCP " +
			"endpoint, and read in the server's log why it refused.",
		outcome.ReasonWrongTransport: "Use the server's streamable HTTP endpoint, often /mcp; one that ends in /sse speaks an older transport.",
		outcome.ReasonHTTP4xx:        "Look in the server's log why it refused.",
		outcome.ReasonEgressProxy: "Let the gateway reach the server without that proxy: " +
			"it requires a login, which the gateway does not have.",
		outcome.ReasonAuthRequired: `Give the server a credential: "headers": {"Authorization": "Bearer ${env:NAME}"}. If the config has one already, it is wrong or has expired.`,
		outcome.ReasonSignInRequired: "Sign the gateway in: portcullis servers login NAME. " +
			`Or give the server a token that its owner issues: "headers": {"Authorization": "Bearer ${env:NAME}"}.`,
		outcome.ReasonCredentialExpired: "Sign the gateway in again: portcullis servers login NAME.",
		outcome.ReasonClientRefused: "If the config has a client_id, correct it and its secret. " +
			"Then sign the gateway in again: portcullis servers login NAME.",
		outcome.ReasonIssuerChanged: "Ask the server's owner whether the new issuer is right. " +
			"If it is, sign in again and confirm it: portcullis servers login NAME.",
		outcome.ReasonResourceMismatch: "Have the server's owner correct its metadata: " +
			"until then the gateway cannot sign in to the server.",
		outcome.ReasonScopeNotAllowed: "Add the scopes to auth.scopes of the server and sign in again. " +
			"Until then the calls that need these scopes fail.",
		outcome.ReasonForbidden: "Have the server's owner allow this credential, or use another credential.",
		outcome.ReasonInsufficientScope: "Use a credential with the scope that the server names; " +
			"for a sign-in, run portcullis servers login NAME again.",
		outcome.ReasonAuthzUnavailable: "Wait: the service that checks credentials in front of " +
			"the server is down.",
		outcome.ReasonNotMCP: "Correct the server's url: a web page or another API answers there.",
		outcome.ReasonProtocol: "Ask the server's owner to fix it: its answer is not " +
			"valid MCP.",
		outcome.ReasonVersion:       "Have the server updated: it speaks no version of MCP that the gateway knows.",
		outcome.ReasonUpstreamError: "Look in the server's log: it answers with an error of its own.",
		outcome.ReasonCredentialMissing: "Set the values to which the server's headers or env " +
			"refer.",
		outcome.ReasonInternal: "The gateway failed. Report this as a bug, with the text of the finding.",
		outcome.ReasonUnknown: "The gateway cannot classify this failure. Report it as a bug, with the " +
			"text of the finding.",
		outcome.ReasonNeedsCommand: "Add --allow-commands to have it started.",
		outcome.ReasonCommand:      "Correct the server's command: it cannot be started. It has PATH, HOME, LANG, TMPDIR, proxy and CA variables, and its own env.",
		outcome.ReasonNoProcess:    "Wait until calls end. If this fault remains, set \"session\": \"shared\" for servers that keep no data of a single agent.",
		outcome.ReasonStarting:     "Wait. The gateway asks it again. If it never answers, run its command by hand. The gateway starts it again after ten minutes.",
		outcome.ReasonDescriptors:  "Raise ulimit -n where the program is started: no more connections or programs can be opened.",
		outcome.ReasonExited:       "Run the server's command by hand, and read what it prints before it ends.",
	}
}
