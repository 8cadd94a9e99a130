package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
)

// An attempt is one sign-in at a gateway, from the gateway's refusal to the end. The lock of its
// gatewaySignIn guards the fields below done.
type attempt struct {
	rejected  secret.Text // the token that the gateway refused; "": none
	challenge oauth.Challenge
	began     chan struct{} // closed when address or err is set
	done      chan struct{} // closed at the end

	show            sync.Once
	address, issuer string // for the person
	err             error
	ended           time.Time
}

func newAttempt(rejected secret.Text, ch oauth.Challenge) *attempt {
	return &attempt{
		rejected: rejected, challenge: ch, began: make(chan struct{}), done: make(chan struct{}),
	}
}

func (a *attempt) isDone() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// run signs in and records the result.
func (s *gatewaySignIn) run(a *attempt) {
	err := s.signInOnce(a)
	s.mu.Lock()
	a.err, a.ended = err, s.now()
	close(a.done)
	s.mu.Unlock()
	s.setAddress(a, "", "")
	host := slog.String("gateway", oauth.Host(s.server.URL))
	if err != nil {
		s.log.LogAttrs(
			s.ctx,
			slog.LevelWarn,
			"sign-in failed",
			host,
			slog.String("error", err.Error()),
		)
		return
	}
	s.log.LogAttrs(s.ctx, slog.LevelInfo, "signed in", host)
	select {
	case s.changed <- struct{}{}:
	default: // the relay has not read the last change yet
	}
}

// setAddress shows the address at the issuer to the requests that wait for it. Only the first call
// takes effect.
func (s *gatewaySignIn) setAddress(a *attempt, address, issuer string) {
	a.show.Do(func() {
		s.mu.Lock()
		a.address, a.issuer = address, issuer
		s.mu.Unlock()
		close(a.began)
	})
}

// signInOnce signs in, or waits for the sign-in of another process.
func (s *gatewaySignIn) signInOnce(a *attempt) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return s.noFolder(err)
	}
	lock := flock.New(filepath.Join(s.dir, "sign-in-"+s.pendingKey().ID+".lock"))
	defer func() { _ = lock.Close() }()
	hasWaited, err := s.takeTurn(a, lock)
	if err != nil {
		return err
	}
	switch {
	case s.hasToken(a):
		return nil // another process has signed in
	case hasWaited:
		return errElsewhere
	}
	return s.signIn(a)
}

// hasToken reports whether somebody has signed in since the gateway refused the attempt's token.
func (s *gatewaySignIn) hasToken(a *attempt) bool {
	t, err := s.service.Token(s.ctx, s.server)
	return err == nil && t.Reveal() != "" && !t.Equal(a.rejected)
}

// signIn signs in.
func (s *gatewaySignIn) signIn(a *attempt) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return s.noFolder(err)
	}
	// after a lost key, the stored sign-ins are worth nothing, and all gateways need a new one
	if err := s.keys.Make(); err != nil {
		return s.noFolder(err)
	}
	var l net.Listener // nil: the person pastes the address
	back := addressNear(s.server.URL)
	if !s.paste {
		var err error
		if l, err = listenNear(s.ctx, s.server.URL); err != nil {
			return &oauth.Fault{
				Code: "no_port",
				Text: "no port of 127.0.0.1 can be opened for the way back",
				Err:  err,
			}
		}
		defer func() { _ = l.Close() }()
		back = l.Addr().String()
	}
	p, err := s.service.Start(s.ctx, connection.Request{
		Server: s.server, Challenge: a.challenge, Redirect: "http://" + back + "/callback",
		Document: s.document(s.ctx), By: osUser(),
	})
	if err != nil {
		return s.orNoFolder(err)
	}
	u, err := url.Parse(p.URL)
	if c, ok := s.http.(issuerClient); err != nil || ok && !c.mayReach(u) {
		return &oauth.Fault{
			Code: oauth.BadMetadata,
			Text: "the gateway's issuer has an address on this machine",
		}
	}
	return s.ask(a, l, p)
}

func (s *gatewaySignIn) noFolder(err error) error {
	return &oauth.Fault{
		Code: "no_folder", Err: err, Text: "the folder " + s.dir + " cannot be written: your " +
			"user makes it " +
			"writable, or sets XDG_STATE_HOME to another folder",
	}
}

// orNoFolder returns err, or the fault for an error of the store.
func (s *gatewaySignIn) orNoFolder(err error) error {
	if _, ok := errors.AsType[*oauth.Fault](err); err == nil || ok {
		return err
	}
	return s.noFolder(err)
}

// ask sends the person to the issuer, and finishes the sign-in.
func (s *gatewaySignIn) ask(a *attempt, l net.Listener, p connection.Pending) error {
	if !s.isTerminal {
		s.share(p)
		defer s.share(connection.Pending{})
	}
	fmt.Fprintf(s.env.stderr, "sign in at %s for gateway %s:\n\n  %s\n\n",
		inLine(p.Issuer), inLine(oauth.Host(s.server.URL)), p.URL)
	s.setAddress(a, p.URL, p.Issuer)
	ctx, cancel := context.WithTimeout(s.ctx, s.patience)
	defer cancel()
	if s.paste {
		fmt.Fprint(s.env.stderr, pastePrompt)
		query, err := pasted(s.env.stdin)
		if err != nil {
			return &oauth.Fault{Code: oauth.BadCallback, Text: err.Error()}
		}
		return s.finish(p, query)
	}
	if !s.noBrowser {
		startBrowser(ctx, s.env, p.URL)
	}
	isElsewhere := s.watch(ctx, a, cancel)
	var finished error
	err := callback(ctx, l, p.URL, p.Issuer, func(query string) string {
		if finished = s.finish(p, query); finished != nil {
			return "The sign-in failed: " + s.reason(finished) + "."
		}
		return "You are signed in at the gateway " + oauth.Host(s.server.URL) + "."
	})
	switch {
	case isElsewhere():
		return nil
	case err != nil:
		return &oauth.Fault{Code: oauth.Expired, Text: err.Error()}
	}
	return finished
}

