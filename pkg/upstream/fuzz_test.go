package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
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

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
)

// tree builds an error tree from bytes: each byte selects a leaf, and how to combine it with
// the error so far.
func tree(shape []byte) error {
	leaves := []error{
		nil, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE, syscall.ENETUNREACH, syscall.ETIMEDOUT,
		context.DeadlineExceeded, context.Canceled, emptyTimeout{}, &net.DNSError{IsTimeout: true}, &net.DNSError{}, &configError{msg: "c"},
		&credentialError{io.EOF}, &protocolError{outcome.ReasonProtocol, "p"}, &protocolError{"", ""}, &outcome.RPCError{Code: -32601}, &outcome.RPCError{Code: -32603},
		&panicError{1}, &statusError{status: 403}, &statusError{status: 500}, errStreamEnded, errors.New("timeout 403 reset"),
		new(egress.BlockedError), context.Canceled, tls.RecordHeaderError{}, os.ErrDeadlineExceeded,
	}
	var err error
	for _, b := range shape {
		leaf := leaves[int(b)%len(leaves)]
		switch b % 6 {
		case 0:
			err = errors.Join(err, leaf)
		case 1:
			err = fmt.Errorf("over: %w and %w", leaf, err)
		case 2:
			err = &url.Error{Op: "Post", URL: "https://timeout.example/403", Err: err}
		case 3:
			err = &net.OpError{Op: []string{"dial", "remote error", "read"}[int(b)%3], Err: errors.Join(leaf, err)}
		case 4:
			err = &egress.TLSError{Err: errors.Join(err, leaf)}
		default:
			err = leaf
		}
	}
	return err
}

// FuzzClassify checks that nothing panics, that each outcome has a known status and reason, and
// that a 401 or 403 without a sign of an outage counts as denied.
func FuzzClassify(f *testing.F) {
	f.Add(403, "", "", []byte("no"), []byte{1, 2, 3}, "", true, false)
	f.Add(401, "Www-Authenticate", "Bearer", []byte("request timeout"), []byte{8}, "envoy", true, true)
	f.Add(403, "X-Envoy-Response-Flags", "UT", []byte(`{"jsonrpc":"2.0"}`), []byte{29, 3}, "envoy", true, false)
	f.Add(503, "Retry-After", "17", []byte(""), []byte{13, 14, 15}, "", false, false)
	f.Add(0, "", "", []byte(nil), []byte{24, 25, 26, 27, 28}, "", false, true)
	f.Fuzz(func(t *testing.T, status int, name, value string, body, shape []byte, proxy string, complete, expired bool) {
		h := http.Header{}
		if name != "" {
			h.Add(name, value)
		}
		x := &exchange{sent: true, answered: true, garbled: status%2 == 1, status: status, header: h, body: body, complete: complete}
		e := evidence{expired: expired, err: tree(shape[:min(len(shape), 64)]), exchange: x, proxy: proxy, now: time.Unix(0, 0)}
		v := classify(e)
		if !slices.Contains([]outcome.Status{transient, permanent, denied}, v.Status) || !slices.Contains(outcome.Reasons(), v.Reason) {
			t.Fatalf("verdict %+v", v)
		}
		if v.RetryAfter < 0 || v.RetryAfter > maxRetryAfter {
			t.Errorf("RetryAfter = %v", v.RetryAfter)
		}
		if (status == 401 || status == 403) && v.Status != denied && clean403(h, body, complete, proxy) {
			t.Errorf("a clean %d is %s %s", status, v.Status, v.Reason)
		}
		if v.Status == denied && v.Reason != outcome.ReasonCredentialMissing && !slices.Contains([]int{401, 402, 403, 451}, status) {
			t.Errorf("%d is a denial: %s", status, v.Reason)
		}
		if e.aborted = true; classify(e).Status != "" {
			t.Error("an aborted attempt has a status")
		}
	})
}

// clean403 reports whether a denial shows no sign of an outage. It does not use the classifier.
func clean403(h http.Header, body []byte, complete bool, proxy string) bool {
	text := string(bytes.TrimSpace(body))
	outage := complete && len(body) <= 1024 && slices.Contains([]string{"Authorization service unavailable",
		"upstream call timeout", "upstream request timeout", "request timeout"}, text)
	flags := h.Get("X-Envoy-Response-Flags")
	envoy := proxy == "envoy" && (h.Get("X-Envoy-Response-Code-Details") == "ext_authz_error" ||
		slices.ContainsFunc([]string{"UT", "UF", "UH", "UO", "URX"}, func(f string) bool { return strings.Contains(flags, f) }))
	spoilt := len(h.Values("Www-Authenticate")) > 0 || len(h.Values("X-Envoy-Upstream-Service-Time")) > 0 ||
		strings.HasPrefix(text, "{") && strings.Contains(text, `"jsonrpc"`)
	return spoilt || !outage && !envoy
}

// FuzzListMessages checks that a notification stream with any bytes ends with an error, and that
// only a notification of a changed list counts as one.
func FuzzListMessages(f *testing.F) {
	f.Add([]byte("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n"))
	f.Add([]byte("event: x\ndata: {\"id\":1,\"method\":\"ping\"}\n\ndata: [\n\n"))
	f.Add([]byte("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		n := 0
		s, body := mcpSession{modern: true}, bytes.NewReader(stream)
		err := new(operation).readListMessages(t.Context(), s, 1, body, func() { n++ })
		if err == nil || n > len(stream)/len(mcp.NotificationToolsChanged) {
			t.Errorf("%q: %d changes, %v", stream, n, err)
		}
	})
}
