package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A signed stack has servers that require tokens of an issuer each, and is signed in to them. Both
// have the same name.
type signed struct {
	t       *testing.T
	stack   *lambdatest.Stack
	issuers map[string]*issuertest.Issuer
	ran     map[string]*atomic.Int64 // calls that a server carried out
}

func newSigned(t *testing.T, issuers map[string]*issuertest.Issuer) *signed {
	t.Helper()
	endpoint, key := emulator.Start(t), token.New()
	s := &signed{t: t, issuers: issuers, ran: map[string]*atomic.Int64{}}
	programs := lambdatest.Build(t, repo.Path("."), "mcp", "sync", "admin")
	s.stack = lambdatest.NewStack(t, endpoint, programs, map[string]string{
		"PORTCULLIS_AUTH": "none", "PORTCULLIS_BOOTSTRAP_SHA256": token.Digest(key),
	})
	s.stack.Admin = key.Reveal()
	s.stack.AllowSignIn()
	config := map[string]any{}
	for name, issuer := range issuers {
		ran := new(atomic.Int64)
		s.ran[name] = ran
		server := upstreamtest.New(t, upstreamtest.Options{
			Front: issuer.Front("read"),
			Tools: []json.RawMessage{upstreamtest.Tool(open, "Read a page.", readOn)},
			Call: func(ctx context.Context, c upstreamtest.Call) (json.RawMessage, error) {
				ran.Add(1)
				return upstreamtest.Echo(ctx, c)
			},
		})
		config[name] = map[string]string{"url": server.URL}
	}
	data, err := json.Marshal(map[string]any{"mcpServers": config})
	require.OK(t, err)
	s.stack.Configure(string(data))
	s.stack.Sync(t)
	for name := range issuers {
		s.signIn(t, name)
	}
	s.stack.Sync(t)
	return s
}

// signIn signs in to a server, as a person whose browser has a session at the issuer.
func (s *signed) signIn(t *testing.T, server string) {
	t.Helper()
	admin := s.stack.Start(t, "admin")
	defer admin.Stop()
	var begun struct{ URL, State string }
	admin.Ask(
		http.StatusOK, "/admin/servers/"+server+"/sign-in",
		`{"redirect":"http://127.0.0.1:4711/callback"}`, &begun,
	)
	var done struct{ Connection struct{ Status string } }
	query := issuertest.Query(t, begun.URL)
	admin.Ask(
		http.StatusOK, "/admin/sign-in", map[string]string{"state": begun.State, "query": query},
		&done,
	)
	if done.Connection.Status != "connected" {
		t.Fatalf("the sign-in at %s is %q", server, done.Connection.Status)
	}
}

// call calls the tool of a server.
func (s *signed) call(f *lambdatest.Function, server string) agenttest.Result {
	return f.Call("call_tool_read", fmt.Sprintf(`{"name":%q,"args":{}}`, server+":"+open))
}

// The size of [TestExpiry], by lane.
var expiries = map[string]struct{ processes, rounds int }{"small": {2, 2}, "full": {8, 100}}

const (
	expiring  = "expiring" // the server
	tokenLife = 3 * time.Second
	parallel  = 64 // calls

	// How long the issuer takes to issue a token: meanwhile other processes get calls.
	issuerTakes = 300 * time.Millisecond
)

// Many calls reach several processes when the token is due, or has expired. One process renews it,
// no call fails, and no refresh token is used twice.
func TestExpiry(t *testing.T) {
	size := expiries[os.Getenv("PORTCULLIS_LANES")]
	if size.rounds == 0 {
		t.Skip("make lanes runs it")
	}
	began := time.Now()
	var issued atomic.Int64 // when the issuer issued the newest token
	issuer := issuertest.New(t, issuertest.Habits{
		Life: tokenLife,
		Now:  func() time.Time { return began }, // the server accepts expired tokens of slow calls
		Lose: func() bool {
			time.Sleep(issuerTakes)
			issued.Store(time.Now().UnixNano())
			return false
		},
	})
	s := newSigned(t, map[string]*issuertest.Issuer{expiring: issuer})
	var processes []*lambdatest.Function
	for range size.processes {
		processes = append(processes, s.stack.Start(t, "mcp"))
	}
	before := issuer.Count(&issuer.Refreshed)
	for round := range size.rounds {
		due := tokenLife * time.Duration(84+16*(round%2)) / 100 // at 80 % and up to 2 % later, or expired
		local.Until(t, "the token is due", func() bool {
			return time.Since(time.Unix(0, issued.Load())) > due
		})
		took := s.callAll(processes)
		after := issuer.Count(&issuer.Refreshed)
		most := 1 + int(took/(tokenLife*8/10)) // after 80 % of its life, the new token is due
		if n := after - before; n < 1 || n > most {
			t.Errorf("round %d: %d refreshes in %v, want 1 to %d", round, n, took, most)
		}
		before = after
	}
	t.Logf("%d processes, %d rounds: %d refreshes", size.processes, size.rounds, before)
	if n := issuer.Count(&issuer.Reused); n != 0 || len(issuer.Grants) != before+1 {
		t.Errorf("%d refresh tokens were used twice; the issuer was asked %d times", n, len(issuer.Grants))
	}
}

// callAll makes 64 calls at the same time, and returns how long they took.
func (s *signed) callAll(processes []*lambdatest.Function) time.Duration {
	began := time.Now()
	var calls sync.WaitGroup
	for n := range parallel {
		calls.Go(func() {
			if r := s.call(processes[n%len(processes)], expiring); r.IsError {
				s.t.Errorf("call %d answers %s", n, r.Text)
			}
		})
	}
	calls.Wait()
	return time.Since(began)
}

