package signin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token/tokentest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A fixture has the sessions of one process over shared stores.
type fixture struct {
	*signin.Sessions
	t       *testing.T
	docs    *documenttest.Store
	store   *signin.Store // over docs
	options signin.SessionOptions
	log     *local.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, docs: new(documenttest.Store), log: &local.Buffer{}}
	f.store = signin.NewStore(f.docs, nil)
	f.options.Log = slog.New(slog.NewTextHandler(f.log, nil))
	return f.process()
}

// process returns another process over the same stores.
func (f *fixture) process() *fixture {
	other := *f
	other.Sessions = signin.NewSessions(f.store, tokentest.Key(f.t), &other.options)
	return &other
}

func (f *fixture) open(p signin.Person) secret.Text {
	f.t.Helper()
	cookie, err := f.Open(f.t.Context(), p, "Mozilla/5.0")
	require.OK(f.t, err)
	return cookie
}

// actor returns the actor of the cookie's session; "" if there is none.
func (f *fixture) actor(cookie secret.Text) string {
	f.t.Helper()
	s, err := f.Find(f.t.Context(), cookie)
	if err != nil && !errors.Is(err, signin.ErrNotFound) {
		f.t.Fatal(err)
	}
	return s.Actor
}

var kim = signin.Person{Actor: "kim", Way: signin.WayKey}

func TestSessionLife(t *testing.T) {
	t.Run("ends after an hour without use", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			cookie := f.open(kim)
			for range 3 {
				time.Sleep(time.Hour - 1)
				if f.actor(cookie) != "kim" {
					t.Fatal("a used session ended")
				}
			}
			time.Sleep(time.Hour)
			if f.actor(cookie) != "" {
				t.Error("the session is valid after an hour without use")
			}
		})
	})
	t.Run("ends after eight hours of use", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			cookie, began := f.open(kim), time.Now()
			for f.actor(cookie) != "" {
				time.Sleep(20 * time.Minute)
			}
			if took := time.Since(began); took != 8*time.Hour {
				t.Errorf("the session ends after %v", took)
			}
		})
	})
	t.Run("ends after an hour in which only Look reads it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			cookie, began := f.open(kim), time.Now()
			for {
				if _, err := f.Look(t.Context(), cookie); err != nil {
					break
				}
				time.Sleep(20 * time.Second)
			}
			if took := time.Since(began); took != time.Hour {
				t.Errorf("the session ends after %v", took)
			}
		})
	})
	t.Run("is written at most every five minutes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			cookie := f.open(kim)
			reads, writes := 0, 0
			f.docs.OnDocs = func(context.Context, []document.Key) error { reads++; return nil }
			f.docs.OnPut = func(context.Context, []document.Doc) (bool, error) { writes++; return false, nil }
			for range 60 {
				time.Sleep(10 * time.Second)
				f.actor(cookie)
			}
			if writes != 2 || reads != 60 {
				t.Errorf("sixty requests in ten minutes cost %d reads and %d writes, want two writes", reads, writes)
			}
		})
	})
}

func TestSession(t *testing.T) {
	t.Run("is not found for a text that is not its cookie", func(t *testing.T) {
		f := newFixture(t)
		cookie := f.open(kim)
		s, err := f.Find(t.Context(), cookie)
		require.OK(t, err)
		for _, made := range []string{"", "x", token.Random(), s.ID, s.ID[:43], cookie.Reveal() + " ", cookie.Reveal()[1:], strings.Repeat("x", 1<<20)} {
			if f.actor(secret.New(made)) != "" {
				t.Errorf("Find accepts %.50q", made)
			}
		}
		if strings.Contains(fmt.Sprintf("%+v", s), cookie.Reveal()) {
			t.Error("the store has the cookie")
		}
	})
	t.Run("is not found under another key", func(t *testing.T) {
		f := newFixture(t)
		cookie := f.open(kim)
		other, err := token.NewKey(strings.Repeat("k", 32))
		require.OK(t, err)
		if _, err := signin.NewSessions(f.store, other, nil).Find(t.Context(), cookie); !errors.Is(err, signin.ErrNotFound) {
			t.Errorf("Find = %v", err)
		}
	})
	t.Run("names the browser, clipped", func(t *testing.T) {
		f := newFixture(t)
		cookie, err := f.Open(t.Context(), kim, "Mozilla\n"+strings.Repeat("é", 5000)+"\u202e")
		require.OK(t, err)
		s, err := f.Find(t.Context(), cookie)
		if err != nil || !strings.HasPrefix(s.Browser, "Mozilla é") || len([]rune(s.Browser)) != 160 {
			t.Errorf("Find = %+v, %v", s, err)
		}
	})
	t.Run("is invalid with an unknown way or format", func(t *testing.T) {
		f := newFixture(t)
		if cookie := f.open(signin.Person{Actor: "kim", Way: "carrier pigeon"}); f.actor(cookie) != "" {
			t.Error("a session with an unknown way is valid")
		}
		cookie := f.open(kim)
		s, err := f.Find(t.Context(), cookie)
		require.OK(t, err)
		s.Format = signin.Format + 1
		_, err = f.store.Put(t.Context(), s)
		require.OK(t, err)
		if f.actor(cookie) != "" {
			t.Error("a session in an unknown format is valid")
		}
	})
}

