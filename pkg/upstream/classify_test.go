package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
)

// An emptyTimeout is a timeout with an empty text.
type emptyTimeout struct{}

func (emptyTimeout) Error() string   { return "" }
func (emptyTimeout) Timeout() bool   { return true }
func (emptyTimeout) Temporary() bool { return true }

func dialErr(err error) error {
	return &url.Error{Op: "Post", URL: "https://unauthorized-api.example/timeout?reset=1",
		Err: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}}
}

func dialDNS(err *net.DNSError) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

// answered returns a complete exchange. headers alternates names and values.
func answered(status int, body string, headers ...string) *exchange {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	return &exchange{sent: true, answered: true, status: status, header: h, body: []byte(body), complete: true}
}

// refused returns the evidence of an exchange that ended with an HTTP status.
func refused(x *exchange) evidence {
	return evidence{err: &statusError{status: x.status}, exchange: x}
}

// A verdict is evidence and its outcome.
type verdict struct {
	name   string
	e      evidence
	status outcome.Status
	reason string
}

func checkVerdicts(t *testing.T, verdicts []verdict) {
	for _, v := range verdicts {
		t.Run(v.name, func(t *testing.T) {
			if out := classify(v.e); out.Status != v.status || out.Reason != v.reason {
				t.Errorf("classify = %q %s, want %q %s", out.Status, out.Reason, v.status, v.reason)
			}
		})
	}
}

const (
	transient, permanent, denied = outcome.Transient, outcome.Permanent, outcome.Denied
	forbidden, outage            = outcome.ReasonForbidden, outcome.ReasonAuthzUnavailable
)

// Failures before a response.
func TestClassifyConnections(t *testing.T) {
	deadline := fmt.Errorf("read: %w", context.DeadlineExceeded)
	garbled := &exchange{sent: true, answered: true, garbled: true}
	checkVerdicts(t, []verdict{
		{"caller gone", evidence{aborted: true, err: context.Canceled, exchange: answered(500, "")}, "", outcome.ReasonAborted},
		{"caller gone, even after a denial", evidence{aborted: true, exchange: answered(403, "")}, "", outcome.ReasonAborted},
		{"config", evidence{err: fmt.Errorf("resolve: %w", &configError{msg: "the URL has no host"})}, permanent, outcome.ReasonConfig},
		{"blocked address", evidence{err: &net.OpError{Op: "dial", Err: new(egress.BlockedError)}, exchange: &exchange{}}, permanent, outcome.ReasonConfig},
		{"redirect to a blocked address", evidence{err: &statusError{status: 307}, exchange: answered(307, ""), blocked: true}, permanent, outcome.ReasonConfig},
		{"own deadline", evidence{expired: true, err: deadline, exchange: &exchange{sent: true}}, transient, outcome.ReasonTimeout},
		{"timeout of the dial", evidence{err: dialErr(syscall.ETIMEDOUT), exchange: &exchange{}}, transient, outcome.ReasonTimeout},
		{"timeout of the handshake", evidence{err: &egress.TLSError{Err: context.DeadlineExceeded}, exchange: &exchange{}}, transient, outcome.ReasonTimeout},
		{"timeout whose text is empty", evidence{err: fmt.Errorf("load: %w", emptyTimeout{})}, transient, outcome.ReasonTimeout},
		{"name server silent", evidence{err: dialDNS(&net.DNSError{Err: "i/o timeout", Name: "a.example", IsTimeout: true})}, transient, outcome.ReasonDNSTimeout},
		{"no such name", evidence{err: dialDNS(&net.DNSError{Err: "no such host", Name: "a.example", IsNotFound: true})}, permanent, outcome.ReasonDNS},
		{"name server failed", evidence{err: dialDNS(&net.DNSError{Err: "server misbehaving", IsTemporary: true})}, permanent, outcome.ReasonDNS},
		{"name server refuses", evidence{err: dialDNS(&net.DNSError{UnwrapErr: syscall.ECONNREFUSED, Err: "refused"})}, permanent, outcome.ReasonDNS},
		{"name server resets", evidence{err: dialDNS(&net.DNSError{UnwrapErr: syscall.ECONNRESET, Err: "reset"})}, permanent, outcome.ReasonDNS},
		{"refused", evidence{err: dialErr(syscall.ECONNREFUSED), exchange: &exchange{}}, permanent, outcome.ReasonRefused},
		{"host unreachable", evidence{err: dialErr(syscall.EHOSTUNREACH)}, permanent, outcome.ReasonUnreachable},
		{"network unreachable", evidence{err: dialErr(syscall.ENETUNREACH)}, permanent, outcome.ReasonUnreachable},
		{"reset", evidence{err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}, exchange: &exchange{sent: true}}, transient, outcome.ReasonReset},
		{"broken pipe", evidence{err: &net.OpError{Op: "write", Err: syscall.EPIPE}}, transient, outcome.ReasonReset},
		{"EOF before headers", evidence{err: &url.Error{Op: "Post", Err: io.EOF}, exchange: &exchange{sent: true}}, transient, outcome.ReasonReset},
		{"closed before anything was sent", evidence{err: &url.Error{Op: "Post", Err: errors.New("http: server closed idle connection")}}, transient, outcome.ReasonReset},
		{"the same text without the type", evidence{err: errors.New("http: server closed idle connection")}, permanent, outcome.ReasonUnknown},
		{"unexpected EOF in a body", evidence{err: io.ErrUnexpectedEOF, exchange: answered(200, "{")}, transient, outcome.ReasonReset},
		{"stream ended", evidence{err: errStreamEnded, exchange: answered(200, "")}, transient, outcome.ReasonReset},
		{"unknown authority", evidence{err: &egress.TLSError{Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}}, permanent, outcome.ReasonTLS},
		{"alert after the handshake", evidence{err: &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}}, permanent, outcome.ReasonTLS},
		{"not TLS", evidence{err: tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}}, permanent, outcome.ReasonTLS},
		{"not HTTP", evidence{err: errors.New("malformed HTTP response"), exchange: garbled}, permanent, outcome.ReasonNotHTTP},
		{"not HTTP, then closed", evidence{err: io.ErrUnexpectedEOF, exchange: garbled}, permanent, outcome.ReasonNotHTTP},
	})
}

