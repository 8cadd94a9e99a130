package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/internal/cli/tokenfile"
	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/relay"
)

// The times without a new sign-in after an attempt, so that an agent that repeats its call does not
// open one browser window after another.
const (
	afterPerson  = time.Minute      // a person got an address
	afterFailure = 5 * time.Second  // nobody got an address
	afterScopes  = 10 * time.Minute // a sign-in with the same scopes
)

// A gatewaySignIn signs a person in at the issuer of one gateway, and supplies the tokens. The
// gateway is the resource that a token is for: a token is stored under the gateway's URL, and is
// sent only there.
type gatewaySignIn struct {
	ctx        context.Context // of all attempts
	env        *environment
	log        *slog.Logger
	noBrowser  bool
	isTerminal bool // the command only signs in, for a person at a terminal
	paste      bool // this person pastes the address of the callback into standard input
	now        func() time.Time
	patience   time.Duration // for the person at the issuer

	dir     string
	server  oauth.Server // the gateway
	http    oauth.Doer
	docs    *tokenfile.Store
	keys    *connection.LocalKey
	service *connection.Service
	changed chan struct{}

	running sync.WaitGroup // attempts
	mu      sync.Mutex
	last    *attempt // nil: none
}

var _ relay.SignIn = (*gatewaySignIn)(nil)

// newGatewaySignIn returns the sign-in at the gateway at address. It reads and writes nothing.
func newGatewaySignIn(
	ctx context.Context, env *environment, flags stdioCmd, address string, log *slog.Logger,
) (*gatewaySignIn, error) {
	where, err := stateFolder(env.getenv)
	if err != nil {
		return nil, err
	}
	s := &gatewaySignIn{
		ctx: ctx, env: env, log: log, now: time.Now, patience: loginTime,
		noBrowser: flags.NoBrowser || env.browse == nil, changed: make(chan struct{}, 1),
		dir: where, keys: folder.VaultKey(where),
		http: issuerClient{isLocal: client.ToLoopback(address)},
		server: oauth.Server{
			Name: address, URL: address, Settings: oauth.Settings{ClientID: flags.ClientID},
		},
	}
	s.docs = &tokenfile.Store{Objects: dir.New(where), Now: time.Now, Log: log}
	s.service = connection.New(connection.Options{
		Docs: s.docs, Keys: s.keys, HTTP: s.http, Table: tokenfile.Name, Agent: userAgent(),
		Log: log,
	})
	return s, nil
}

// stateFolder returns the folder in which programs of this user keep what is neither config nor
// cache.
func stateFolder(getenv func(string) string) (string, error) {
	base := getenv("XDG_STATE_HOME")
	var err error
	switch {
	case filepath.IsAbs(base): // the specification ignores other values
	case runtime.GOOS == "windows":
		base, err = os.UserCacheDir() // %LocalAppData%
	case runtime.GOOS == "darwin":
		base, err = os.UserConfigDir() // ~/Library/Application Support
	default:
		base, err = os.UserHomeDir()
		base = filepath.Join(base, ".local", "state")
	}
	if err != nil {
		return "", fmt.Errorf("no folder for sign-ins: %w; set XDG_STATE_HOME", err)
	}
	return filepath.Join(base, "portcullis"), nil
}

// An issuerClient sends the requests of a sign-in. It follows no redirect. If the gateway is not on
// this machine, it sends nothing to this machine: a hostile gateway could otherwise name a local
// service as its issuer.
type issuerClient struct{ isLocal bool }

// Do implements [oauth.Doer].
func (c issuerClient) Do(req *http.Request) (*http.Response, error) {
	if !c.mayReach(req.URL) {
		return nil, errors.New(
			"a gateway that is not on this machine names an address on this machine",
		)
	}
	plain := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return plain.Do(req)
}

func (c issuerClient) mayReach(u *url.URL) bool {
	return c.isLocal || !hostname.IsLoopback(u.Hostname())
}

// Changed implements [relay.SignIn].
func (s *gatewaySignIn) Changed() <-chan struct{} { return s.changed }

// Token implements [relay.SignIn].
func (s *gatewaySignIn) Token(ctx context.Context) (secret.Text, error) {
	t, err := s.service.Token(ctx, s.server)
	return s.usable(t, err)
}

// usable returns a token or the error for the relay. An ended sign-in is no error: the gateway's
// next refusal begins another one.
func (s *gatewaySignIn) usable(t secret.Text, err error) (secret.Text, error) {
	if _, ended := errors.AsType[*oauth.EndedError](err); ended {
		return secret.Text{}, nil
	}
	if err != nil {
		return secret.Text{}, s.refusal(err, callAgain)
	}
	return t, nil
}

// Refused implements [relay.SignIn].
func (s *gatewaySignIn) Refused(
	ctx context.Context, rejected secret.Text, status int, header http.Header,
) (secret.Text, error) {
	ch := oauth.Challenge{
		Metadata: oauth.ChallengeParam(header, "resource_metadata"),
		Scopes:   oauth.ValidScopes(strings.Fields(oauth.ChallengeParam(header, "scope"))),
	}
	isScope := oauth.ChallengeParam(header, "error") == "insufficient_scope"
	if ch.Metadata == "" || status == http.StatusForbidden && !isScope {
		return secret.Text{}, nil // the gateway names no issuer, or refuses for another reason
	}
	// a person may have signed in during the request, also in another process
	t, err := s.service.Token(ctx, s.server)
	isSame := err == nil && t.Equal(rejected) && t.Reveal() != ""
	switch {
	case isSame && isScope && s.helps(ctx, ch.Scopes):
		return secret.Text{}, s.begin(rejected, ch, true)
	case isSame && isScope:
		return secret.Text{}, nil
	case isSame:
		t, err = s.service.Renew(ctx, s.server, rejected)
	}
	if t, err = s.usable(t, err); err != nil || t.Reveal() != "" {
		return t, err
	}
	return secret.Text{}, s.begin(rejected, ch, false)
}

