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

	"github.com/portcullis-mcp/portcullis/pkg/egress"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
)

// An emptyTimeout is a timeout that says nothing.
type emptyTimeout struct{}

func (emptyTimeout) Error() string   { return "" }
func (emptyTimeout) Timeout() bool   { return true }
func (emptyTimeout) Temporary() bool { return true }

func dialErr(err error) error {
	return &url.Error{Op: "Post", URL: "https://unauthorized-api.example/timeout?reset=1",
		Err: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}}
}

// answered is a whole exchange; headers are name, value, ….
func answered(status int, body string, headers ...string) *Exchange {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	return &Exchange{Sent: true, Answered: true, Status: status, Header: h, Body: []byte(body), Complete: true}
}

type classifyRow struct {
	row    string
	e      Evidence
	status outcome.Status
	reason string
}

// connectionRows are the rows 0 to 6 of the table: what happens short of a response.
func connectionRows() []classifyRow {
	deadline := fmt.Errorf("read: %w", context.DeadlineExceeded)
	return []classifyRow{
		{"0 caller gone", Evidence{Aborted: true, Err: context.Canceled, Exchange: answered(500, "")}, "", outcome.ReasonAborted},
		{"0 caller gone, even after a denial", Evidence{Aborted: true, Exchange: answered(403, "")}, "", outcome.ReasonAborted},
		{"1 config", Evidence{Err: fmt.Errorf("resolve: %w", &configError{msg: "the URL has no host"})}, outcome.Permanent, outcome.ReasonConfig},
		{"1 blocked address", Evidence{Err: dialErrConfig(), Exchange: &Exchange{}}, outcome.Permanent, outcome.ReasonConfig},
		{"1 redirect to a blocked address", Evidence{Err: &statusError{status: 307}, Exchange: answered(307, ""), Blocked: true}, outcome.Permanent, outcome.ReasonConfig},
		{"2 own deadline", Evidence{Expired: true, Err: deadline, Exchange: &Exchange{Sent: true}}, outcome.Transient, outcome.ReasonTimeout},
		{"2 timeout of the dial", Evidence{Err: dialErr(syscall.ETIMEDOUT), Exchange: &Exchange{}}, outcome.Transient, outcome.ReasonTimeout},
		{"2 timeout of the handshake", Evidence{Err: &egress.TLSError{Err: context.DeadlineExceeded}, Exchange: &Exchange{}}, outcome.Transient, outcome.ReasonTimeout},
		{"3 name server silent", Evidence{Err: dialDNS(&net.DNSError{Err: "i/o timeout", Name: "a.example", IsTimeout: true})}, outcome.Transient, outcome.ReasonDNSTimeout},
		{"3 no such name", Evidence{Err: dialDNS(&net.DNSError{Err: "no such host", Name: "a.example", IsNotFound: true})}, outcome.Permanent, outcome.ReasonDNS},
		{"3 name server failed", Evidence{Err: dialDNS(&net.DNSError{Err: "server misbehaving", IsTemporary: true})}, outcome.Permanent, outcome.ReasonDNS},
		{"3 name server refuses", Evidence{Err: dialDNS(&net.DNSError{UnwrapErr: syscall.ECONNREFUSED, Err: "refused"})}, outcome.Permanent, outcome.ReasonDNS},
		{"4 refused", Evidence{Err: dialErr(syscall.ECONNREFUSED), Exchange: &Exchange{}}, outcome.Permanent, outcome.ReasonRefused},
		{"4 host unreachable", Evidence{Err: dialErr(syscall.EHOSTUNREACH)}, outcome.Permanent, outcome.ReasonUnreachable},
		{"4 network unreachable", Evidence{Err: dialErr(syscall.ENETUNREACH)}, outcome.Permanent, outcome.ReasonUnreachable},
		{"5 reset", Evidence{Err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}, Exchange: &Exchange{Sent: true}}, outcome.Transient, outcome.ReasonReset},
		{"5 broken pipe", Evidence{Err: &net.OpError{Op: "write", Err: syscall.EPIPE}}, outcome.Transient, outcome.ReasonReset},
		{"5 EOF before headers", Evidence{Err: &url.Error{Op: "Post", Err: io.EOF}, Exchange: &Exchange{Sent: true}}, outcome.Transient, outcome.ReasonReset},
		{"5 unexpected EOF in a body", Evidence{Err: io.ErrUnexpectedEOF, Exchange: answered(200, "{")}, outcome.Transient, outcome.ReasonReset},
		{"5 stream ended", Evidence{Err: errStreamEnded, Exchange: answered(200, "")}, outcome.Transient, outcome.ReasonReset},
		{"6 unknown authority", Evidence{Err: &egress.TLSError{Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}}, outcome.Permanent, outcome.ReasonTLS},
		{"6 wrong host", Evidence{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a.example"}}, outcome.Permanent, outcome.ReasonTLS},
		{"6 alert", Evidence{Err: &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}}, outcome.Permanent, outcome.ReasonTLS},
		{"6 not TLS", Evidence{Err: tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}}, outcome.Permanent, outcome.ReasonTLS},
		{"6 not HTTP", Evidence{Err: errors.New("malformed HTTP response"), Exchange: &Exchange{Sent: true, Answered: true, Garbled: true}}, outcome.Permanent, outcome.ReasonNotHTTP},
		{"6 not HTTP, then closed", Evidence{Err: io.ErrUnexpectedEOF, Exchange: &Exchange{Sent: true, Answered: true, Garbled: true}}, outcome.Permanent, outcome.ReasonNotHTTP},
	}
}