func TestClassifyResponses(t *testing.T) {
	var verdicts []verdict
	for _, row := range []struct {
		codes  []int
		status outcome.Status
		reason string
	}{
		{[]int{301, 307}, permanent, outcome.ReasonRedirect},
		{[]int{408, 425}, transient, outcome.ReasonTimeout},
		{[]int{429}, transient, outcome.ReasonRateLimited},
		{[]int{500, 501, 599}, transient, outcome.ReasonHTTP5xx},
		{[]int{404}, permanent, outcome.ReasonNotFound},
		{[]int{400}, permanent, outcome.ReasonBadRequest},
		{[]int{405, 406, 415}, permanent, outcome.ReasonWrongTransport},
		{[]int{409, 410, 413, 418, 421, 422}, permanent, outcome.ReasonHTTP4xx},
		{[]int{407}, permanent, outcome.ReasonEgressProxy},
		{[]int{402, 403, 451}, denied, forbidden},
		{[]int{401}, denied, outcome.ReasonAuthRequired},
	} {
		for _, code := range row.codes {
			verdicts = append(verdicts, verdict{fmt.Sprint(code), refused(answered(code, "")), row.status, row.reason},
				verdict{fmt.Sprint(code, " without an error"), evidence{exchange: answered(code, "")}, row.status, row.reason})
		}
	}
	for code, want := range map[int64]verdict{
		-32601: {status: permanent, reason: outcome.ReasonProtocol}, -32700: {status: permanent, reason: outcome.ReasonProtocol},
		-32600: {status: permanent, reason: outcome.ReasonProtocol}, -32602: {status: permanent, reason: outcome.ReasonProtocol},
		-32020: {status: permanent, reason: outcome.ReasonProtocol}, -32021: {status: permanent, reason: outcome.ReasonProtocol},
		-32022: {status: permanent, reason: outcome.ReasonVersion}, -32603: {status: transient, reason: outcome.ReasonUpstreamError},
		7: {status: permanent, reason: outcome.ReasonUpstreamError},
	} {
		for _, status := range []int{200, 400, 404} {
			verdicts = append(verdicts, verdict{fmt.Sprintf("error %d in HTTP %d", code, status),
				evidence{err: &outcome.RPCError{Code: code}, exchange: answered(status, "")}, want.status, want.reason})
		}
	}
	checkVerdicts(t, append(verdicts, []verdict{
		{"RBAC", refused(answered(403, "RBAC: access denied")), denied, forbidden},
		{"scope", refused(answered(403, "", "Www-Authenticate", `Bearer error="insufficient_scope", scope="x"`)), denied, outcome.ReasonInsufficientScope},
		{"scope as a token", refused(answered(403, "", "Www-Authenticate", `Bearer error = insufficient_scope`)), denied, outcome.ReasonInsufficientScope},
		{"another type", evidence{err: &protocolError{outcome.ReasonNotMCP, "html"}, exchange: answered(200, "<html>")}, permanent, outcome.ReasonNotMCP},
		{"invalid", evidence{err: brokenProtocol("x"), exchange: answered(200, "{]")}, permanent, outcome.ReasonProtocol},
		{"too long", evidence{err: errTooLong, exchange: answered(200, "")}, permanent, outcome.ReasonProtocol},
		{"no version in common", evidence{err: &protocolError{outcome.ReasonVersion, "x"}, exchange: answered(400, "")}, permanent, outcome.ReasonVersion},
		{"credential", evidence{err: &credentialError{errors.New("access denied")}}, denied, outcome.ReasonCredentialMissing},
		{"panic", evidence{err: &panicError{"boom"}}, permanent, outcome.ReasonInternal},
		{"anything else", evidence{err: errors.New("connection reset, 403, timeout")}, permanent, outcome.ReasonUnknown},
		{"nothing at all", evidence{}, permanent, outcome.ReasonUnknown},
	}...))
}