// watch calls cancel if the person signs in at a terminal instead. The returned function ends it,
// and reports whether that has happened.
func (s *gatewaySignIn) watch(
	ctx context.Context, a *attempt, cancel func(),
) (isElsewhere func() bool) {
	found := make(chan bool, 1)
	go func() {
		for {
			select {
			case <-time.After(lookEveryTurn):
			case <-ctx.Done():
				found <- false
				return
			}
			if s.hasToken(a) {
				found <- true
				cancel()
				return
			}
		}
	}()
	return func() bool {
		cancel()
		return <-found
	}
}

// finish exchanges the code of a callback, and stores the sign-in. It goes on if the client leaves.
func (s *gatewaySignIn) finish(p connection.Pending, query string) error {
	_, err := s.service.Finish(context.WithoutCancel(s.ctx), p.Sealed, query,
		func(string) (oauth.Server, bool) { return s.server, true })
	return s.orNoFolder(err)
}

// lookEveryTurn is how often a process looks for the sign-in of another process.
const lookEveryTurn = 200 * time.Millisecond

// takeTurn waits until no other process signs in at the gateway. Until then it shows the address of
// the other process's sign-in.
func (s *gatewaySignIn) takeTurn(a *attempt, lock *flock.Flock) (hasWaited bool, err error) {
	for {
		ok, err := lock.TryLock()
		if err != nil {
			return hasWaited, s.noFolder(err)
		}
		if ok {
			return hasWaited, nil
		}
		hasWaited = true
		var p pendingSignIn
		d, err := document.Get(s.ctx, s.docs, s.pendingKey())
		if err == nil && json.Unmarshal(d.Data, &p) == nil && p.Address != "" {
			s.setAddress(a, p.Address, p.Issuer)
		}
		select {
		case <-time.After(lookEveryTurn):
		case <-s.ctx.Done():
			return hasWaited, errElsewhere
		}
	}
}

// A pendingSignIn is a sign-in that waits for its person, for the other processes. Its address has
// no secret.
type pendingSignIn struct {
	Server  string `json:"server"`
	Address string `json:"address"`
	Issuer  string `json:"issuer"`
}

func (s *gatewaySignIn) pendingKey() document.Key {
	return document.Key{Part: "CRED#pending", ID: connection.Key(s.server.Name, s.server.URL).ID}
}

// share stores the address of a sign-in for other processes, or removes it. After an error, other
// processes show no address.
func (s *gatewaySignIn) share(p connection.Pending) {
	ctx := context.WithoutCancel(s.ctx)
	d := document.Doc{Key: s.pendingKey(), Keep: s.now().Add(oauth.FlowLife)}
	if p.URL != "" {
		d.Data, _ = json.Marshal(pendingSignIn{s.server.URL, p.URL, p.Issuer}) // texts cannot fail
	}
	if err := document.Replace(ctx, s.docs, d); err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "address of the sign-in not stored",
			slog.String("error", err.Error()))
	}
}

// signInNow signs in for a person at the terminal.
func (c stdioCmd) signInNow(ctx context.Context, env *environment, s *gatewaySignIn) error {
	status, header, err := askWithoutCredential(ctx, s.server.URL)
	metadata := oauth.ChallengeParam(header, "resource_metadata")
	if err != nil || metadata == "" {
		return fmt.Errorf("stdio: %w", cmp.Or(err, fmt.Errorf("the gateway at %s names no issuer "+
			"(HTTP status %d), so nobody can sign in there; set PORTCULLIS_TOKEN "+
			"instead", s.server.URL, status)))
	}
	before, _ := s.Token(ctx) // a new sign-in replaces it
	s.isTerminal, s.paste = true, s.noBrowser
	a := newAttempt(before, oauth.Challenge{
		Metadata: metadata, Scopes: strings.Fields(oauth.ChallengeParam(header, "scope")),
	})
	// A process of a client may be waiting for a person; it notices this sign-in.
	if err := s.signIn(a); err != nil {
		return fmt.Errorf("stdio: %s; nobody was signed in", s.reason(err))
	}
	_, err = fmt.Fprintf(env.stdout, "signed in at gateway %s\n", inLine(oauth.Host(s.server.URL)))
	return err
}

// signOutNow ends the sign-in.
func (c stdioCmd) signOutNow(ctx context.Context, env *environment, s *gatewaySignIn) error {
	was, revoke, err := s.service.SignOut(ctx, s.server, osUser())
	if err != nil {
		return fmt.Errorf("stdio: %w; the sign-in was not ended", err)
	}
	out := decide.SignedOut{Was: was, Revoked: revoke == nil}
	if revoke != nil {
		out.Problem = s.reason(revoke)
	}
	return printWhole(env.stdout, func(w io.Writer) {
		showSignedOut(w, out, "nobody was signed in at ", "gateway "+oauth.Host(s.server.URL))
	})
}
