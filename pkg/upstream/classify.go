package upstream

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/process"
)

// An evidence holds all facts about a failed attempt.
type evidence struct {
	aborted  bool      // the caller's context is done
	expired  bool      // the attempt's or the server's own time is up
	err      error     // what failed
	exchange *exchange // the last HTTP exchange; nil: none was begun
	proxy    string    // "envoy": x-envoy-* headers come from a trusted proxy
	blocked  bool      // the exchange redirects to an address that may not be dialed
	now      time.Time // for a Retry-After date

	authorized bool  // the requests had a credential for HTTP
	connected  bool  // the credential was the token of the gateway's sign-in
	renewal    error // why a refused token was not renewed; nil: not tried
}

// classify returns the outcome of an attempt's evidence: status, reason, HTTP status and RetryAfter
// only. It is pure and total. Status codes, headers and error types select the outcome. Only four
// texts count: the whole bodies that authorization proxies send.
func classify(e evidence) outcome.Outcome {
	if e.exchange == nil {
		e.exchange = &exchange{}
	}
	o := outcome.Outcome{Status: outcome.Permanent, Reason: outcome.ReasonUnknown,
		HTTPStatus: e.exchange.status, RetryAfter: retryAfter(e.exchange.header, e.now)}
	for _, r := range rules() {
		if r.holds(&e) {
			o.Status, o.Reason = r.status, r.reason
			break
		}
	}
	return o
}

// A rule is one kind of failure and its outcome.
type rule struct {
	status outcome.Status
	reason string
	holds  func(e *evidence) bool
}