// responseRows are the rows 7 to 19.
func responseRows() []classifyRow {
	return []classifyRow{
		{"7 redirect", Evidence{Err: &statusError{status: 301}, Exchange: answered(301, "")}, outcome.Permanent, outcome.ReasonRedirect},
		{"8 408", Evidence{Err: &statusError{status: 408}, Exchange: answered(408, "")}, outcome.Transient, outcome.ReasonTimeout},
		{"8 425", Evidence{Err: &statusError{status: 425}, Exchange: answered(425, "")}, outcome.Transient, outcome.ReasonTimeout},
		{"8 429", Evidence{Err: &statusError{status: 429}, Exchange: answered(429, "")}, outcome.Transient, outcome.ReasonRateLimited},
		{"9 500", Evidence{Err: &statusError{status: 500}, Exchange: answered(500, "")}, outcome.Transient, outcome.ReasonHTTP5xx},
		{"9 501", Evidence{Exchange: answered(501, "")}, outcome.Transient, outcome.ReasonHTTP5xx},
		{"9 599", Evidence{Exchange: answered(599, "")}, outcome.Transient, outcome.ReasonHTTP5xx},
		{"10 404", Evidence{Err: &statusError{status: 404}, Exchange: answered(404, "")}, outcome.Permanent, outcome.ReasonNotFound},
		{"11 400", Evidence{Exchange: answered(400, "")}, outcome.Permanent, outcome.ReasonBadRequest},
		{"11 405", Evidence{Exchange: answered(405, "")}, outcome.Permanent, outcome.ReasonWrongTransport},
		{"11 406", Evidence{Exchange: answered(406, "")}, outcome.Permanent, outcome.ReasonWrongTransport},
		{"11 415", Evidence{Exchange: answered(415, "")}, outcome.Permanent, outcome.ReasonWrongTransport},
		{"11 409", Evidence{Exchange: answered(409, "")}, outcome.Permanent, outcome.ReasonHTTP4xx},
		{"11 410", Evidence{Exchange: answered(410, "")}, outcome.Permanent, outcome.ReasonHTTP4xx},
		{"11 413", Evidence{Exchange: answered(413, "")}, outcome.Permanent, outcome.ReasonHTTP4xx},
		{"11 421", Evidence{Exchange: answered(421, "")}, outcome.Permanent, outcome.ReasonHTTP4xx},
		{"11 422", Evidence{Exchange: answered(422, "")}, outcome.Permanent, outcome.ReasonHTTP4xx},
		{"11 418", Evidence{Exchange: answered(418, "")}, outcome.Permanent, outcome.ReasonHTTP4xx},
		{"12 407", Evidence{Exchange: answered(407, "")}, outcome.Permanent, outcome.ReasonEgressProxy},
		{"12 402", Evidence{Exchange: answered(402, "")}, outcome.Denied, outcome.ReasonForbidden},
		{"12 451", Evidence{Exchange: answered(451, "")}, outcome.Denied, outcome.ReasonForbidden},
		{"13 401", Evidence{Exchange: answered(401, "")}, outcome.Denied, outcome.ReasonAuthRequired},
		{"13 403", Evidence{Exchange: answered(403, "")}, outcome.Denied, outcome.ReasonForbidden},
		{"13 RBAC", Evidence{Exchange: answered(403, "RBAC: access denied")}, outcome.Denied, outcome.ReasonForbidden},
		{"13 scope", Evidence{Exchange: answered(403, "", "Www-Authenticate", `Bearer error="insufficient_scope", scope="x"`)}, outcome.Denied, outcome.ReasonInsufficientScope},
		{"13 scope as a token", Evidence{Exchange: answered(403, "", "Www-Authenticate", `Bearer error = insufficient_scope`)}, outcome.Denied, outcome.ReasonInsufficientScope},
		{"15 another type", Evidence{Err: &protocolError{outcome.ReasonNotMCP, "html"}, Exchange: answered(200, "<html>")}, outcome.Permanent, outcome.ReasonNotMCP},
		{"15 invalid", Evidence{Err: brokenProtocol("x"), Exchange: answered(200, "{]")}, outcome.Permanent, outcome.ReasonProtocol},
		{"15 too long", Evidence{Err: errTooLong, Exchange: answered(200, "")}, outcome.Permanent, outcome.ReasonProtocol},
		{"16 no such method", Evidence{Err: &RPCError{Code: -32601}, Exchange: answered(404, "")}, outcome.Permanent, outcome.ReasonProtocol},
		{"17 −32700", Evidence{Err: &RPCError{Code: -32700}, Exchange: answered(200, "")}, outcome.Permanent, outcome.ReasonProtocol},
		{"17 −32600", Evidence{Err: &RPCError{Code: -32600}}, outcome.Permanent, outcome.ReasonProtocol},
		{"17 −32602", Evidence{Err: &RPCError{Code: -32602}, Exchange: answered(400, "")}, outcome.Permanent, outcome.ReasonProtocol},
		{"17 −32020", Evidence{Err: &RPCError{Code: -32020}}, outcome.Permanent, outcome.ReasonProtocol},
		{"17 −32021", Evidence{Err: &RPCError{Code: -32021}}, outcome.Permanent, outcome.ReasonProtocol},
		{"17 −32022", Evidence{Err: &RPCError{Code: -32022}, Exchange: answered(400, "")}, outcome.Permanent, outcome.ReasonVersion},
		{"17 no version in common", Evidence{Err: &protocolError{outcome.ReasonVersion, "x"}, Exchange: answered(400, "")}, outcome.Permanent, outcome.ReasonVersion},
		{"17 −32603", Evidence{Err: &RPCError{Code: -32603}}, outcome.Transient, outcome.ReasonUpstreamError},
		{"17 another code", Evidence{Err: &RPCError{Code: 7}}, outcome.Permanent, outcome.ReasonUpstreamError},
		{"18 credential", Evidence{Err: &credentialError{errors.New("access denied")}}, outcome.Denied, outcome.ReasonCredentialMissing},
		{"19 panic", Evidence{Err: &panicError{"boom"}}, outcome.Permanent, outcome.ReasonInternal},
		{"19 anything else", Evidence{Err: errors.New("connection reset, 403, timeout")}, outcome.Permanent, outcome.ReasonUnknown},
		{"19 nothing at all", Evidence{}, outcome.Permanent, outcome.ReasonUnknown},
	}
}

