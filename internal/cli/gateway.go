package cli

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
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

const (
	maxAnswer = 32 << 20 // of an answer that is read whole
	maxDetail = 2000     // of what a gateway says of a refusal

	// A gateway that has taken a request answers within this time; a sync asks every server.
	usualPatience = 30 * time.Second
	syncPatience  = 10 * time.Minute
)

// placeFlags are which gateway a command is about.
type placeFlags struct {
	Dir string `placeholder:"DIR" help:"Folder of the gateway; without it, and without --url, the one that you are in. If a gateway runs on it that one is asked, else its files are opened."`
	URL string `placeholder:"URL" help:"Gateway that runs, such as https://gate.example.com. The credential is PORTCULLIS_TOKEN or, with --dir, that folder's admin key."`
}

// gatewayFlags are placeFlags of a command that may decide something.
type gatewayFlags struct {
	placeFlags
	Actor string `default:"${user}" placeholder:"NAME" help:"Whom the audit names, where the folder itself is opened."`
}

// Validate implements kong's check of flags.
func (f gatewayFlags) Validate() error {
	if f.Actor == "" {
		return errNobody
	}
	return nil
}

var errNobody = errors.New("--actor is empty: the audit must name somebody")

// folder returns the folder that is meant if --url is not given.
func (f placeFlags) folder() string { return cmp.Or(f.Dir, ".") }

// again returns the flags that name the same gateway in another command.
func (f placeFlags) again() (flags string) {
	if f.Dir != "" {
		flags = " --dir " + connect.Shell(f.Dir)
	}
	if f.URL != "" {
		flags += " --url " + connect.Shell(f.URL)
	}
	return flags
}

// A gateway is one whose API a command asks: one that runs, or one of this process over the files of a folder.
type gateway struct {
	command string // for errors
	base    string // URL
	bearer  func() (secret.Text, error)
	send    http.RoundTripper
	close   func()    // ends what was opened
	local   *embedded // nil: it runs elsewhere
}

// open returns the gateway that the flags name. The caller closes it.
func (f gatewayFlags) open(ctx context.Context, env *environment, command string) (*gateway, error) {
	return f.openTo(ctx, env, command, embedOptions{})
}

// view is open for a command that only reads: it writes nothing into the folder.
func (f gatewayFlags) view(ctx context.Context, env *environment, command string) (*gateway, error) {
	return f.openTo(ctx, env, command, embedOptions{readOnly: true})
}

// openTo is open for a command that opens the folder so, if it is this process that does.
func (f gatewayFlags) openTo(ctx context.Context, env *environment, command string, how embedOptions) (*gateway, error) {
	g := &gateway{command: command, base: f.URL, send: overNetwork, close: func() {}}
	if f.URL != "" {
		g.bearer = func() (secret.Text, error) { return credential(env, f.Dir) }
		if strings.HasPrefix(f.URL, "http://") && !toLoopback(f.URL) {
			fmt.Fprintf(env.stderr, "warning: --url begins with http://: the credential goes over the network in clear\n")
		}
		return g, nil
	}
	folder := f.folder()
	if !hasGateway(folder) {
		return nil, fmt.Errorf("%s: %w, or a gateway that runs with --url", command, noGateway(folder))
	}
	s, here, err := openEmbedded(ctx, folder, f.Actor, how, env)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", command, err)
	case here == nil: // a gateway runs
		key := ""
		if s.Key {
			key = folder
		}
		g.base, g.bearer = s.Address, func() (secret.Text, error) { return credential(env, key) }
		if f.Actor != osUser() {
			fmt.Fprintln(env.stderr, "warning: a gateway runs on the folder, and its audit names whoever its credential says, not --actor")
		}
		return g, nil
	}
	g.base, g.bearer, g.send, g.local = s.Address, func() (secret.Text, error) { return secret.Text{}, nil }, here, here
	g.close = func() { here.end(context.WithoutCancel(ctx)) }
	return g, nil
}

// credential returns that of a folder, or of the environment.
func credential(env *environment, folder string) (secret.Text, error) {
	if folder == "" {
		return secret.New(env.getenv(tokenVariable)), nil
	}
	data, err := os.ReadFile(filepath.Join(folder, keyFile))
	if err != nil {
		return secret.Text{}, fmt.Errorf("the admin key: %w; only a gateway on one machine without authentication has one: elsewhere leave --dir out, and set %s", err, tokenVariable)
	}
	key, ok := token.ReadAdmin(strings.TrimSpace(string(data)))
	if !ok {
		return secret.Text{}, fmt.Errorf("%s in %q holds no admin key", keyFile, folder)
	}
	return key, nil
}

// overNetwork sends requests to gateways that run elsewhere.
var overNetwork http.RoundTripper = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: usualPatience}

// A refusal is an answer of a gateway that did not do what it was asked for.
type refusal struct {
	Status int
	Detail string
	Errors []struct{ Location, Message string }
}