// helps reports whether a sign-in that requests scopes can change the gateway's answer.
func (s *gatewaySignIn) helps(ctx context.Context, scopes []string) bool {
	st, ok, err := s.service.State(ctx, s.server)
	if err != nil || !ok || containsAll(st.Scopes, scopes) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.last
	return a == nil || !a.isDone() || a.err != nil || !containsAll(a.challenge.Scopes, scopes) ||
		s.now().Sub(a.ended) > afterScopes
}

func containsAll(list, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(w string) bool { return !slices.Contains(list, w) })
}

// begin begins a sign-in, unless one is open or has ended a moment ago, and returns the error for
// the relay. more says that the sign-in requests further scopes, also right after another sign-in.
func (s *gatewaySignIn) begin(rejected secret.Text, ch oauth.Challenge, more bool) error {
	if strings.HasPrefix(s.server.URL, "http://") && !client.ToLoopback(s.server.URL) {
		return s.refusal(errInClear, "Your user starts the command with an https URL.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.last; a != nil && a.isDone() {
		pause := afterFailure
		if a.address != "" {
			pause = afterPerson
		}
		switch {
		case s.now().Sub(a.ended) >= pause, a.err == nil && more:
			s.last = nil
		case a.err == nil:
			return s.refusal(errRefusesIssuer, callAgain)
		default:
			return s.refusal(a.err, callAgain)
		}
	}
	if s.last == nil {
		s.last = newAttempt(rejected, ch)
		a := s.last
		s.running.Go(func() { s.run(a) })
	}
	a := s.last
	return &relay.SignInError{Text: func(ctx context.Context) string { return s.textOf(ctx, a) }}
}

// Endings of the texts for agents.
const callAgain = "Call again in a minute to begin another sign-in."

// The faults of a sign-in that no other package has.
var (
	errInClear = &oauth.Fault{
		Code: "in_clear", Text: "the URL begins with http://, and a token would go over the " +
			"network in clear",
	}
	errRefusesIssuer = &oauth.Fault{
		Code: "token_refused", Text: "the gateway refuses the token that its own issuer gave; " +
			"the gateway's operator must compare its issuer and its audience with the token",
	}
	errElsewhere = &oauth.Fault{
		Code: "not_finished", Text: "the sign-in that another program of this computer began " +
			"was not finished",
	}
)

// refusal returns the error for a request that fails because of err. next is what an agent can do.
func (s *gatewaySignIn) refusal(err error, next string) error {
	text := fmt.Sprintf("The sign-in at gateway %s failed: %s. The request was not carried out. %s",
		oauth.Host(s.server.URL), s.reason(err), next)
	return &relay.SignInError{Text: func(context.Context) string { return text }, Err: err}
}

// reason returns why a sign-in failed, in words for agents and people.
func (s *gatewaySignIn) reason(err error) string {
	f, ok := errors.AsType[*oauth.Fault](err)
	if !ok {
		return "the stored sign-in cannot be used; the log of portcullis stdio has the cause"
	}
	switch f.Code {
	case oauth.NoClient:
		return f.Text + ", and start portcullis stdio with its --client-id"
	case oauth.NotRegistered:
		return f.Text + ": register Portcullis there by hand, and start portcullis stdio with " +
			"its --client-id"
	case oauth.IssuerChanged:
		return f.Text + ": if the gateway's operator announced this, your user runs portcullis " +
			"stdio --url " +
			s.server.URL + " --sign-out, and then signs in again"
	}
	return f.Text
}

// textOf returns the text for an agent whose request waits for an attempt.
func (s *gatewaySignIn) textOf(ctx context.Context, a *attempt) string {
	select {
	case <-a.began:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	host := oauth.Host(s.server.URL)
	switch {
	case a.isDone() && a.err != nil:
		e, _ := errors.AsType[*relay.SignInError](s.refusal(a.err, callAgain))
		return e.Text(ctx)
	case a.isDone():
		return "The user has signed in at gateway " + host + ". The request was not carried " +
			"out. Call again."
	}
	need := ""
	if a.rejected.Reveal() != "" && len(a.challenge.Scopes) > 0 {
		need = ", for " + strings.Join(a.challenge.Scopes, " ")
	}
	return fmt.Sprintf(
		"Gateway %s requires a sign-in at %s%s. The request was not carried out. Ask your "+
			"user to sign in with a browser on this computer, and then call again. The address: %s",
		host,
		a.issuer,
		need,
		a.address,
	)
}

// document returns the address of the gateway's client ID metadata document, or "" if it publishes
// none. The document also permits callbacks on loopback addresses.
func (s *gatewaySignIn) document(ctx context.Context) string {
	u, err := url.Parse(s.server.URL)
	if err != nil || s.server.Settings.ClientID != "" {
		return ""
	}
	id := connection.ClientID(u.Scheme + "://" + u.Host)
	if id == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return ""
	}
	req.Header.Set("User-Agent", userAgent())
	res, err := s.http.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = res.Body.Close() }()
	var doc struct {
		ID string `json:"client_id"`
	}
	err = json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&doc)
	if err != nil || res.StatusCode != http.StatusOK || doc.ID != id {
		return ""
	}
	return id
}
