package outcome

// The reasons of an [Outcome]: stable codes, few enough for a metric's
// dimension.
const (
	ReasonAborted           = "aborted"            // the caller gave up; not recorded
	ReasonConfig            = "config"             // bad URL, blocked address, missing secret
	ReasonTimeout           = "timeout"            // also HTTP 408 and 425
	ReasonDNSTimeout        = "dns_timeout"        // the name server did not answer
	ReasonDNS               = "dns"                // the name does not resolve
	ReasonRefused           = "refused"            // connection refused
	ReasonUnreachable       = "unreachable"        // no route to the host
	ReasonReset             = "reset"              // the connection broke before the answer was complete
	ReasonTLS               = "tls"                // certificate or handshake
	ReasonNotHTTP           = "not_http"           // the bytes received are not HTTP
	ReasonRedirect          = "redirect"           // 3xx; not followed
	ReasonRateLimited       = "rate_limited"       // 429
	ReasonHTTP5xx           = "http_5xx"           // any 5xx
	ReasonNotFound          = "not_found"          // 404
	ReasonBadRequest        = "bad_request"        // 400
	ReasonWrongTransport    = "wrong_transport"    // 405, 406, 415
	ReasonHTTP4xx           = "http_4xx"           // the other 4xx
	ReasonEgressProxy       = "egress_proxy"       // 407
	ReasonAuthRequired      = "auth_required"      // 401
	ReasonSignInRequired    = "sign_in_required"   // 401 without a credential: it needs a token
	ReasonCredentialExpired = "credential_expired" //nolint:gosec // not a credential; the gateway's sign-in has ended
	ReasonClientRefused     = "client_refused"     // the issuer refused the client of a sign-in
	ReasonIssuerChanged     = "issuer_changed"     // the server no longer names the issuer of the sign-in
	ReasonResourceMismatch  = "resource_mismatch"  // the metadata describe another resource
	ReasonScopeNotAllowed   = "scope_not_allowed"  // the config does not allow the scopes
	ReasonForbidden         = "forbidden"          // 402, 403, 451
	ReasonInsufficientScope = "insufficient_scope" // the credential lacks a scope
	ReasonAuthzUnavailable  = "authz_unavailable"  // 401 or 403 because the authorization service is down
	ReasonNotMCP            = "not_mcp"            // 200 with HTML or another type
	ReasonProtocol          = "protocol"           // the answer breaks JSON-RPC or MCP, or a limit
	ReasonTooLarge          = "too_large"          // the result of a call is over a limit; the server works
	ReasonVersion           = "version"            // no protocol version in common
	ReasonUpstreamError     = "upstream_error"     // a JSON-RPC error of the server's own
	ReasonCredentialMissing = "credential_missing" //nolint:gosec // not a credential; the gateway cannot read the server's credential
	ReasonInternal          = "internal"           // a fault of this program
	ReasonUnknown           = "unknown"            // anything else
	ReasonNeedsCommand      = "needs_command"      // the server is a program, and this gateway starts none
	ReasonCommand           = "command"            // its program cannot be started
	ReasonExited            = "exited"             // its program ended
	ReasonStarting          = "starting"           // its program runs and has not answered yet
	ReasonNoProcess         = "no_process"         // its program was not started: all allowed processes are in use
	ReasonDescriptors       = "no_descriptors"     // this process can open no more connections, files or programs
	ReasonBreakerOpen       = "breaker_open"       // a call not made: the server failed too often just now
)

// Reasons returns every reason that an outcome can have, in a fixed order.
func Reasons() []string {
	return []string{
		ReasonAborted, ReasonConfig, ReasonTimeout, ReasonDNSTimeout, ReasonDNS, ReasonRefused, ReasonUnreachable,
		ReasonReset, ReasonTLS, ReasonNotHTTP, ReasonRedirect, ReasonRateLimited, ReasonHTTP5xx, ReasonNotFound,
		ReasonBadRequest, ReasonWrongTransport, ReasonHTTP4xx, ReasonEgressProxy, ReasonAuthRequired,
		ReasonSignInRequired, ReasonCredentialExpired, ReasonClientRefused, ReasonIssuerChanged,
		ReasonResourceMismatch, ReasonScopeNotAllowed, ReasonForbidden,
		ReasonInsufficientScope, ReasonAuthzUnavailable, ReasonNotMCP, ReasonProtocol, ReasonTooLarge, ReasonVersion,
		ReasonUpstreamError, ReasonCredentialMissing, ReasonInternal, ReasonUnknown, ReasonBreakerOpen,
		ReasonNeedsCommand, ReasonCommand, ReasonExited, ReasonNoProcess, ReasonDescriptors, ReasonStarting,
	}
}