func (r *refusal) Error() string {
	var s strings.Builder
	s.WriteString(cmp.Or(text.Clip(text.Line(r.Detail), maxDetail), http.StatusText(r.Status)))
	for _, e := range r.Errors {
		fmt.Fprintf(&s, "; %s", text.Clip(text.Line(strings.TrimSpace(e.Location+" "+e.Message)), maxDetail))
	}
	return s.String()
}

// ask sends a request, with body as JSON; nil: it is a GET. An answer that is not 2xx is an error, a
// *refusal if the gateway said why. The caller closes the body.
func (g *gateway) ask(ctx context.Context, path string, query url.Values, body any) (*http.Response, error) {
	res, err := g.exchange(ctx, path, query, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.command, err)
	}
	return res, nil
}

func (g *gateway) exchange(ctx context.Context, path string, query url.Values, body any) (*http.Response, error) {
	address, err := g.address(path, query)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	req, err := newRequest(ctx, address, body)
	if err != nil {
		return nil, err
	}
	key, err := g.bearer()
	if err != nil {
		return nil, err
	}
	if key.Reveal() != "" {
		req.Header.Set("Authorization", "Bearer "+key.Reveal())
	}
	patience := usualPatience
	if path == "/admin/sync" {
		patience = syncPatience
	}
	res, err := within(patience, g.send, req)
	if err != nil {
		return nil, g.unreached(ctx, err, body != nil)
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close()
	return nil, g.refused(res)
}

// newRequest returns a request with body as JSON; nil: it is a GET.
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

var errNoAnswer = errors.New("it gave no answer")

// within sends a request whose answer has to begin within the time; its body may take longer.
func within(patience time.Duration, send http.RoundTripper, req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(patience, func() { cancel(fmt.Errorf("%w within %v", errNoAnswer, patience)) })
	res, err := send.RoundTrip(req.WithContext(ctx))
	if !timer.Stop() || err != nil {
		defer cancel(nil)
		if cause := context.Cause(ctx); errors.Is(cause, errNoAnswer) {
			err = cause
			if res != nil {
				_ = res.Body.Close() // it was cut off
			}
		}
		return nil, err
	}
	return res, nil // the context ends with that of the request, and its body goes on
}

// unreached says that a request got no answer. changing: it may have been carried out.
func (g *gateway) unreached(ctx context.Context, err error, changing bool) error {
	at, _ := g.address("", nil) // which was good enough to be asked
	switch {
	case ctx.Err() != nil && changing:
		return errors.New("interrupted: whether it was carried out is not known; look before you repeat it")
	case ctx.Err() != nil:
		return errors.New("interrupted; nothing was changed")
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no gateway answers at %s: nothing listens there; start it with portcullis serve, or name another with --url", at)
	case changing && !beforeSending(err):
		return fmt.Errorf("the gateway at %s does not answer, and may have carried it out: %w; look before you repeat it", at, err)
	}
	return fmt.Errorf("the gateway at %s does not answer: %w", at, err)
}

// beforeSending reports whether a request failed before any of it was sent.
func beforeSending(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	_, lookup := errors.AsType[*net.DNSError](err)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	return lookup || certificate
}

// refused returns what is wrong with an answer.
func (g *gateway) refused(res *http.Response) error {
	r := &refusal{Status: res.StatusCode}
	data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<16)) // what came of it is enough
	if json.Unmarshal(data, r) != nil || r.Detail == "" {
		at, _ := g.address("", nil)
		return fmt.Errorf("%s answers %d %s, as no gateway of this kind does: does --url name a Portcullis gateway?", at, res.StatusCode, http.StatusText(res.StatusCode))
	}
	if res.StatusCode == http.StatusUnauthorized && g.local == nil {
		return fmt.Errorf("the gateway does not take the credential (%w); set %s to one that it takes", r, tokenVariable)
	}
	return r
}

// read is ask with the answer read into out.
func (g *gateway) read(ctx context.Context, path string, query url.Values, body, out any) error {
	res, err := g.ask(ctx, path, query, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
		switch changing := body != nil; {
		case ctx.Err() != nil && changing:
			return fmt.Errorf("%s: interrupted while the answer came: it may have been carried out; look before you repeat it", g.command)
		case ctx.Err() != nil:
			return fmt.Errorf("%s: interrupted while the answer came", g.command)
		case changing:
			return fmt.Errorf("%s: the gateway may have carried it out, and its answer cannot be read: %w; look before you repeat it", g.command, err)
		}
		return fmt.Errorf("%s: the gateway's answer cannot be read: %w", g.command, err)
	}
	return nil
}

// address returns where a gateway has something.
func (g *gateway) address(path string, query url.Values) (string, error) {
	if _, err := endpoint(g.base); err != nil {
		return "", err
	}
	u, err := url.Parse(g.base)
	if err != nil {
		return "", err
	}
	below := strings.TrimRight(u.Path, "/")
	for _, end := range []string{"/mcp", "/admin"} {
		below = strings.TrimSuffix(below, end)
	}
	out := u.Scheme + "://" + u.Host + below + path
	if len(query) > 0 {
		out += "?" + query.Encode()
	}
	return out, nil
}
