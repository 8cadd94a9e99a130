package upstream

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
)

// Evidence is all that is known of an attempt that failed.
type Evidence struct {
	Aborted     bool      // the caller's context is done
	Expired     bool      // the attempt's or the server's own time is up
	Err         error     // what failed
	Exchange    *Exchange // the last HTTP exchange; nil: none was begun
	BehindProxy string    // "envoy": x-envoy-* headers come from a proxy that the operator trusts
	Blocked     bool      // the exchange redirects to an address that may not be dialed
	Now         time.Time // for a Retry-After date
}

// A Verdict is what an attempt's evidence comes to.
type Verdict struct {
	Status     outcome.Status // "": aborted, not to be recorded
	Reason     string
	HTTPStatus int
	RetryAfter time.Duration // how long the server asked to be left alone; 0: it did not
}

// A ground is one way to fail and how to tell it.
type ground struct {
	row    string // of the table in the documentation
	status outcome.Status
	reason string
	holds  func(c *findings) bool
}

// Findings are the evidence and what was read out of it.
type findings struct {
	Evidence
	signals
	code int // of the last response, 0 if there was none
}

// Classify says what an attempt's evidence comes to. It is pure and total. A status
// code, a header and the type of an error decide; the only texts that count are
// four bodies that authorization proxies send whole.
func Classify(e Evidence) Verdict {
	f := &findings{Evidence: e}
	if f.Exchange == nil {
		f.Exchange = &Exchange{}
	}
	f.code = f.Exchange.Status
	f.read(e.Err)
	v := Verdict{HTTPStatus: f.code, RetryAfter: retryAfter(f.Exchange.Header, e.Now)}
	for _, g := range grounds() {
		if g.holds(f) {
			v.Status, v.Reason = g.status, g.reason
			return v
		}
	}
	v.Status, v.Reason = outcome.Permanent, outcome.ReasonUnknown
	return v
}

// grounds is the table; the first ground that holds decides. A denial that was
// received comes before all else, since nothing that happens to the rest of
// such a response takes it back; then timeouts, then resets, then the rest.
func grounds() []ground {
	status := func(codes ...int) func(*findings) bool {
		return func(f *findings) bool { return slices.Contains(codes, f.code) }
	}
	class := func(hundreds int) func(*findings) bool {
		return func(f *findings) bool { return f.code/100 == hundreds }
	}
	protocol := func(reason string) func(*findings) bool {
		return func(f *findings) bool { return f.protocol == reason }
	}
	rpc := func(codes ...int64) func(*findings) bool {
		return func(f *findings) bool { return f.rpc != nil && slices.Contains(codes, f.rpc.Code) }
	}
	return []ground{
		{"0", "", outcome.ReasonAborted, func(f *findings) bool { return f.Aborted }},

		{"14", outcome.Transient, outcome.ReasonAuthzUnavailable, (*findings).authzOut},
		{"13", outcome.Denied, outcome.ReasonInsufficientScope, (*findings).scopeMissing},
		{"13", outcome.Denied, outcome.ReasonAuthRequired, status(http.StatusUnauthorized)},
		{"13", outcome.Denied, outcome.ReasonForbidden, status(http.StatusForbidden)},
		{"12", outcome.Denied, outcome.ReasonForbidden, status(http.StatusPaymentRequired, http.StatusUnavailableForLegalReasons)},

		{"3", outcome.Transient, outcome.ReasonDNSTimeout, func(f *findings) bool { return f.dnsTimeout }},
		{"2", outcome.Transient, outcome.ReasonTimeout, func(f *findings) bool { return f.Expired || f.timeout }},
		{"5", outcome.Transient, outcome.ReasonReset, func(f *findings) bool { return f.reset || f.eof && !f.Exchange.Garbled }},

		{"1", outcome.Permanent, outcome.ReasonConfig, func(f *findings) bool { return f.config || f.Blocked }},
		{"3", outcome.Permanent, outcome.ReasonDNS, func(f *findings) bool { return f.dns }},
		{"4", outcome.Permanent, outcome.ReasonRefused, func(f *findings) bool { return f.refused }},
		{"4", outcome.Permanent, outcome.ReasonUnreachable, func(f *findings) bool { return f.unreachable }},
		{"6", outcome.Permanent, outcome.ReasonTLS, func(f *findings) bool { return f.tls }},
		{"6", outcome.Permanent, outcome.ReasonNotHTTP, func(f *findings) bool { return f.Exchange.Answered && f.code == 0 }},

		{"7", outcome.Permanent, outcome.ReasonRedirect, class(3)},
		{"8", outcome.Transient, outcome.ReasonTimeout, status(http.StatusRequestTimeout, http.StatusTooEarly)},
		{"8", outcome.Transient, outcome.ReasonRateLimited, status(http.StatusTooManyRequests)},
		{"9", outcome.Transient, outcome.ReasonHTTP5xx, class(5)},
		{"12", outcome.Permanent, outcome.ReasonEgressProxy, status(http.StatusProxyAuthRequired)},

		// A JSON-RPC error says more than the 400 or 404 that it came with.
		{"16", outcome.Permanent, outcome.ReasonProtocol, rpc(codeMethodNotFound)},
		{"17", outcome.Permanent, outcome.ReasonProtocol, rpc(codeParse, codeInvalidRequest, codeInvalidParams, codeHeaderMismatch, codeMissingCapability)},
		{"17", outcome.Permanent, outcome.ReasonVersion, rpc(codeVersion)},
		{"17", outcome.Permanent, outcome.ReasonVersion, protocol(outcome.ReasonVersion)},
		{"17", outcome.Transient, outcome.ReasonUpstreamError, rpc(codeInternal)},
		{"17", outcome.Permanent, outcome.ReasonUpstreamError, func(f *findings) bool { return f.rpc != nil }},

		{"10", outcome.Permanent, outcome.ReasonNotFound, status(http.StatusNotFound)},
		{"11", outcome.Permanent, outcome.ReasonBadRequest, status(http.StatusBadRequest)},
		{"11", outcome.Permanent, outcome.ReasonWrongTransport, status(http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType)},
		{"11", outcome.Permanent, outcome.ReasonHTTP4xx, class(4)},

		{"15", outcome.Permanent, outcome.ReasonNotMCP, protocol(outcome.ReasonNotMCP)},
		{"15", outcome.Permanent, outcome.ReasonProtocol, protocol(outcome.ReasonProtocol)},
		{"18", outcome.Denied, outcome.ReasonCredentialMissing, func(f *findings) bool { return f.credential }},
		{"19", outcome.Permanent, outcome.ReasonInternal, func(f *findings) bool { return f.panicked }},
	}
}