// Message returns the one line about o that an agent may read, "" if the server is available or o
// is not recorded. It depends only on the server's name, the status and the reason; it contains
// nothing that the server sent.
func (o Outcome) Message(serverID string) string {
	switch o.Status {
	case Transient:
		if o.Reason == ReasonDescriptors {
			return "The gateway has too many connections open at the moment, and did not reach MCP server '" + serverID + "'; it will be retried."
		}
		return "MCP server '" + serverID + "' is starting up or briefly unavailable; it will be retried."
	case Permanent:
		return "MCP server '" + serverID + "' is unavailable and needs attention: " + inWords(o.Reason) +
			". Its tools will not work until it is fixed."
	case Denied:
		switch {
		case o.Reason == ReasonSignInRequired:
			return "The gateway has no access to MCP server '" + serverID + "'. Retrying will not help; the gateway's operator must give the gateway access."
		case o.SignInEnded():
			return "The gateway's sign-in at MCP server '" + serverID + "' has ended. Retrying will not help; the gateway's operator must sign in again."
		case o.Reason == ReasonScopeNotAllowed, o.Reason == ReasonInsufficientScope && o.Connected:
			return "The gateway's sign-in at MCP server '" + serverID + "' does not allow this. " +
				"Retrying will not help; the gateway's operator must allow more and sign in again."
		}
		return "Access to MCP server '" + serverID + "' was denied. Retrying will not help; contact its owner."
	}
	return ""
}

// SignInEnded reports whether the gateway had a sign-in at the server that has ended.
func (o Outcome) SignInEnded() bool {
	switch o.Reason {
	case ReasonCredentialExpired, ReasonClientRefused, ReasonIssuerChanged:
		return true
	}
	return false
}

// NeedsSignIn reports whether a person must sign the gateway in to the server, or sign in again.
func (o Outcome) NeedsSignIn() bool {
	return o.Reason == ReasonSignInRequired || o.SignInEnded()
}

// inWords returns the reason of a permanent failure in words.
func inWords(reason string) string {
	switch reason {
	case ReasonConfig:
		return "its configuration is not valid"
	case ReasonDNS:
		return "its name does not resolve"
	case ReasonRefused:
		return "it refuses connections"
	case ReasonUnreachable:
		return "its network cannot be reached"
	case ReasonTLS:
		return "no trusted TLS connection to it is possible"
	case ReasonNotHTTP:
		return "it does not speak HTTP"
	case ReasonRedirect:
		return "it redirects elsewhere"
	case ReasonNotFound:
		return "there is nothing at its address"
	case ReasonBadRequest, ReasonHTTP4xx:
		return "it rejects the gateway's requests"
	case ReasonWrongTransport:
		return "it does not serve MCP over streamable HTTP"
	case ReasonEgressProxy:
		return "a network proxy on the way to it wants a login"
	case ReasonNotMCP:
		return "its answers are not MCP"
	case ReasonProtocol:
		return "its answers break the MCP protocol"
	case ReasonVersion:
		return "it has no MCP version in common with the gateway"
	case ReasonUpstreamError:
		return "it answers with an error"
	case ReasonNeedsCommand:
		return "it is a program, and this gateway starts none: use --allow-commands, or serve it over HTTP"
	case ReasonCommand:
		return "its program cannot be started"
	case ReasonExited:
		return "its program ends as soon as it is started"
	case ReasonInternal:
		return "the gateway failed on it"
	}
	return "the cause is not known"
}