// shared returns two processes over the same stores, with two sessions of kim and one of sam.
func shared(t *testing.T) (here, there *fixture, one, two, three secret.Text) {
	here = newFixture(t)
	there = here.process()
	one, two, three = here.open(kim), there.open(kim), there.open(signin.Person{Actor: "sam", Way: signin.WayKey})
	return here, there, one, two, three
}

// actors returns the actors of the cookies' sessions.
func (f *fixture) actors(cookies ...secret.Text) (names string) {
	for _, c := range cookies {
		names += f.actor(c) + ","
	}
	return names
}

// A session that ends in one process ends in all processes.
func TestSessionEnds(t *testing.T) {
	t.Run("by signing out", func(t *testing.T) {
		here, there, one, two, three := shared(t)
		require.OK(t, there.End(t.Context(), one))
		if got := here.actors(one, two, three); got != ",kim,sam," {
			t.Errorf("valid sessions: %s", got)
		}
	})
	t.Run("if its owner revokes it by id", func(t *testing.T) {
		here, there, one, two, three := shared(t)
		own, err := there.Own(t.Context(), signin.Session{Actor: "kim"})
		if err != nil || len(own) != 2 || own[0].Browser != "Mozilla/5.0" {
			t.Fatalf("Own = %+v, %v", own, err)
		}
		mine, err := here.Find(t.Context(), one)
		require.OK(t, err)
		require.OK(t, there.Revoke(t.Context(), signin.Session{Actor: "kim"}, mine.ID))
		if got := here.actors(one, two, three); got != ",kim,sam," {
			t.Errorf("valid sessions: %s", got)
		}
		if err := there.Revoke(t.Context(), signin.Session{Actor: "kim"}, mine.ID); !errors.Is(err, signin.ErrNotFound) {
			t.Errorf("Revoke again = %v", err)
		}
		sams, err := here.Find(t.Context(), three)
		require.OK(t, err)
		if err := there.Revoke(t.Context(), signin.Session{Actor: "kim"}, sams.ID); !errors.Is(err, signin.ErrNotFound) || here.actor(three) != "sam" {
			t.Errorf("Revoke of another person's session = %v", err)
		}
	})
	t.Run("if its owner ends all other sessions", func(t *testing.T) {
		here, there, one, two, three := shared(t)
		mine, err := here.Find(t.Context(), one)
		require.OK(t, err)
		if n, err := here.RevokeOthers(t.Context(), mine); n != 1 || err != nil {
			t.Errorf("RevokeOthers = %d, %v", n, err)
		}
		if got := there.actors(one, two, three); got != "kim,,sam," {
			t.Errorf("valid sessions: %s", got)
		}
	})
	t.Run("even if a request stores the use of the session at the same time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			here, there, one, _, _ := shared(t)
			time.Sleep(6 * time.Minute)
			here.docs.OnPut = func(context.Context, []document.Doc) (bool, error) {
				here.docs.OnPut = nil
				return false, there.End(t.Context(), one)
			}
			if here.actor(one) != "" {
				t.Error("the session is valid")
			}
			if there.actor(one) != "" {
				t.Error("the ended session is valid in the other process")
			}
		})
	})
}

