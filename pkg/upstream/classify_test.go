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
	"strings"
	"syscall"
	"testing"
	"time"
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
	status Status
	reason string
}

// connectionRows are the rows 0 to 6 of the table: what happens short of a response.
func connectionRows() []classifyRow {
	deadline := fmt.Errorf("read: %w", context.DeadlineExceeded)
	return []classifyRow{
		{"0 caller gone", Evidence{Aborted: true, Err: context.Canceled, Exchange: answered(500, "")}, "", ReasonAborted},
		{"0 caller gone, even after a denial", Evidence{Aborted: true, Exchange: answered(403, "")}, "", ReasonAborted},
		{"1 config", Evidence{Err: fmt.Errorf("resolve: %w", &configError{msg: "the URL has no host"})}, Permanent, ReasonConfig},
		{"1 blocked address", Evidence{Err: dialErrConfig(), Exchange: &Exchange{}}, Permanent, ReasonConfig},
		{"1 redirect to a blocked address", Evidence{Err: &statusError{status: 307}, Exchange: answered(307, ""), Blocked: true}, Permanent, ReasonConfig},
		{"2 own deadline", Evidence{Expired: true, Err: deadline, Exchange: &Exchange{Sent: true}}, Transient, ReasonTimeout},
		{"2 timeout of the dial", Evidence{Err: dialErr(syscall.ETIMEDOUT), Exchange: &Exchange{}}, Transient, ReasonTimeout},
		{"2 timeout of the handshake", Evidence{Err: &handshakeError{context.DeadlineExceeded}, Exchange: &Exchange{}}, Transient, ReasonTimeout},
		{"3 name server silent", Evidence{Err: dialDNS(&net.DNSError{Err: "i/o timeout", Name: "a.example", IsTimeout: true})}, Transient, ReasonDNSTimeout},
		{"3 no such name", Evidence{Err: dialDNS(&net.DNSError{Err: "no such host", Name: "a.example", IsNotFound: true})}, Permanent, ReasonDNS},
		{"3 name server failed", Evidence{Err: dialDNS(&net.DNSError{Err: "server misbehaving", IsTemporary: true})}, Permanent, ReasonDNS},
		{"3 name server refuses", Evidence{Err: dialDNS(&net.DNSError{UnwrapErr: syscall.ECONNREFUSED, Err: "refused"})}, Permanent, ReasonDNS},
		{"4 refused", Evidence{Err: dialErr(syscall.ECONNREFUSED), Exchange: &Exchange{}}, Permanent, ReasonRefused},
		{"4 host unreachable", Evidence{Err: dialErr(syscall.EHOSTUNREACH)}, Permanent, ReasonUnreachable},
		{"4 network unreachable", Evidence{Err: dialErr(syscall.ENETUNREACH)}, Permanent, ReasonUnreachable},
		{"5 reset", Evidence{Err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}, Exchange: &Exchange{Sent: true}}, Transient, ReasonReset},
		{"5 broken pipe", Evidence{Err: &net.OpError{Op: "write", Err: syscall.EPIPE}}, Transient, ReasonReset},
		{"5 EOF before headers", Evidence{Err: &url.Error{Op: "Post", Err: io.EOF}, Exchange: &Exchange{Sent: true}}, Transient, ReasonReset},
		{"5 unexpected EOF in a body", Evidence{Err: io.ErrUnexpectedEOF, Exchange: answered(200, "{")}, Transient, ReasonReset},
		{"5 stream ended", Evidence{Err: errStreamEnded, Exchange: answered(200, "")}, Transient, ReasonReset},
		{"6 unknown authority", Evidence{Err: &handshakeError{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}}, Permanent, ReasonTLS},
		{"6 wrong host", Evidence{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a.example"}}, Permanent, ReasonTLS},
		{"6 alert", Evidence{Err: &net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}}, Permanent, ReasonTLS},
		{"6 not TLS", Evidence{Err: tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}}, Permanent, ReasonTLS},
		{"6 not HTTP", Evidence{Err: errors.New("malformed HTTP response"), Exchange: &Exchange{Sent: true, Answered: true, Garbled: true}}, Permanent, ReasonNotHTTP},
		{"6 not HTTP, then closed", Evidence{Err: io.ErrUnexpectedEOF, Exchange: &Exchange{Sent: true, Answered: true, Garbled: true}}, Permanent, ReasonNotHTTP},
	}
}