func TestClassifyRows(t *testing.T) {
	for _, tt := range append(connectionRows(), responseRows()...) {
		t.Run(tt.row, func(t *testing.T) {
			if v := Classify(tt.e); v.Status != tt.status || v.Reason != tt.reason {
				t.Errorf("Classify = %q %s, want %q %s", v.Status, v.Reason, tt.status, tt.reason)
			}
		})
	}
}

func dialErrConfig() error {
	return &net.OpError{Op: "dial", Err: &configError{msg: "address 10.0.0.1 is not public"}}
}

func dialDNS(err *net.DNSError) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

func TestClassifyAuthorizationOutage(t *testing.T) {
	const out = "Authorization service unavailable"
	for _, tt := range []struct {
		name  string
		x     *Exchange
		proxy string
		want  string
	}{
		{"body", answered(403, out), "", outcome.ReasonAuthzUnavailable},
		{"body of a 401", answered(401, out), "", outcome.ReasonAuthzUnavailable},
		{"body with white space", answered(403, "\n upstream call timeout\r\n"), "", outcome.ReasonAuthzUnavailable},
		{"third body", answered(403, "upstream request timeout"), "", outcome.ReasonAuthzUnavailable},
		{"fourth body", answered(403, "request timeout", "Content-Type", "text/plain"), "", outcome.ReasonAuthzUnavailable},
		{"a part of the body", answered(403, "Error: request timeout"), "", outcome.ReasonForbidden},
		{"other case", answered(403, "Request Timeout"), "", outcome.ReasonForbidden},
		{"body cut off", &Exchange{Status: 403, Body: []byte(out)}, "", outcome.ReasonForbidden},
		{"body too long", answered(403, out+strings.Repeat(" ", 1024)), "", outcome.ReasonForbidden},
		{"said to be JSON", answered(403, out, "Content-Type", "application/json"), "", outcome.ReasonForbidden},
		{"said to be HTML", answered(403, out, "Content-Type", "text/html; charset=utf-8"), "", outcome.ReasonForbidden},
		{"with a challenge", answered(401, out, "Www-Authenticate", "Bearer"), "", outcome.ReasonAuthRequired},
		{"with an empty challenge", answered(401, out, "Www-Authenticate", ""), "", outcome.ReasonAuthRequired},
		{"the backend answered", answered(403, out, "X-Envoy-Upstream-Service-Time", "3"), "envoy", outcome.ReasonForbidden},
		{"envoy UT", answered(403, "", "X-Envoy-Response-Flags", "UT"), "envoy", outcome.ReasonAuthzUnavailable},
		{"envoy UF,URX", answered(403, "no", "X-Envoy-Response-Flags", "DC, UF,URX"), "envoy", outcome.ReasonAuthzUnavailable},
		{"envoy UAEX is a denial", answered(403, "", "X-Envoy-Response-Flags", "UAEX"), "envoy", outcome.ReasonForbidden},
		{"envoy ext_authz_error", answered(403, "", "X-Envoy-Response-Code-Details", "ext_authz_error"), "envoy", outcome.ReasonAuthzUnavailable},
		{"envoy ext_authz_denied", answered(403, "", "X-Envoy-Response-Code-Details", "ext_authz_denied"), "envoy", outcome.ReasonForbidden},
		{"envoy headers of an untold proxy", answered(403, "", "X-Envoy-Response-Flags", "UT"), "", outcome.ReasonForbidden},
		{"envoy with a JSON-RPC body", answered(403, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}`, "X-Envoy-Response-Flags", "UT"), "envoy", outcome.ReasonForbidden},
		{"envoy with other JSON", answered(403, `{"code":403}`, "X-Envoy-Response-Flags", "UT"), "envoy", outcome.ReasonAuthzUnavailable},
		{"envoy with JSON cut off", &Exchange{Status: 403, Body: []byte(`{"co`), Header: http.Header{"X-Envoy-Response-Flags": {"UT"}}}, "envoy", outcome.ReasonForbidden},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := Classify(Evidence{Err: &statusError{status: tt.x.Status}, Exchange: tt.x, BehindProxy: tt.proxy})
			want := outcome.Denied
			if tt.want == outcome.ReasonAuthzUnavailable {
				want = outcome.Transient
			}
			if v.Status != want || v.Reason != tt.want {
				t.Errorf("Classify = %s %s, want %s %s", v.Status, v.Reason, want, tt.want)
			}
		})
	}
}

