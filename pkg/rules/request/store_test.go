package request_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request/requesttest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Each promise of a [request.Store].
func TestStore(t *testing.T) {
	for name, holds := range map[string]func(*testing.T, *request.Store){
		"nothing is there at first":                              empty,
		"documents come back as they were put":                   roundTrip,
		"a write of an old rev is a conflict and stores nothing": staleRev,
		"a request is added with its pointer and its arguments":  added,
		"an id that exists is a conflict and stores nothing":     sameID,
		"invalid documents are refused":                          invalid,
		"arguments come back byte for byte":                      arguments,
		"arguments end with their request":                       expiredArguments,
		"dropped arguments are gone":                             dropped,
		"a confirmation is used once":                            usedOnce,
		"the agent of a request stays known while a grant lasts": kept,
		"one agent asks a hundred times at once":                 oneAgent,
		"two people decide about each request at once":           twoPeople,
	} {
		t.Run(name, func(t *testing.T) { holds(t, request.NewStore(new(documenttest.Store), nil)) })
	}
}

// An unreadable document, or a document of another agent, does not count as an empty document. An
// unreadable pointer hides no other pointer.
func TestStoreBroken(t *testing.T) {
	var docs documenttest.Store
	s, agent := request.NewStore(&docs, nil), requesttest.Agent("ci")
	_, others, err := request.Granted{Agent: requesttest.Agent("cd")}.Encode()
	require.OK(t, err)
	for _, d := range []document.Doc{
		{Key: document.Key{Part: "ASK#" + agent.Key(), ID: "ASKED"}, Data: []byte{}},
		{Key: request.GrantedKey(agent.Key()), Data: others},
		{Key: document.Key{Part: "USED#R-1", ID: "USED"}, Data: []byte("yesterday")},
		{Key: document.Key{Part: "ASK#", ID: "R-1"}, Data: []byte(agent.Key())},
	} {
		require.OK(t, docs.PutDocs(t.Context(), d))
	}
	_, asked := s.List(t.Context(), agent.Key())
	_, granted := s.Granted(t.Context(), agent.Key())
	_, used := s.Used(t.Context(), "R-1")
	_, use := s.Use(t.Context(), "R-1", time.Now(), time.Now())
	for name, err := range map[string]error{"List": asked, "Granted": granted, "Used": used, "Use": use} {
		if err == nil || errors.Is(err, request.ErrUsed) {
			t.Errorf("%s = %v", name, err)
		}
	}
	_, r := ask(t, s, requesttest.Agent("cd"), requesttest.To("git", "push"))
	if list, all, err := s.Requests(t.Context()); err != nil || all || len(list) != 1 || list[0].Request != r.ID {
		t.Errorf("Requests = %+v, all %v, %v", list, all, err)
	}
}

// ask adds a request, with arguments if the request is for one call.
func ask(t *testing.T, s *request.Store, agent request.Agent, r request.Request, arguments ...string) (request.List, request.Request) {
	t.Helper()
	a, err := s.List(t.Context(), agent.Key())
	require.OK(t, err)
	a.Agent = agent
	a, r, is, err := a.Add(r, request.Granted{}, nil, time.Now())
	require.OK(t, err)
	text := `{"a":1}`
	if len(arguments) > 0 {
		text = arguments[0]
	}
	if !r.OneCall() {
		text = ""
	}
	next, err := s.PutList(t.Context(), a, r.ID, json.RawMessage(text))
	if err != nil || !is || next.Rev != a.Rev+1 {
		t.Fatalf("PutList at rev %d = rev %d, %v", a.Rev, next.Rev, err)
	}
	return next, r
}

func wantAsked(t *testing.T, s *request.Store, want request.List) {
	t.Helper()
	got, err := s.List(t.Context(), want.Agent.Key())
	require.OK(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("List (-want +got):\n%s", d)
	}
}

