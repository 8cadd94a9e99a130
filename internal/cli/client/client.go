// Package client is a client of the admin API: a table of the operations that the commands use. A
// Client calls a gateway over the network, or one in its own process.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

const (
	// TokenVariable names the variable with the credential for a gateway. A flag would show the
	// credential to every process on the machine.
	TokenVariable = "PORTCULLIS_TOKEN"

	// MaxDetail is the maximum number of printed characters of a gateway's text.
	MaxDetail = 2000

	maxAnswer = 32 << 20 // maximum size of an answer that the client reads whole, in bytes

	// A working gateway answers within this time. Only a sync, a restart, which ends in a sync, and
	// the call of a tool take longer, because they ask servers.
	usualPatience = 30 * time.Second
	syncPatience  = 10 * time.Minute
)

// A Client calls the admin API of one gateway.
type Client struct {
	Command string // the calling command, which begins the errors
	Base    string // URL of the gateway, which may end in /mcp or /admin
	// nil: the gateway runs in this process, and needs no credential
	Credential func() (secret.Text, error)
	Transport  http.RoundTripper // nil: the network
}

// IsEmbedded reports whether the gateway runs in this process. Such a gateway ends with the
// command.
func (c *Client) IsEmbedded() bool { return c.Credential == nil }

// An Answer is an answer of the API: its value, and its original text, which is the JSON output.
type Answer[T any] struct {
	Value T
	Raw   json.RawMessage
}

// UnmarshalJSON implements [json.Unmarshaler].
func (a *Answer[T]) UnmarshalJSON(data []byte) error {
	a.Raw = bytes.Clone(data)
	return json.Unmarshal(data, &a.Value)
}

// MarshalJSON implements [json.Marshaler].
func (a Answer[T]) MarshalJSON() ([]byte, error) { return a.Raw, nil }

// IsZero reports whether there is no answer.
func (a Answer[T]) IsZero() bool { return a.Raw == nil }

// network sends requests to gateways in other processes.
var network http.RoundTripper = &http.Transport{
	Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: usualPatience,
}

// A Refusal is the answer of a gateway that refused a request.
type Refusal struct {
	Status int
	Code   string
	Detail string
	Errors []struct{ Location, Message string }
}

func (r *Refusal) Error() string {
	var s strings.Builder
	s.WriteString(cmp.Or(text.Clip(text.Line(r.Detail), MaxDetail), http.StatusText(r.Status)))
	for _, e := range r.Errors {
		where := text.Line(strings.TrimSpace(e.Location + " " + e.Message))
		fmt.Fprintf(&s, "; %s", text.Clip(where, MaxDetail))
	}
	return s.String()
}

// IsNotFound reports whether a gateway lacks the requested item.
func IsNotFound(err error) bool {
	r, ok := errors.AsType[*Refusal](err)
	return ok && r.Status == http.StatusNotFound
}

// read requests the path and decodes the answer into out. A nil body means GET; another body is
// sent as JSON.
func (c *Client) read(ctx context.Context, path string, query url.Values, body, out any) error {
	res, err := c.send(ctx, path, query, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
		const look = "look before you repeat it"
		switch changing := body != nil; {
		case ctx.Err() != nil && changing:
			err = errors.New("interrupted while the answer came: the request may have been carried out; " + look)
		case ctx.Err() != nil:
			err = errors.New("interrupted while the answer came")
		case changing:
			err = fmt.Errorf("the gateway may have carried out the request, and its answer cannot be read: %w; "+look, err)
		default:
			err = fmt.Errorf("the gateway's answer cannot be read: %w", err)
		}
		return fmt.Errorf("%s: %w", c.Command, err)
	}
	return nil
}

// send returns the answer to a request. An answer that is not 2xx is an error. If it has a reason,
// the error is a *Refusal. The caller closes the body.
func (c *Client) send(ctx context.Context, path string, query url.Values, body any) (*http.Response, error) {
	res, err := c.exchange(ctx, path, query, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Command, err)
	}
	return res, nil
}