// rules returns the table. The first rule that matches decides. After an abort, denials come first,
// because a later failure of the same response does not undo a denial. Timeouts come next, then
// resets, then all other failures.
func rules() []rule {
	status := func(codes ...int) func(*evidence) bool {
		return func(e *evidence) bool { return slices.Contains(codes, e.exchange.status) }
	}
	class := func(hundreds int) func(*evidence) bool {
		return func(e *evidence) bool { return e.exchange.status/100 == hundreds }
	}
	protocol := func(reason string) func(*evidence) bool {
		return func(e *evidence) bool {
			broken, ok := errors.AsType[*protocolError](e.err)
			return ok && broken.reason == reason
		}
	}
	rpc := func(codes ...int64) func(*evidence) bool {
		return func(e *evidence) bool {
			own, ok := errors.AsType[*outcome.RPCError](e.err)
			return ok && slices.Contains(codes, own.Code)
		}
	}
	is := func(targets ...error) func(*evidence) bool {
		return func(e *evidence) bool {
			return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(e.err, target) })
		}
	}
	return []rule{
		{"", outcome.ReasonAborted, func(e *evidence) bool { return e.aborted }},
		{outcome.Transient, outcome.ReasonAuthzUnavailable, (*evidence).authorizationOut},
		{outcome.Denied, outcome.ReasonInsufficientScope, (*evidence).scopeMissing},
		{outcome.Denied, outcome.ReasonClientRefused, ended(oauth.InvalidClient)},
		{outcome.Denied, outcome.ReasonIssuerChanged, ended(oauth.IssuerChanged)},
		{outcome.Transient, outcome.ReasonAuthzUnavailable, (*evidence).tokenUnavailable},
		{outcome.Denied, outcome.ReasonCredentialExpired, (*evidence).signInEnded},
		{outcome.Denied, outcome.ReasonSignInRequired, (*evidence).signInRequired},
		{outcome.Denied, outcome.ReasonAuthRequired, status(http.StatusUnauthorized)},
		{outcome.Denied, outcome.ReasonForbidden, status(http.StatusForbidden, http.StatusPaymentRequired, http.StatusUnavailableForLegalReasons)},

		{outcome.Transient, outcome.ReasonDescriptors, func(e *evidence) bool { return capacity.IsDescriptors(e.err) }},
		{outcome.Permanent, outcome.ReasonNeedsCommand, is(errNeedsCommand)},
		{outcome.Permanent, outcome.ReasonCommand, has[*process.StartError]},
		{outcome.Transient, outcome.ReasonNoProcess, is(process.ErrFull, errAgentFull)},
		{outcome.Permanent, outcome.ReasonExited, func(e *evidence) bool { return e.exited(true) }},
		{outcome.Transient, outcome.ReasonExited, func(e *evidence) bool { return e.exited(false) }},

		{outcome.Transient, outcome.ReasonDNSTimeout, (*evidence).nameServerSilent},
		{outcome.Transient, outcome.ReasonTimeout, (*evidence).timedOut},
		{outcome.Permanent, outcome.ReasonDNS, has[*net.DNSError]}, // or a name server that hangs up or refuses
		{outcome.Transient, outcome.ReasonReset, is(errStreamEnded, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE)},
		{outcome.Transient, outcome.ReasonReset, (*evidence).closedUnanswered},
		{outcome.Transient, outcome.ReasonReset, func(e *evidence) bool { return is(io.EOF, io.ErrUnexpectedEOF)(e) && !e.exchange.garbled }},

		{outcome.Permanent, outcome.ReasonConfig, func(e *evidence) bool { return e.blocked || has[*configError](e) || has[*egress.BlockedError](e) }},
		{outcome.Permanent, outcome.ReasonRefused, is(syscall.ECONNREFUSED)},
		{outcome.Permanent, outcome.ReasonUnreachable, is(syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN)},
		{outcome.Permanent, outcome.ReasonTLS, (*evidence).brokenTLS},
		{outcome.Permanent, outcome.ReasonNotHTTP, func(e *evidence) bool { return e.exchange.answered && e.exchange.status == 0 }},

		{outcome.Permanent, outcome.ReasonRedirect, class(3)},
		{outcome.Transient, outcome.ReasonTimeout, status(http.StatusRequestTimeout, http.StatusTooEarly)},
		{outcome.Transient, outcome.ReasonRateLimited, status(http.StatusTooManyRequests)},
		{outcome.Transient, outcome.ReasonHTTP5xx, class(5)},
		{outcome.Permanent, outcome.ReasonEgressProxy, status(http.StatusProxyAuthRequired)},

		// A JSON-RPC error is more specific than the 400 or 404 that carries it.
		{outcome.Permanent, outcome.ReasonProtocol, rpc(mcp.CodeMethodNotFound, mcp.CodeParse, mcp.CodeInvalidRequest, mcp.CodeInvalidParams, mcp.CodeHeaderMismatch, mcp.CodeMissingCapability)},
		{outcome.Permanent, outcome.ReasonVersion, rpc(mcp.CodeVersion)},
		{outcome.Permanent, outcome.ReasonVersion, protocol(outcome.ReasonVersion)},
		{outcome.Transient, outcome.ReasonUpstreamError, rpc(mcp.CodeInternal)},
		{outcome.Permanent, outcome.ReasonUpstreamError, has[*outcome.RPCError]},

		{outcome.Permanent, outcome.ReasonNotFound, status(http.StatusNotFound)},
		{outcome.Permanent, outcome.ReasonBadRequest, status(http.StatusBadRequest)},
		{outcome.Permanent, outcome.ReasonWrongTransport, status(http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType)},
		{outcome.Permanent, outcome.ReasonHTTP4xx, class(4)},

		{outcome.Permanent, outcome.ReasonNotMCP, protocol(outcome.ReasonNotMCP)},
		{outcome.Permanent, outcome.ReasonProtocol, protocol(outcome.ReasonProtocol)},
		{outcome.Denied, outcome.ReasonCredentialMissing, has[*credentialError]},
		{outcome.Permanent, outcome.ReasonInternal, has[*panicError]},
	}
}

// has reports whether e.err is or wraps an error of type T.
func has[T error](e *evidence) bool {
	_, ok := errors.AsType[T](e.err)
	return ok
}

// signInEnded reports whether the sign-in has ended, or the server refused its token although it
// should be valid.
func (e *evidence) signInEnded() bool {
	return ended()(e) || e.connected && e.exchange.status == http.StatusUnauthorized
}

// ended returns a function that reports whether the sign-in has ended. If there are codes, the
// reason must be one of them.
func ended(codes ...oauth.Code) func(*evidence) bool {
	return func(e *evidence) bool {
		err, ok := errors.AsType[*oauth.EndedError](e.err)
		if !ok {
			err, ok = errors.AsType[*oauth.EndedError](e.renewal)
		}
		return ok && (len(codes) == 0 || slices.Contains(codes, oauth.Code(err.Reason)))
	}
}

// tokenUnavailable reports whether the token of a sign-in could not be read or renewed for now.
func (e *evidence) tokenUnavailable() bool {
	if e.exchange.status == http.StatusUnauthorized && e.renewal != nil {
		_, ended := errors.AsType[*oauth.EndedError](e.renewal)
		return !ended
	}
	return has[*tokenError](e)
}

// exited reports whether a program ended. If mute is set, it must have ended without any message,
// otherwise after a message.
func (e *evidence) exited(mute bool) bool {
	exit, ok := errors.AsType[*exitError](e.err)
	return ok && exit.mute == mute
}