func TestClassifyIsNotMisledByText(t *testing.T) {
	for _, tt := range []struct {
		name   string
		e      Evidence
		status outcome.Status
		reason string
	}{
		{"a 403 from a URL that contains timeout",
			Evidence{Err: &url.Error{Op: "Post", URL: "https://a.example/timeout", Err: &statusError{status: 403}}, Exchange: answered(403, "")}, outcome.Denied, outcome.ReasonForbidden},
		{"a server named unauthorized-api", Evidence{Err: dialErr(syscall.ECONNREFUSED)}, outcome.Permanent, outcome.ReasonRefused},
		{"a timeout whose text is empty", Evidence{Err: fmt.Errorf("load: %w", emptyTimeout{})}, outcome.Transient, outcome.ReasonTimeout},
		{"a group whose first member is noise",
			Evidence{Err: errors.Join(errors.New("warning: 403 forbidden"), fmt.Errorf("page 2: %w", &net.OpError{Op: "read", Err: syscall.ECONNRESET}))}, outcome.Transient, outcome.ReasonReset},
		{"a 403 far down the chain of another error",
			Evidence{Err: fmt.Errorf("load: %w", fmt.Errorf("after a retry: %w", errors.Join(&statusError{status: 403}, syscall.ECONNREFUSED))), Exchange: &Exchange{}}, outcome.Permanent, outcome.ReasonRefused},
		{"a 403 that was the last exchange, under another error",
			Evidence{Err: fmt.Errorf("connection reset by peer: %w", fmt.Errorf("timeout: %w", &statusError{status: 403})), Exchange: answered(403, "")}, outcome.Denied, outcome.ReasonForbidden},
		{"malformed config: timeout must be int", Evidence{Err: errors.New("malformed config: timeout must be int")}, outcome.Permanent, outcome.ReasonUnknown},
		{"malformed config, with its type", Evidence{Err: &configError{msg: "malformed config: timeout must be int"}}, outcome.Permanent, outcome.ReasonConfig},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if v := Classify(tt.e); v.Status != tt.status || v.Reason != tt.reason {
				t.Errorf("Classify = %s %s, want %s %s", v.Status, v.Reason, tt.status, tt.reason)
			}
		})
	}
}