func wantGranted(t *testing.T, s *request.Store, want request.Granted) {
	t.Helper()
	got, err := s.Granted(t.Context(), want.Agent.Key())
	require.OK(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Granted (-want +got):\n%s", d)
	}
}

// wantArguments checks the stored arguments of a call; want "": none.
func wantArguments(t *testing.T, s *request.Store, r request.Request, agent request.Agent, want string) {
	t.Helper()
	got, err := s.Arguments(t.Context(), agent.Key(), r.ID)
	if missing := errors.Is(err, request.ErrNotFound); missing != (want == "") || err != nil && !missing || string(got) != want {
		t.Errorf("Arguments = %.80q, %v; want %.80q", got, err, want)
	}
}

// wantRequests checks which requests are known.
func wantRequests(t *testing.T, s *request.Store, want ...request.Pointer) {
	t.Helper()
	got, all, err := s.Requests(t.Context())
	require.OK(t, err)
	if d := cmp.Diff(want, got); d != "" || !all {
		t.Errorf("Requests, all: %v (-want +got):\n%s", all, d)
	}
}

func pointer(a request.Agent, r request.Request) request.Pointer {
	return request.Pointer{Request: r.ID, Key: a.Key(), Expires: r.Expires, KeepUntil: r.KeepUntil()}
}

func empty(t *testing.T, s *request.Store) {
	key, id := requesttest.Agent("ci").Key(), request.NewID()
	a, err := s.List(t.Context(), key)
	if err != nil || a.Rev != 0 || a.List != nil || a.Agent != (request.Agent{}) {
		t.Errorf("List = %+v, %v", a, err)
	}
	g, err := s.Granted(t.Context(), key)
	if err != nil || g.Rev != 0 || g.List != nil || g.Agent != (request.Agent{}) {
		t.Errorf("Granted = %+v, %v", g, err)
	}
	if used, err := s.Used(t.Context(), id); err != nil || !used.IsZero() {
		t.Errorf("Used = %v, %v", used, err)
	}
	if whose, err := s.Whose(t.Context(), id); !errors.Is(err, request.ErrNotFound) || whose != "" {
		t.Errorf("Whose = %q, %v; want ErrNotFound", whose, err)
	}
	wantArguments(t, s, request.Request{ID: id}, requesttest.Agent("ci"), "")
	wantRequests(t, s)
}

func roundTrip(t *testing.T, s *request.Store) {
	odd := request.Agent{Way: identity.WayJWT, ID: `a "b" <c>`, Human: "kim\u202e@example.com", Subject: "https://login.example.com 日本"}
	a, r := ask(t, s, odd, requesttest.OneCall("git hub", "file:///a b?c=<d>", `{"a":1}`))
	wantAsked(t, s, a)
	a, err := a.Change(r.ID, func(r *request.Request) {
		r.Why, r.By, r.Minutes, r.Ended = "it is due & needed", "kim", 60, time.Now().UTC()
	})
	require.OK(t, err)
	a, err = s.PutList(t.Context(), a, "", nil)
	require.OK(t, err)
	wantAsked(t, s, a)
	d := request.Decide(r, request.Confirmed, 0, "ada", "a \"reason\" & <more>", time.Now())
	d.Against, d.URL = time.Now().UTC(), "https://mcp.example.com/mcp?a=<b>"
	g, err := s.PutGranted(t.Context(), request.Granted{Agent: odd, List: []request.Decision{d}})
	require.OK(t, err)
	wantGranted(t, s, g)
	g, err = s.PutGranted(t.Context(), g.Without(r.ID))
	require.OK(t, err)
	if g.Rev != 2 {
		t.Errorf("PutGranted = rev %d, want 2", g.Rev)
	}
	wantGranted(t, s, g)
}