// An actor has at most 16 sessions, and the store has about 512 at most. Then a new session
// replaces the oldest one.
func TestSessionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there, one, two, three := shared(t)
		for range 14 {
			time.Sleep(time.Second)
			there.open(kim)
		}
		if got := here.actors(one, two, three); got != "kim,kim,sam," {
			t.Errorf("with 16 sessions, valid: %s", got)
		}
		time.Sleep(time.Second)
		there.open(kim)
		if got := here.actors(one, two, three); got != ",kim,sam," && got != "kim,,sam," {
			t.Errorf("with 17 sessions, valid: %s", got)
		}
		for i := range 600 {
			time.Sleep(time.Second)
			there.open(signin.Person{Actor: fmt.Sprint("bot-", i), Way: signin.WayKey})
		}
		if all, err := here.store.List(t.Context()); err != nil || len(all) != 512 {
			t.Errorf("%d sessions are kept, %v", len(all), err)
		}
	})
}

// A session has no more rights than its token has now.
func TestSessionOfAToken(t *testing.T) {
	admin := func(t *testing.T) (f *fixture, tokens *token.Store, tok token.Token, cookie secret.Text) {
		t.Helper()
		f, tokens = newFixture(t), token.NewStore(new(documenttest.Store))
		f.options.Tokens = tokens
		f = f.process()
		tok, _ = tokentest.Sample(t, tokentest.Key(t), "kim")
		tok.CreatedAt = time.Now().UTC()
		tok.ExpiresAt = tok.CreatedAt.Add(90 * time.Minute)
		tok, err := tokens.PutToken(t.Context(), tok)
		require.OK(t, err)
		cookie = f.open(signin.Person{Actor: "token:kim", Way: signin.WayToken, Token: tok.ID})
		if f.actor(cookie) != "token:kim" {
			t.Fatal("the session is invalid")
		}
		return f, tokens, tok, cookie
	}
	ends := func(t *testing.T, f *fixture, cookie secret.Text) {
		t.Helper()
		if f.actor(cookie) != "" {
			t.Error("the session is valid")
		}
		if all, err := f.store.List(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("the session is still stored: %v, %v", all, err)
		}
		if !strings.Contains(f.log.String(), "session ended with what it was made of") || strings.Contains(f.log.String(), cookie.Reveal()) {
			t.Errorf("log: %s", f.log)
		}
	}
	for name, harm := range map[string]func(*token.Token){
		"revoked":                        func(t *token.Token) { *t = t.Revoke("sam", time.Now()) },
		"without admin rights":           func(t *token.Token) { t.Admin = false },
		"in the form of a newer program": func(t *token.Token) { t.Format = token.Format + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			f, tokens, tok, cookie := admin(t)
			harm(&tok)
			_, err := tokens.PutToken(t.Context(), tok)
			require.OK(t, err)
			if own, err := f.Own(t.Context(), signin.Session{Actor: "token:kim"}); err != nil || len(own) > 0 {
				t.Errorf("Own = %+v, %v", own, err)
			}
			ends(t, f, cookie)
		})
	}
	t.Run("expired", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, _, _, cookie := admin(t)
			time.Sleep(50 * time.Minute)
			if f.actor(cookie) == "" {
				t.Error("the session ends too early")
			}
			time.Sleep(40 * time.Minute)
			ends(t, f, cookie)
		})
	})
	t.Run("that does not exist", func(t *testing.T) {
		f, _, _, _ := admin(t)
		require.OK(t, f.Revoke(t.Context(), signin.Session{Actor: "token:kim"}, soleID(t, f)))
		ends(t, f, f.open(signin.Person{Actor: "token:kim", Way: signin.WayToken, Token: "none"}))
	})
	t.Run("in a gateway that no longer accepts tokens", func(t *testing.T) {
		f, _, _, cookie := admin(t)
		f.options.Tokens = nil
		ends(t, f.process(), cookie)
	})
}

func soleID(t *testing.T, f *fixture) string {
	t.Helper()
	all, err := f.store.List(t.Context())
	require.OK(t, err)
	if len(all) != 1 {
		t.Fatalf("there are %d sessions", len(all))
	}
	return all[0].ID
}