// responseRows are the rows 7 to 19.
func responseRows() []classifyRow {
	return []classifyRow{
		{"7 redirect", Evidence{Err: &statusError{status: 301}, Exchange: answered(301, "")}, Permanent, ReasonRedirect},
		{"8 408", Evidence{Err: &statusError{status: 408}, Exchange: answered(408, "")}, Transient, ReasonTimeout},
		{"8 425", Evidence{Err: &statusError{status: 425}, Exchange: answered(425, "")}, Transient, ReasonTimeout},
		{"8 429", Evidence{Err: &statusError{status: 429}, Exchange: answered(429, "")}, Transient, ReasonRateLimited},
		{"9 500", Evidence{Err: &statusError{status: 500}, Exchange: answered(500, "")}, Transient, ReasonHTTP5xx},
		{"9 501", Evidence{Exchange: answered(501, "")}, Transient, ReasonHTTP5xx},
		{"9 599", Evidence{Exchange: answered(599, "")}, Transient, ReasonHTTP5xx},
		{"10 404", Evidence{Err: &statusError{status: 404}, Exchange: answered(404, "")}, Permanent, ReasonNotFound},
		{"11 400", Evidence{Exchange: answered(400, "")}, Permanent, ReasonBadRequest},
		{"11 405", Evidence{Exchange: answered(405, "")}, Permanent, ReasonWrongTransport},
		{"11 406", Evidence{Exchange: answered(406, "")}, Permanent, ReasonWrongTransport},
		{"11 415", Evidence{Exchange: answered(415, "")}, Permanent, ReasonWrongTransport},
		{"11 409", Evidence{Exchange: answered(409, "")}, Permanent, ReasonHTTP4xx},
		{"11 410", Evidence{Exchange: answered(410, "")}, Permanent, ReasonHTTP4xx},
		{"11 413", Evidence{Exchange: answered(413, "")}, Permanent, ReasonHTTP4xx},
		{"11 421", Evidence{Exchange: answered(421, "")}, Permanent, ReasonHTTP4xx},
		{"11 422", Evidence{Exchange: answered(422, "")}, Permanent, ReasonHTTP4xx},
		{"11 418", Evidence{Exchange: answered(418, "")}, Permanent, ReasonHTTP4xx},
		{"12 407", Evidence{Exchange: answered(407, "")}, Permanent, ReasonEgressProxy},
		{"12 402", Evidence{Exchange: answered(402, "")}, Denied, ReasonForbidden},
		{"12 451", Evidence{Exchange: answered(451, "")}, Denied, ReasonForbidden},
		{"13 401", Evidence{Exchange: answered(401, "")}, Denied, ReasonAuthRequired},
		{"13 403", Evidence{Exchange: answered(403, "")}, Denied, ReasonForbidden},
		{"13 RBAC", Evidence{Exchange: answered(403, "RBAC: access denied")}, Denied, ReasonForbidden},
		{"13 scope", Evidence{Exchange: answered(403, "", "Www-Authenticate", `Bearer error="insufficient_scope", scope="x"`)}, Denied, ReasonInsufficientScope},
		{"13 scope as a token", Evidence{Exchange: answered(403, "", "Www-Authenticate", `Bearer error = insufficient_scope`)}, Denied, ReasonInsufficientScope},
		{"15 another type", Evidence{Err: &protocolError{ReasonNotMCP, "html"}, Exchange: answered(200, "<html>")}, Permanent, ReasonNotMCP},
		{"15 invalid", Evidence{Err: brokenProtocol("x"), Exchange: answered(200, "{]")}, Permanent, ReasonProtocol},
		{"15 too long", Evidence{Err: errTooLong, Exchange: answered(200, "")}, Permanent, ReasonProtocol},
		{"16 no such method", Evidence{Err: &RPCError{Code: -32601}, Exchange: answered(404, "")}, Permanent, ReasonProtocol},
		{"17 −32700", Evidence{Err: &RPCError{Code: -32700}, Exchange: answered(200, "")}, Permanent, ReasonProtocol},
		{"17 −32600", Evidence{Err: &RPCError{Code: -32600}}, Permanent, ReasonProtocol},
		{"17 −32602", Evidence{Err: &RPCError{Code: -32602}, Exchange: answered(400, "")}, Permanent, ReasonProtocol},
		{"17 −32020", Evidence{Err: &RPCError{Code: -32020}}, Permanent, ReasonProtocol},
		{"17 −32021", Evidence{Err: &RPCError{Code: -32021}}, Permanent, ReasonProtocol},
		{"17 −32022", Evidence{Err: &RPCError{Code: -32022}, Exchange: answered(400, "")}, Permanent, ReasonVersion},
		{"17 no version in common", Evidence{Err: &protocolError{ReasonVersion, "x"}, Exchange: answered(400, "")}, Permanent, ReasonVersion},
		{"17 −32603", Evidence{Err: &RPCError{Code: -32603}}, Transient, ReasonUpstreamError},
		{"17 another code", Evidence{Err: &RPCError{Code: 7}}, Permanent, ReasonUpstreamError},
		{"18 credential", Evidence{Err: &credentialError{errors.New("access denied")}}, Denied, ReasonCredentialMissing},
		{"19 panic", Evidence{Err: &panicError{"boom"}}, Permanent, ReasonInternal},
		{"19 anything else", Evidence{Err: errors.New("connection reset, 403, timeout")}, Permanent, ReasonUnknown},
		{"19 nothing at all", Evidence{}, Permanent, ReasonUnknown},
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
		{"body", answered(403, out), "", ReasonAuthzUnavailable},
		{"body of a 401", answered(401, out), "", ReasonAuthzUnavailable},
		{"body with white space", answered(403, "\n upstream call timeout\r\n"), "", ReasonAuthzUnavailable},
		{"third body", answered(403, "upstream request timeout"), "", ReasonAuthzUnavailable},
		{"fourth body", answered(403, "request timeout", "Content-Type", "text/plain"), "", ReasonAuthzUnavailable},
		{"a part of the body", answered(403, "Error: request timeout"), "", ReasonForbidden},
		{"other case", answered(403, "Request Timeout"), "", ReasonForbidden},
		{"body cut off", &Exchange{Status: 403, Body: []byte(out)}, "", ReasonForbidden},
		{"body too long", answered(403, out+strings.Repeat(" ", 1024)), "", ReasonForbidden},
		{"said to be JSON", answered(403, out, "Content-Type", "application/json"), "", ReasonForbidden},
		{"said to be HTML", answered(403, out, "Content-Type", "text/html; charset=utf-8"), "", ReasonForbidden},
		{"with a challenge", answered(401, out, "Www-Authenticate", "Bearer"), "", ReasonAuthRequired},
		{"with an empty challenge", answered(401, out, "Www-Authenticate", ""), "", ReasonAuthRequired},
		{"the backend answered", answered(403, out, "X-Envoy-Upstream-Service-Time", "3"), "envoy", ReasonForbidden},
		{"envoy UT", answered(403, "", "X-Envoy-Response-Flags", "UT"), "envoy", ReasonAuthzUnavailable},
		{"envoy UF,URX", answered(403, "no", "X-Envoy-Response-Flags", "DC, UF,URX"), "envoy", ReasonAuthzUnavailable},
		{"envoy UAEX is a denial", answered(403, "", "X-Envoy-Response-Flags", "UAEX"), "envoy", ReasonForbidden},
		{"envoy ext_authz_error", answered(403, "", "X-Envoy-Response-Code-Details", "ext_authz_error"), "envoy", ReasonAuthzUnavailable},
		{"envoy ext_authz_denied", answered(403, "", "X-Envoy-Response-Code-Details", "ext_authz_denied"), "envoy", ReasonForbidden},
		{"envoy headers of an untold proxy", answered(403, "", "X-Envoy-Response-Flags", "UT"), "", ReasonForbidden},
		{"envoy with a JSON-RPC body", answered(403, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}`, "X-Envoy-Response-Flags", "UT"), "envoy", ReasonForbidden},
		{"envoy with other JSON", answered(403, `{"code":403}`, "X-Envoy-Response-Flags", "UT"), "envoy", ReasonAuthzUnavailable},
		{"envoy with JSON cut off", &Exchange{Status: 403, Body: []byte(`{"co`), Header: http.Header{"X-Envoy-Response-Flags": {"UT"}}}, "envoy", ReasonForbidden},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := Classify(Evidence{Err: &statusError{status: tt.x.Status}, Exchange: tt.x, BehindProxy: tt.proxy})
			want := Denied
			if tt.want == ReasonAuthzUnavailable {
				want = Transient
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
		status Status
		reason string
	}{
		{"a 403 from a URL that contains timeout",
			Evidence{Err: &url.Error{Op: "Post", URL: "https://a.example/timeout", Err: &statusError{status: 403}}, Exchange: answered(403, "")}, Denied, ReasonForbidden},
		{"a server named unauthorized-api", Evidence{Err: dialErr(syscall.ECONNREFUSED)}, Permanent, ReasonRefused},
		{"a timeout whose text is empty", Evidence{Err: fmt.Errorf("load: %w", emptyTimeout{})}, Transient, ReasonTimeout},
		{"a group whose first member is noise",
			Evidence{Err: errors.Join(errors.New("warning: 403 forbidden"), fmt.Errorf("page 2: %w", &net.OpError{Op: "read", Err: syscall.ECONNRESET}))}, Transient, ReasonReset},
		{"a 403 far down the chain of another error",
			Evidence{Err: fmt.Errorf("load: %w", fmt.Errorf("after a retry: %w", errors.Join(&statusError{status: 403}, syscall.ECONNREFUSED))), Exchange: &Exchange{}}, Permanent, ReasonRefused},
		{"a 403 that was the last exchange, under another error",
			Evidence{Err: fmt.Errorf("connection reset by peer: %w", fmt.Errorf("timeout: %w", &statusError{status: 403})), Exchange: answered(403, "")}, Denied, ReasonForbidden},
		{"malformed config: timeout must be int", Evidence{Err: errors.New("malformed config: timeout must be int")}, Permanent, ReasonUnknown},
		{"malformed config, with its type", Evidence{Err: &configError{msg: "malformed config: timeout must be int"}}, Permanent, ReasonConfig},
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
		{"a denial over a timeout of its body", Evidence{Expired: true, Err: timeout, Exchange: answered(403, "")}, ReasonForbidden},
		{"a denial over a reset of its body", Evidence{Err: reset, Exchange: answered(401, "")}, ReasonAuthRequired},
		{"a timeout over a reset", Evidence{Err: errors.Join(reset, timeout)}, ReasonTimeout},
		{"a timeout over a status", Evidence{Err: timeout, Exchange: answered(400, "")}, ReasonTimeout},
		{"a reset over the rest", Evidence{Err: errors.Join(refused, reset)}, ReasonReset},
		{"a reset over a status", Evidence{Err: io.ErrUnexpectedEOF, Exchange: answered(404, "")}, ReasonReset},
		{"a denial over a fault of the config", Evidence{Err: &configError{msg: "x"}, Exchange: answered(403, "")}, ReasonForbidden},
		{"only an outage turns a denial round", Evidence{Err: reset, Exchange: answered(403, "request timeout")}, ReasonAuthzUnavailable},
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