func staleRev(t *testing.T, s *request.Store) {
	agent := requesttest.Agent("ci")
	first, r := ask(t, s, agent, requesttest.To("git", "push"))
	second, _ := ask(t, s, agent, requesttest.To("git", "pull"))
	stale, late, _, err := first.Add(requesttest.OneCall("git", "fetch", `{"a":1}`), request.Granted{}, nil, time.Now())
	require.OK(t, err)
	if _, err := s.PutList(t.Context(), stale, late.ID, json.RawMessage(`{"a":1}`)); !errors.Is(err, request.ErrConflict) {
		t.Errorf("PutList of an old rev = %v, want ErrConflict", err)
	}
	if _, err := s.PutList(t.Context(), first, "", nil); !errors.Is(err, request.ErrConflict) {
		t.Errorf("PutList of an old rev, with nothing added = %v, want ErrConflict", err)
	}
	wantAsked(t, s, second)
	wantArguments(t, s, late, agent, "")
	if _, err := s.Whose(t.Context(), late.ID); !errors.Is(err, request.ErrNotFound) {
		t.Errorf("Whose of a request that was not stored = %v, want ErrNotFound", err)
	}
	g := request.Granted{Agent: agent, List: []request.Decision{request.Decide(r, request.Declined, 0, "ada", "", time.Now())}}
	one, err := s.PutGranted(t.Context(), g)
	require.OK(t, err)
	two, err := s.PutGranted(t.Context(), one.Without(r.ID))
	require.OK(t, err)
	if _, err := s.PutGranted(t.Context(), one); !errors.Is(err, request.ErrConflict) {
		t.Errorf("PutGranted of an old rev = %v, want ErrConflict", err)
	}
	wantGranted(t, s, two)
}

func added(t *testing.T, s *request.Store) {
	agent := requesttest.Agent("ci")
	_, one := ask(t, s, agent, requesttest.To("git", "push"))
	_, two := ask(t, s, agent, requesttest.OneCall("git", "push", `{"a":1}`))
	_, other := ask(t, s, requesttest.Agent("cd"), requesttest.To("git", "push"))
	want := []request.Pointer{pointer(agent, one), pointer(agent, two), pointer(requesttest.Agent("cd"), other)}
	for _, p := range want {
		if whose, err := s.Whose(t.Context(), p.Request); err != nil || whose != p.Key {
			t.Errorf("Whose(%s) = %q, %v; want %q", p.Request, whose, err, p.Key)
		}
	}
	wantArguments(t, s, one, agent, "")
	wantArguments(t, s, two, agent, `{"a":1}`)
	wantRequests(t, s, sorted(want)...)
}

func sameID(t *testing.T, s *request.Store) {
	agent := requesttest.Agent("ci")
	_, r := ask(t, s, agent, requesttest.OneCall("git", "push", `{"a":1}`))
	twin := requesttest.OneCall("git", "pull", `{"b":2}`)
	twin.ID, twin.Opened, twin.Expires = r.ID, r.Opened, r.Expires
	if _, err := s.PutList(t.Context(), request.List{Agent: requesttest.Agent("cd"), List: []request.Request{twin}}, r.ID, json.RawMessage(`{"b":2}`)); !errors.Is(err, request.ErrConflict) {
		t.Errorf("PutList with an id that exists = %v, want ErrConflict", err)
	}
	if a, err := s.List(t.Context(), requesttest.Agent("cd").Key()); err != nil || a.Rev != 0 {
		t.Errorf("List = %+v, %v; want nothing", a, err)
	}
	wantArguments(t, s, twin, requesttest.Agent("ci"), `{"a":1}`)
	wantRequests(t, s, pointer(agent, r))
}