func (e *evidence) nameServerSilent() bool {
	dns, ok := errors.AsType[*net.DNSError](e.err)
	return ok && dns.IsTimeout
}

func (e *evidence) timedOut() bool {
	timeout, ok := errors.AsType[net.Error](e.err)
	return e.expired || ok && timeout.Timeout() || errors.Is(e.err, context.DeadlineExceeded) ||
		errors.Is(e.err, os.ErrDeadlineExceeded) || errors.Is(e.err, syscall.ETIMEDOUT)
}

// brokenTLS reports whether the handshake failed or a TLS alert ended the connection later. The
// alerts of crypto/tls have no type of their own.
func (e *evidence) brokenTLS() bool {
	op, ok := errors.AsType[*net.OpError](e.err)
	return has[*egress.TLSError](e) || has[tls.RecordHeaderError](e) || ok && (op.Op == "remote error" || op.Op == "local error")
}

// denied reports whether the answer was 401 or 403.
func (x *exchange) denied() bool {
	return x.status == http.StatusUnauthorized || x.status == http.StatusForbidden
}

// scopeMissing reports whether a 401 or 403 asks for a wider scope.
func (e *evidence) scopeMissing() bool {
	return e.exchange.denied() && slices.ContainsFunc(e.exchange.header.Values("Www-Authenticate"), func(v string) bool {
		v = strings.ToLower(strings.ReplaceAll(v, " ", ""))
		return strings.Contains(v, `error="insufficient_scope"`) || strings.Contains(v, "error=insufficient_scope")
	})
}

// authorizationOut reports whether a 401 or 403 means that the authorization service did not
// answer. Any other 401 or 403 is a denial.
func (e *evidence) authorizationOut() bool {
	x := e.exchange
	return x.denied() && len(x.header.Values("Www-Authenticate")) == 0 && len(x.header.Values("X-Envoy-Upstream-Service-Time")) == 0 &&
		!x.maybeRPC() && (x.outageBody() || e.proxy == "envoy" && x.envoyOutage())
}

// maybeRPC reports whether the body is a JSON-RPC message, or a prefix of one.
func (x *exchange) maybeRPC() bool {
	body := bytes.TrimSpace(x.body)
	if len(body) == 0 || body[0] != '{' && body[0] != '[' {
		return false
	}
	var m struct {
		JSONRPC json.RawMessage `json:"jsonrpc"`
	}
	return body[0] == '[' || !x.complete || json.Unmarshal(body, &m) != nil || m.JSONRPC != nil
}

// outageBody reports whether the whole body is one of the four texts by which authorization proxies
// report an outage. A part of the body never counts.
func (x *exchange) outageBody() bool {
	media, _, _ := mime.ParseMediaType(x.header.Get("Content-Type"))
	if !x.complete || len(x.body) > 1<<10 || strings.HasSuffix(media, "json") || strings.HasSuffix(media, "html") {
		return false
	}
	switch string(bytes.TrimSpace(x.body)) {
	case "Authorization service unavailable", "upstream call timeout", "upstream request timeout", "request timeout":
		return true
	}
	return false
}

// envoyOutage reports whether Envoy reports that a service did not answer.
func (x *exchange) envoyOutage() bool {
	return x.header.Get("X-Envoy-Response-Code-Details") == "ext_authz_error" || x.envoySays("UT", "UF", "UH", "UO", "URX")
}

// envoySays reports whether Envoy's response flags include one of flags.
func (x *exchange) envoySays(flags ...string) bool {
	return slices.ContainsFunc(x.envoyFlags(), func(flag string) bool { return slices.Contains(flags, flag) })
}

func (x *exchange) envoyFlags() []string {
	all := strings.Join(x.header.Values("X-Envoy-Response-Flags"), ",")
	return strings.FieldsFunc(all, func(r rune) bool { return r == ',' || r == ' ' })
}

// maxRetryAfter bounds the Retry-After of a server.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads Retry-After, in seconds or as a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if strings.Trim(v, "0123456789") == "" {
		seconds, err := strconv.Atoi(cmp.Or(v, "0"))
		if err != nil { // too large for an int
			return maxRetryAfter
		}
		return time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(now), maxRetryAfter))
}

// closedUnanswered reports whether the server closed the connection when the client was about to
// send the request. The HTTP client does not export its error for that. The HTTP client retries
// automatically only if the connection has served a request before.
func (e *evidence) closedUnanswered() bool {
	failed, ok := errors.AsType[*url.Error](e.err)
	return ok && failed.Err.Error() == "http: server closed idle connection"
}