// scopeMissing tells a 401 or 403 whose challenge asks for a wider scope.
func (f *findings) scopeMissing() bool {
	if f.code != http.StatusUnauthorized && f.code != http.StatusForbidden {
		return false
	}
	return slices.ContainsFunc(f.Exchange.Header.Values("Www-Authenticate"), func(v string) bool {
		v = strings.ToLower(strings.ReplaceAll(v, " ", ""))
		return strings.Contains(v, `error="insufficient_scope"`) || strings.Contains(v, "error=insufficient_scope")
	})
}

// authzOut tells a 401 or 403 that positively means "the authorization service
// could not be asked". Anything ambiguous is a denial.
func (f *findings) authzOut() bool {
	x := f.Exchange
	if f.code != http.StatusUnauthorized && f.code != http.StatusForbidden {
		return false
	}
	if len(x.Header.Values("Www-Authenticate")) > 0 || len(x.Header.Values("X-Envoy-Upstream-Service-Time")) > 0 || maybeRPC(x) {
		return false
	}
	return outageBody(x) || f.BehindProxy == "envoy" && envoyOutage(x.Header)
}

// maybeRPC tells a body that is a JSON-RPC message, or could be the beginning of one.
func maybeRPC(x *Exchange) bool {
	body := bytes.TrimSpace(x.Body)
	if len(body) == 0 || body[0] != '{' && body[0] != '[' {
		return false
	}
	var m struct {
		JSONRPC json.RawMessage `json:"jsonrpc"`
	}
	return body[0] == '[' || !x.Complete || json.Unmarshal(body, &m) != nil || m.JSONRPC != nil
}

// outageBody tells the four bodies with which authorization proxies report that they
// could not ask. The whole body counts, never a part of it.
func outageBody(x *Exchange) bool {
	media, _, _ := mime.ParseMediaType(x.Header.Get("Content-Type"))
	if !x.Complete || len(x.Body) > 1<<10 || strings.HasSuffix(media, "json") || strings.HasSuffix(media, "html") {
		return false
	}
	switch string(bytes.TrimSpace(x.Body)) {
	case "Authorization service unavailable", "upstream call timeout", "upstream request timeout", "request timeout":
		return true
	}
	return false
}

// envoyOutage tells Envoy's own report that a service did not answer.
func envoyOutage(h http.Header) bool {
	flags := envoyFlags(h)
	return h.Get("X-Envoy-Response-Code-Details") == "ext_authz_error" || slices.ContainsFunc(flags, func(flag string) bool {
		return slices.Contains([]string{"UT", "UF", "UH", "UO", "URX"}, flag)
	})
}

// envoyFlags returns Envoy's short codes for what went wrong.
func envoyFlags(h http.Header) []string {
	all := strings.Join(h.Values("X-Envoy-Response-Flags"), ",")
	return strings.FieldsFunc(all, func(r rune) bool { return r == ',' || r == ' ' })
}

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads Retry-After, in seconds or as a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	var d time.Duration
	if seconds, ok := digits(v); ok {
		d = time.Duration(min(seconds, int64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(v); err == nil {
		d = at.Sub(now)
	}
	return max(0, min(d, maxRetryAfter))
}

// digits reads a number of seconds; one too long to fit is as long as can be.
func digits(s string) (int64, bool) {
	var n int64
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n < 1<<40 {
			n = n*10 + int64(c-'0')
		}
	}
	return n, true
}