// A refreshDeath is the step of a refresh at which a process is killed, and what follows.
type refreshDeath struct {
	kill    func(v refreshVictim)
	keeps   bool // the issuer does not rotate refresh tokens
	leased  bool // the dead process has the lease
	ended   bool // the sign-in ends
	renewed int  // refreshes by the issuer, at the end
}

// A refreshVictim is a process that is about to refresh a token.
type refreshVictim struct {
	*lambdatest.Function
	proxy  *lambdatest.Proxy // in front of its stores
	issuer *issuertest.Issuer
}

// whenAsked is a death before the issuer rotates the refresh token.
func whenAsked(v refreshVictim) {
	v.issuer.Answer = func(http.ResponseWriter, *http.Request) {
		v.Stop()
		panic(http.ErrAbortHandler)
	}
}

// whenAnswered is a death before the issuer's answer, and after it has rotated the refresh token.
func whenAnswered(v refreshVictim) {
	v.issuer.Lose = func() bool { v.Stop(); return true }
}

// write returns a death at a write of the refresh: 1 is the lease, and 2 is the token.
func write(n int, kept bool) func(v refreshVictim) {
	return func(v refreshVictim) { v.proxy.KillAt(n, kept, v.Stop) }
}

var refreshDeaths = map[string]refreshDeath{
	"before_lease":         {kill: write(1, false), renewed: 1},
	"lease_stored":         {kill: write(1, true), leased: true, renewed: 1},
	"issuer_asked":         {kill: whenAsked, leased: true, renewed: 1},
	"issuer_answered":      {kill: whenAnswered, leased: true, ended: true, renewed: 1},
	"answered_no_rotation": {kill: whenAnswered, keeps: true, leased: true, renewed: 2},
	"before_token":         {kill: write(2, false), leased: true, ended: true, renewed: 1},
	"token_stored":         {kill: write(2, true), renewed: 1},
}

// A process is killed at each step of a refresh. Other processes answer what is true: the call was
// not carried out and can be repeated, or the sign-in has ended. At worst a person must sign in
// once more.
func TestKilledInRefresh(t *testing.T) {
	lane := os.Getenv("PORTCULLIS_LANES")
	if lane == "" {
		t.Skip("make lanes runs it")
	}
	issuers := map[string]*issuertest.Issuer{}
	for name, d := range refreshDeaths {
		if lane == "full" || !d.leased { // a lease lasts 20 s
			issuers[name] = issuertest.New(t, issuertest.Habits{KeepRefresh: d.keeps})
		}
	}
	s := newSigned(t, issuers)
	for name := range issuers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.killInRefresh(t, name, refreshDeaths[name])
		})
	}
}

// Parts of the answers to agents.
const (
	answersOnce = "The call was not carried out and the gateway does not repeat it: call again shortly."
	signInOver  = "has ended. Retrying will not help; the gateway's operator must sign in again. " +
		"The call was not carried out."
)

func (s *signed) killInRefresh(t *testing.T, server string, d refreshDeath) {
	issuer := s.issuers[server]
	other := s.stack.Start(t, "mcp")
	if r := s.call(other, server); r.IsError {
		t.Fatalf("a call before the death answers %s", r.Text)
	}
	issuer.EndAccess()
	s.die(t, server, d)
	r := s.call(other, server)
	if d.leased && (!r.IsError || !strings.HasSuffix(r.Text, answersOnce)) {
		t.Errorf("the call after the death answers %s", r.Text)
	}
	local.Until(t, "the lease has ended", func() bool {
		if strings.HasSuffix(r.Text, answersOnce) {
			r = s.call(other, server)
		}
		return !strings.HasSuffix(r.Text, answersOnce)
	})
	if r.IsError != d.ended || d.ended && !strings.HasSuffix(r.Text, signInOver) {
		t.Errorf("a call after the lease answers %s", r.Text)
	}
	if d.ended {
		s.signIn(t, server)
	}
	third := s.stack.Start(t, "mcp")
	for _, f := range []*lambdatest.Function{other, third} {
		if r := s.call(f, server); r.IsError {
			t.Errorf("a call at the end answers %s", r.Text)
		}
	}
	want := int64(4) // before the death, after the lease, and two at the end
	if d.ended {
		want--
	}
	if n := s.ran[server].Load(); n != want {
		t.Errorf("the server carried out %d calls, want %d", n, want)
	}
	reused := issuer.Count(&issuer.Reused)
	if n := issuer.Count(&issuer.Refreshed); n != d.renewed || (reused > 0) != d.ended {
		t.Errorf("%d refreshes, want %d; %d refresh tokens were used twice", n, d.renewed, reused)
	}
}

// die starts a process, which is killed while it refreshes the token for a call.
func (s *signed) die(t *testing.T, server string, d refreshDeath) {
	t.Helper()
	proxy := lambdatest.NewProxy(t, s.stack.Endpoint)
	issuer := s.issuers[server]
	v := refreshVictim{s.stack.Start(t, "mcp", "AWS_ENDPOINT_URL", proxy.URL), proxy, issuer}
	d.kill(v)
	r, err := http.NewRequestWithContext(
		t.Context(), http.MethodPost, lambdatest.BaseURL+"/mcp", strings.NewReader(fmt.Sprintf(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+
				`{"name":"call_tool_read","arguments":{"name":%q,"args":{}}}}`, server+":"+open)),
	)
	require.OK(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if answer, err := v.From("").RoundTrip(r); err == nil || v.Ready() {
		t.Fatalf("the process was not killed: it answers %+v, %v", answer, err)
	}
	issuer.Answer, issuer.Lose = nil, nil
}