func TestClassifyAuthorizationOutage(t *testing.T) {
	const out = "Authorization service unavailable"
	envoy := func(x *exchange) evidence { e := refused(x); e.proxy = "envoy"; return e }
	checkVerdicts(t, []verdict{
		{"body", refused(answered(403, out)), transient, outage},
		{"body of a 401", refused(answered(401, out)), transient, outage},
		{"body with white space", refused(answered(403, "\n upstream call timeout\r\n")), transient, outage},
		{"third body", refused(answered(403, "upstream request timeout")), transient, outage},
		{"fourth body", refused(answered(403, "request timeout", "Content-Type", "text/plain")), transient, outage},
		{"a part of the body", refused(answered(403, "Error: request timeout")), denied, forbidden},
		{"other case", refused(answered(403, "Request Timeout")), denied, forbidden},
		{"body cut off", refused(&exchange{status: 403, body: []byte(out)}), denied, forbidden},
		{"body too long", refused(answered(403, out+strings.Repeat(" ", 1024))), denied, forbidden},
		{"declared as JSON", refused(answered(403, out, "Content-Type", "application/json")), denied, forbidden},
		{"declared as HTML", refused(answered(403, out, "Content-Type", "text/html; charset=utf-8")), denied, forbidden},
		{"with a challenge", refused(answered(401, out, "Www-Authenticate", "Bearer")), denied, outcome.ReasonSignInRequired},
		{"with an empty challenge", refused(answered(401, out, "Www-Authenticate", "")), denied, outcome.ReasonAuthRequired},
		{"the backend answered", envoy(answered(403, out, "X-Envoy-Upstream-Service-Time", "3")), denied, forbidden},
		{"envoy UT", envoy(answered(403, "", "X-Envoy-Response-Flags", "UT")), transient, outage},
		{"envoy UF,URX", envoy(answered(403, "no", "X-Envoy-Response-Flags", "DC, UF,URX")), transient, outage},
		{"envoy UAEX is a denial", envoy(answered(403, "", "X-Envoy-Response-Flags", "UAEX")), denied, forbidden},
		{"envoy ext_authz_error", envoy(answered(403, "", "X-Envoy-Response-Code-Details", "ext_authz_error")), transient, outage},
		{"envoy ext_authz_denied", envoy(answered(403, "", "X-Envoy-Response-Code-Details", "ext_authz_denied")), denied, forbidden},
		{"envoy headers of an unconfigured proxy", refused(answered(403, "", "X-Envoy-Response-Flags", "UT")), denied, forbidden},
		{"envoy with a JSON-RPC body", envoy(answered(403, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}`, "X-Envoy-Response-Flags", "UT")), denied, forbidden},
		{"envoy with other JSON", envoy(answered(403, `{"code":403}`, "X-Envoy-Response-Flags", "UT")), transient, outage},
		{"envoy with JSON cut off", envoy(&exchange{status: 403, body: []byte(`{"co`), header: http.Header{"X-Envoy-Response-Flags": {"UT"}}}), denied, forbidden},
	})
}

func TestClassifyForeignText(t *testing.T) {
	checkVerdicts(t, []verdict{
		{"a 403 from a URL that contains timeout",
			evidence{err: &url.Error{Op: "Post", URL: "https://a.example/timeout", Err: &statusError{status: 403}}, exchange: answered(403, "")}, denied, forbidden},
		{"a server named unauthorized-api", evidence{err: dialErr(syscall.ECONNREFUSED)}, permanent, outcome.ReasonRefused},
		{"a group whose first member is noise",
			evidence{err: errors.Join(errors.New("warning: 403 forbidden"), fmt.Errorf("page 2: %w", &net.OpError{Op: "read", Err: syscall.ECONNRESET}))}, transient, outcome.ReasonReset},
		{"a 403 far down the chain of another error",
			evidence{err: fmt.Errorf("load: %w", fmt.Errorf("after a retry: %w", errors.Join(&statusError{status: 403}, syscall.ECONNREFUSED))), exchange: &exchange{}}, permanent, outcome.ReasonRefused},
		{"a 403 that was the last exchange, under another error",
			evidence{err: fmt.Errorf("connection reset by peer: %w", fmt.Errorf("timeout: %w", &statusError{status: 403})), exchange: answered(403, "")}, denied, forbidden},
		{"malformed config: timeout must be int", evidence{err: errors.New("malformed config: timeout must be int")}, permanent, outcome.ReasonUnknown},
		{"malformed config, with its type", evidence{err: &configError{msg: "malformed config: timeout must be int"}}, permanent, outcome.ReasonConfig},
	})
}

func TestClassifyPriority(t *testing.T) {
	timeout, reset, refused := os.ErrDeadlineExceeded, error(syscall.ECONNRESET), error(syscall.ECONNREFUSED)
	checkVerdicts(t, []verdict{
		{"a denial over a timeout of its body", evidence{expired: true, err: timeout, exchange: answered(403, "")}, denied, forbidden},
		{"a denial over a reset of its body", evidence{err: reset, exchange: answered(401, "")}, denied, outcome.ReasonAuthRequired},
		{"a timeout over a reset", evidence{err: errors.Join(reset, timeout)}, transient, outcome.ReasonTimeout},
		{"a timeout over a status", evidence{err: timeout, exchange: answered(400, "")}, transient, outcome.ReasonTimeout},
		{"a reset over the rest", evidence{err: errors.Join(refused, reset)}, transient, outcome.ReasonReset},
		{"a reset over a status", evidence{err: io.ErrUnexpectedEOF, exchange: answered(404, "")}, transient, outcome.ReasonReset},
		{"a denial over a fault of the config", evidence{err: &configError{msg: "x"}, exchange: answered(403, "")}, denied, forbidden},
		{"only an outage overrides a denial", evidence{err: reset, exchange: answered(403, "request timeout")}, transient, outage},
	})
}

func TestClassifyRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, " 120 ": 2 * time.Minute, "-5": 0, "1.5": 0, "soon": 0, "99999999999999999999999": 24 * time.Hour, "100000": 24 * time.Hour,
		"Fri, 20 Nov 2026 12:00:30 GMT": 30 * time.Second, "Fri, 20 Nov 2026 11:00:00 GMT": 0,
	} {
		if got := classify(evidence{exchange: answered(429, "", "Retry-After", v), now: now}).RetryAfter; got != want {
			t.Errorf("Retry-After %q is %v, want %v", v, got, want)
		}
	}
}

func TestRulesHaveReasonsOfTheSet(t *testing.T) {
	for _, r := range rules() {
		if !slices.Contains(outcome.Reasons(), r.reason) {
			t.Errorf("reason %q is not one of Reasons", r.reason)
		}
		o := outcome.Outcome{Status: r.status, Reason: r.reason}
		if r.status == permanent && strings.Contains(o.Message("s"), "the cause is not known") {
			t.Errorf("reason %q has no text", r.reason)
		}
	}
}