func TestClassifyPriority(t *testing.T) {
	timeout, reset, refused := error(emptyTimeout{}), error(syscall.ECONNRESET), error(syscall.ECONNREFUSED)
	for _, tt := range []struct {
		name string
		e    Evidence
		want string
	}{
		{"a denial over a timeout of its body", Evidence{Expired: true, Err: timeout, Exchange: answered(403, "")}, outcome.ReasonForbidden},
		{"a denial over a reset of its body", Evidence{Err: reset, Exchange: answered(401, "")}, outcome.ReasonAuthRequired},
		{"a timeout over a reset", Evidence{Err: errors.Join(reset, timeout)}, outcome.ReasonTimeout},
		{"a timeout over a status", Evidence{Err: timeout, Exchange: answered(400, "")}, outcome.ReasonTimeout},
		{"a reset over the rest", Evidence{Err: errors.Join(refused, reset)}, outcome.ReasonReset},
		{"a reset over a status", Evidence{Err: io.ErrUnexpectedEOF, Exchange: answered(404, "")}, outcome.ReasonReset},
		{"a denial over a fault of the config", Evidence{Err: &configError{msg: "x"}, Exchange: answered(403, "")}, outcome.ReasonForbidden},
		{"only an outage turns a denial round", Evidence{Err: reset, Exchange: answered(403, "request timeout")}, outcome.ReasonAuthzUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if v := Classify(tt.e); v.Reason != tt.want {
				t.Errorf("Classify = %s %s, want %s", v.Status, v.Reason, tt.want)
			}
		})
	}
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"":                              0,
		"3":                             3 * time.Second,
		" 120 ":                         2 * time.Minute,
		"Fri, 20 Nov 2026 12:00:30 GMT": 30 * time.Second,
		"Fri, 20 Nov 2026 11:00:00 GMT": 0,
		"-5":                            0,
		"1.5":                           0,
		"soon":                          0,
		"99999999999999999999999":       24 * time.Hour,
	} {
		got := Classify(Evidence{Exchange: answered(429, "", "Retry-After", v), Now: now}).RetryAfter
		if got != want {
			t.Errorf("Retry-After %q is %v, want %v", v, got, want)
		}
	}
}

func TestEveryGroundHasAReasonOfTheSet(t *testing.T) {
	all := outcome.Reasons()
	for _, g := range grounds() {
		if !slices.Contains(all, g.reason) {
			t.Errorf("row %s has reason %q, which Reasons does not list", g.row, g.reason)
		}
		o := outcome.Outcome{Status: g.status, Reason: g.reason}
		if g.status == outcome.Permanent && strings.Contains(o.Message("s"), "the cause is not known") {
			t.Errorf("row %s has reason %q, which has no words", g.row, g.reason)
		}
	}
}