func (c *Client) exchange(ctx context.Context, path string, query url.Values, body any) (*http.Response, error) {
	address, err := Address(c.Base, path)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := newRequest(ctx, address, body)
	if err != nil {
		return nil, err
	}
	if !c.IsEmbedded() {
		key, err := c.Credential()
		if err != nil {
			return nil, err
		}
		if key.Reveal() != "" {
			req.Header.Set("Authorization", "Bearer "+key.Reveal())
		}
	}
	patience := usualPatience
	if path == syncPath || path == callPath || strings.HasSuffix(path, "/restart") {
		patience = syncPatience
	}
	res, err := within(patience, cmp.Or(c.Transport, network), req)
	if err != nil {
		return nil, unreached(ctx, c.Base, err, body != nil)
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close()
	return nil, c.refused(res)
}

// newRequest returns a request with body as JSON, or a GET if body is nil.
func newRequest(ctx context.Context, address string, body any) (*http.Request, error) {
	if body == nil {
		return http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	}
	sent, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(sent))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// refused returns the error of an answer.
func (c *Client) refused(res *http.Response) error {
	r := &Refusal{Status: res.StatusCode}
	data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<16)) // a partial text is enough
	if json.Unmarshal(data, r) != nil || r.Detail == "" {
		at, _ := Address(c.Base, "")
		return fmt.Errorf("%s answers %d %s, which no Portcullis gateway does: check --url",
			at, res.StatusCode, http.StatusText(res.StatusCode))
	}
	if res.StatusCode == http.StatusUnauthorized && !c.IsEmbedded() {
		return fmt.Errorf("the gateway does not accept the credential (%w); set %s to one that "+
			"it accepts", r, TokenVariable)
	}
	return r
}

// Send sends a request over the network. The answer must begin within patience.
func Send(patience time.Duration, req *http.Request) (*http.Response, error) {
	return within(patience, network, req)
}

var errNoAnswer = errors.New("it gave no answer")

// within sends a request whose answer must begin within patience. The body may take longer.
func within(patience time.Duration, send http.RoundTripper, req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(patience, func() { cancel(fmt.Errorf("%w within %v", errNoAnswer, patience)) })
	res, err := send.RoundTrip(req.WithContext(ctx))
	if !timer.Stop() || err != nil {
		defer cancel(nil)
		if cause := context.Cause(ctx); errors.Is(cause, errNoAnswer) {
			err = cause
			if res != nil {
				_ = res.Body.Close() // the answer came too late
			}
		}
		return nil, err
	}
	return res, nil // the context ends with the request's context, and the body may still be read
}

// Reach returns an error unless something answers a GET of the address.
func Reach(ctx context.Context, address string) error {
	req, err := newRequest(ctx, address, nil)
	if err != nil {
		return err
	}
	res, err := Send(10*time.Second, req)
	if err != nil {
		return unreached(ctx, address, err, false)
	}
	return res.Body.Close()
}

// unreached returns the error of a request without an answer. changing means that the request may
// have taken effect.
func unreached(ctx context.Context, base string, err error, changing bool) error {
	at, _ := Address(base, "") // the request used the same address, so it is valid
	switch {
	case ctx.Err() != nil && changing:
		return errors.New("interrupted: it is not known whether the request was carried out; look before you repeat it")
	case ctx.Err() != nil:
		return errors.New("interrupted; nothing was changed")
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no gateway answers at %s: nothing listens there; "+
			"start it with portcullis serve, or name another with --url", at)
	case changing && !BeforeSending(err):
		return fmt.Errorf("the gateway at %s does not answer, and may have carried out the request: %w; "+
			"look before you repeat it", at, err)
	}
	return fmt.Errorf("the gateway at %s does not answer: %w", at, err)
}

// BeforeSending reports whether a request failed before any part of it was sent.
func BeforeSending(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	_, lookup := errors.AsType[*net.DNSError](err)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	return lookup || certificate
}

// Endpoint returns the URL of MCP at a gateway. The path in gateway is optional.
func Endpoint(gateway string) (string, error) {
	u, err := url.Parse(gateway)
	switch {
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http":
		// no input here: it may contain a credential
		return "", errors.New("want a URL such as https://gateway.example.com")
	case u.User != nil:
		return "", errors.New("holds a user or password; a credential is read from " + TokenVariable)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/mcp"
	}
	u.Fragment = ""
	return u.String(), nil
}

// Address returns the URL of a path at a gateway, whose own URL may end in /mcp or /admin.
func Address(gateway, path string) (string, error) {
	at, err := Endpoint(gateway)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(at)
	if err != nil {
		return "", err
	}
	below := strings.TrimRight(u.Path, "/")
	for _, end := range []string{"/mcp", "/admin"} {
		below = strings.TrimSuffix(below, end)
	}
	return u.Scheme + "://" + u.Host + below + path, nil
}

// ToLoopback reports whether a URL leads to this machine.
func ToLoopback(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	return hostname.IsLoopback(u.Host)
}