func invalid(t *testing.T, s *request.Store) {
	agent := requesttest.Agent("ci")
	good, r, _, err := request.List{Agent: agent}.Add(requesttest.To("git", "push"), request.Granted{}, nil, time.Now())
	require.OK(t, err)
	bad := r
	bad.ID = strings.ToLower(r.ID)
	large := json.RawMessage(`"` + strings.Repeat("x", request.MaxArgs) + `"`)
	call, c, _, err := request.List{Agent: agent}.Add(requesttest.OneCall("git", "push", string(large)), request.Granted{}, nil, time.Now())
	require.OK(t, err)
	for name, put := range map[string]func() error{
		"no agent": func() error { _, err := s.PutList(t.Context(), request.List{}, "", nil); return err },
		"an id that is none": func() error {
			return putAsked(t, s, request.List{Agent: agent, List: []request.Request{bad}}, bad.ID, nil)
		},
		"added, but not in the list": func() error { return putAsked(t, s, request.List{Agent: agent}, r.ID, nil) },
		"arguments of no request":    func() error { return putAsked(t, s, good, "", json.RawMessage(`{}`)) },
		"arguments of every call":    func() error { return putAsked(t, s, good, r.ID, json.RawMessage(`{}`)) },
		"too large arguments":        func() error { return putAsked(t, s, call, c.ID, large) },
		"decisions of nobody":        func() error { _, err := s.PutGranted(t.Context(), request.Granted{}); return err },
		"a decision that is incomplete": func() error {
			return putDecision(t, s, agent, request.Decision{Request: r.ID, Verdict: request.Declined})
		},
		"a grant without an end": func() error {
			return putDecision(t, s, agent, request.Decide(r, request.Allowed, 0, "ada", "", time.Now()))
		},
		"a grant to everybody": func() error {
			return putDecision(t, s, request.Agent{Way: identity.WayNone, ID: "anonymous"}, request.Decide(r, request.Allowed, 1, "ada", "", time.Now()))
		},
	} {
		if err := put(); err == nil || errors.Is(err, request.ErrConflict) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	a, askedErr := s.List(t.Context(), agent.Key())
	g, grantedErr := s.Granted(t.Context(), agent.Key())
	if err := errors.Join(askedErr, grantedErr); err != nil || a.Rev != 0 || g.Rev != 0 {
		t.Errorf("something was stored: %+v, %+v, %v", a, g, err)
	}
	wantRequests(t, s)
}

func putAsked(t *testing.T, s *request.Store, a request.List, added string, arguments json.RawMessage) error {
	_, err := s.PutList(t.Context(), a, added, arguments)
	return err
}

func putDecision(t *testing.T, s *request.Store, agent request.Agent, d request.Decision) error {
	_, err := s.PutGranted(t.Context(), request.Granted{Agent: agent, List: []request.Decision{d}})
	return err
}

func arguments(t *testing.T, s *request.Store) {
	for i, text := range []string{
		"{}", " { \"b\" : 1.0 ,\n\t\"a\" : \"<&>\\u003c\\/ \u2028 日本 \x7f\" } ", `{"n":9007199254740993,"m":-0,"e":1E5}`,
		"{\"bytes\":\"\xff\xfe\x00\"}", `{"long":"` + strings.Repeat("é", (request.MaxArgs-11)/2) + `"}`,
	} {
		agent, r := requesttest.Agent(strings.Repeat("i", i+1)), requesttest.OneCall("git", "push", "{}")
		_, r = ask(t, s, agent, r, text)
		wantArguments(t, s, r, agent, text)
		got, err := s.Arguments(t.Context(), agent.Key(), r.ID)
		require.OK(t, err)
		clear(got) // the caller may change it
		if again, err := s.Arguments(t.Context(), agent.Key(), r.ID); err != nil || !bytes.Equal(again, []byte(text)) {
			t.Errorf("Arguments = %.80q, %v after the caller wrote over them", again, err)
		}
	}
}

func expiredArguments(t *testing.T, s *request.Store) {
	agent, now := requesttest.Agent("ci"), time.Now().UTC().Truncate(time.Microsecond)
	r := requesttest.OneCall("git", "push", "{}")
	r.ID, r.Opened, r.Expires = request.NewID(), now.Add(-time.Hour), now.Add(-time.Microsecond)
	require.OK(t, putAsked(t, s, request.List{Agent: agent, List: []request.Request{r}}, r.ID, json.RawMessage("{}")))
	wantArguments(t, s, r, agent, "")
	wantRequests(t, s, pointer(agent, r)) // which is still known
}

func dropped(t *testing.T, s *request.Store) {
	agent := requesttest.Agent("ci")
	_, one := ask(t, s, agent, requesttest.OneCall("git", "push", `{"a":1}`))
	_, two := ask(t, s, agent, requesttest.OneCall("git", "pull", `{"a":1}`))
	for range 2 {
		require.OK(t, s.DropArguments(t.Context(), agent.Key(), one.ID))
	}
	require.OK(t, s.DropArguments(t.Context(), agent.Key(), request.NewID()))
	wantArguments(t, s, one, agent, "")
	wantArguments(t, s, two, agent, `{"a":1}`)
	wantRequests(t, s, sorted([]request.Pointer{pointer(agent, one), pointer(agent, two)})...)
}

func usedOnce(t *testing.T, s *request.Store) {
	id, now := request.NewID(), time.Date(2099, 11, 22, 13, 0, 0, 123456789, time.FixedZone("", 3600)) // a table removes uses that were long ago
	first := now.UTC().Truncate(time.Microsecond)
	if used, err := s.Use(t.Context(), id, now, now.Add(time.Hour)); err != nil || used != first {
		t.Errorf("Use = %v, %v; want %v", used, err, first)
	}
	if used, err := s.Use(t.Context(), id, now, now.Add(time.Hour)); !errors.Is(err, request.ErrUsed) || !used.Equal(first) {
		t.Errorf("a second Use at the same time = %v, %v; want ErrUsed", used, err)
	}
	if used, err := s.Use(t.Context(), id, now.Add(30*24*time.Hour), now.Add(time.Hour)); !errors.Is(err, request.ErrUsed) || !used.Equal(first) {
		t.Errorf("a late Use = %v, %v; want ErrUsed and %v", used, err, first)
	}
	if used, err := s.Used(t.Context(), id); err != nil || !used.Equal(first) {
		t.Errorf("Used = %v, %v; want %v", used, err, first)
	}
	if used, err := s.Use(t.Context(), id+".1", now, now.Add(time.Hour)); err != nil || !used.Equal(first) {
		t.Errorf("Use of another = %v, %v", used, err)
	}
}

// kept checks for how long the store knows the agent of a request. The requests are up to more than
// a month old.
func kept(t *testing.T, s *request.Store) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	var want []request.Pointer
	for i, tt := range []struct {
		r     request.Request
		ago   time.Duration // since it expired
		known bool
	}{
		{requesttest.To("git", "push"), time.Hour, true},
		{requesttest.To("git", "push"), request.MaxMinutes * time.Minute, true},
		{requesttest.To("git", "push"), request.MaxMinutes*time.Minute + 8*24*time.Hour, false},
		{requesttest.OneCall("git", "push", "{}"), request.UseFor, true},
		{requesttest.OneCall("git", "push", "{}"), request.UseFor + 8*24*time.Hour, false},
	} {
		agent, r := requesttest.Agent(strings.Repeat("i", i+1)), tt.r
		r.ID, r.Opened, r.Expires = request.NewID(), now.Add(-tt.ago-request.OpenFor), now.Add(-tt.ago)
		require.OK(t, putAsked(t, s, request.List{Agent: agent, List: []request.Request{r}}, r.ID, nil))
		whose, err := s.Whose(t.Context(), r.ID)
		if tt.known != (err == nil) || tt.known != (whose == agent.Key()) || err != nil && !errors.Is(err, request.ErrNotFound) {
			t.Errorf("%v after a request expired Whose = %q, %v", tt.ago, whose, err)
		}
		if tt.known {
			want = append(want, pointer(agent, r))
		}
	}
	wantRequests(t, s, sorted(want)...)
}