func TestSessionOfTheBootstrapToken(t *testing.T) {
	f := newFixture(t)
	f.options.Bootstrap = token.Digest(token.New())
	f = f.process()
	cookie := f.open(signin.Person{Actor: "bootstrap", Way: signin.WayBootstrap})
	if f.actor(cookie) != "bootstrap" {
		t.Error("the session is invalid")
	}
	if s, err := f.Find(t.Context(), cookie); err != nil || s.Token == f.options.Bootstrap {
		t.Errorf("the session contains the digest of the token: %+v, %v", s, err)
	}
	for name, setting := range map[string]string{"another": token.Digest(token.New()), "none": ""} {
		other := *f
		other.options.Bootstrap = setting
		if other.process().actor(other.open(signin.Person{Actor: "bootstrap", Way: signin.WayBootstrap})) != "" && setting == "" {
			t.Error("a session without a token is valid")
		}
		cookie := f.open(signin.Person{Actor: "bootstrap", Way: signin.WayBootstrap})
		if other.process().actor(cookie) != "" {
			t.Errorf("with the setting %s the session is valid", name)
		}
	}
}

// A session that cannot be read is refused, but does not count as ended.
func TestSessionWithoutStores(t *testing.T) {
	down := errors.New("the table does not answer")
	for _, op := range []string{"Docs", "Put", "Delete", "List"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				cookie := f.open(kim)
				s, err := f.Find(t.Context(), cookie)
				require.OK(t, err)
				time.Sleep(6 * time.Minute)
				fail := func(when bool) error {
					if when {
						return down
					}
					return nil
				}
				f.docs.OnDocs = func(context.Context, []document.Key) error { return fail(op == "Docs") }
				f.docs.OnList = func(context.Context, string) error { return fail(op == "List") }
				f.docs.OnPut = func(_ context.Context, docs []document.Doc) (bool, error) {
					return false, fail(op == "Put" && docs[0].Data != nil || op == "Delete" && docs[0].Data == nil)
				}
				_, find := f.Find(t.Context(), cookie)
				if want := op == "Docs"; errors.Is(find, down) != want || errors.Is(find, signin.ErrNotFound) {
					t.Errorf("Find = %v; want an error only if the session cannot be read", find)
				}
				_, open := f.Open(t.Context(), kim, "")
				if want := op == "Put" || op == "List"; errors.Is(open, down) != want {
					t.Errorf("Open = %v", open)
				}
				_, own := f.Own(t.Context(), signin.Session{Actor: "kim"})
				_, others := f.RevokeOthers(t.Context(), signin.Session{Actor: "kim"})
				if errors.Is(own, down) != (op == "List") || errors.Is(others, down) != (op != "Put") {
					t.Errorf("Own = %v, RevokeOthers = %v", own, others)
				}
				if err := f.Revoke(t.Context(), signin.Session{Actor: "kim"}, s.ID); errors.Is(err, down) != (op == "Docs" || op == "Delete") {
					t.Errorf("Revoke = %v", err)
				}
				if err := f.End(t.Context(), cookie); errors.Is(err, down) != (op == "Docs" || op == "Delete") {
					t.Errorf("End = %v", err)
				}
			})
		})
	}
	t.Run("store of tokens fails", func(t *testing.T) {
		f := newFixture(t)
		f.options.Tokens = token.NewStore(&documenttest.Store{OnDocs: func(context.Context, []document.Key) error {
			return errors.New("the table does not answer")
		}})
		f = f.process()
		cookie := f.open(signin.Person{Actor: "token:kim", Way: signin.WayToken, Token: "x"})
		if _, err := f.Find(t.Context(), cookie); err == nil || errors.Is(err, signin.ErrNotFound) {
			t.Errorf("Find = %v, want the store's error", err)
		}
		if all, err := f.store.List(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("the session was removed: %v, %v", all, err)
		}
	})
}

func TestCSRF(t *testing.T) {
	f := newFixture(t)
	one, two := f.open(kim), f.open(kim)
	proof := f.CSRF(one)
	if !token.SameHash(f.process().CSRF(one), proof) {
		t.Error("another process computes another value")
	}
	s, err := f.Find(t.Context(), one)
	require.OK(t, err)
	for _, other := range []string{"", proof[1:], proof + "0", strings.ToUpper(proof), f.CSRF(two), s.ID, one.Reveal(), f.CSRF(secret.New(s.ID))} {
		if token.SameHash(f.CSRF(one), other) {
			t.Errorf("%q has the same value", other)
		}
	}
	if proof == s.ID || len(proof) != 64 {
		t.Errorf("the value is %q", proof)
	}
}
