package token_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A vault stores the current and the previous key of a gateway for all of its processes.
type vault struct {
	mu  sync.Mutex
	v   secret.Versions
	err error
	n   int
}

// rotate stores a new key and returns its number.
func (v *vault) rotate() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.n++
	v.v = secret.Versions{Previous: v.v.Current, Current: secret.Version{Text: secret.New(fmt.Sprintf("%032d", v.n)), Since: time.Now()}}
	return v.n
}

func (v *vault) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.err = err
}

// ring returns the key ring of one process.
func (v *vault) ring(days int, log *slog.Logger) *token.KeyRing {
	return token.NewKeyRing(func(context.Context) (token.Keys, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.err != nil {
			return token.Keys{}, v.err
		}
		return token.ReadKeys(v.v, days)
	}, nil, log)
}

// A gate has two processes of a gateway: one makes tokens, the other accepts them.
type gate struct {
	t     *testing.T
	vault vault
	admin *token.Registry
	agent *token.KeyRing
	log   local.Buffer
}

func newGate(t *testing.T, days int) *gate {
	t.Helper()
	store := token.NewStore(new(documenttest.Store))
	g := &gate{t: t}
	g.vault.rotate()
	g.admin = &token.Registry{Store: store, Keys: g.vault.ring(days, nil)}
	g.agent = g.vault.ring(days, slog.New(slog.NewTextHandler(&g.log, nil)))
	return g
}

func (g *gate) make(name string) (token.Token, secret.Text) {
	g.t.Helper()
	made, text, err := g.admin.Make(g.t.Context(), "ann", token.Spec{Name: name, Servers: []string{"*"}, Days: 365})
	require.OK(g.t, err)
	return made, text
}

// want checks the error for a token text in the process that agents call.
func (g *gate) want(what string, text secret.Text, want error) {
	g.t.Helper()
	if _, err := g.agent.Find(g.t.Context(), g.admin.Store, text, time.Now()); !errors.Is(err, want) {
		g.t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 365)
		first, oldest := g.make("oldest")
		g.want("made just now", oldest, nil)
		time.Sleep(time.Minute)
		g.vault.rotate()
		g.want("before the processes read the new key", oldest, nil)
		second, older := g.make("older")
		g.want("under a key that this process does not know yet", older, nil)
		g.want("under the previous key", oldest, nil)
		if j := g.admin.StatusAt(t.Context()); j.KeyStatus(first) != token.UnderPrevious || j.KeyStatus(second) != token.UnderCurrent || j.Status(first) != token.Live {
			t.Errorf("%s and %s", j.KeyStatus(first), j.KeyStatus(second))
		}
		s, ok := g.admin.StatusAt(t.Context()).KeySummary([]token.Token{first, second})
		if !ok || s.Previous.Live != 1 || s.Current.Live != 1 || !s.Previous.Last.Equal(first.ExpiresAt) || !s.Current.Since.Equal(g.vault.v.Current.Since) || !s.Previous.Until.Equal(s.Current.Since.Add(token.MaxLife)) {
			t.Errorf("standing %+v", s)
		}

		g.vault.rotate()
		time.Sleep(10 * time.Minute) // in which each process reads it
		g.want("two keys ago", oldest, token.ErrNotFound)
		g.want("one key ago", older, nil)
		if j := g.admin.StatusAt(t.Context()); j.Status(first) != token.Void || j.KeyStatus(first) != token.UnderNone {
			t.Errorf("%s, %s", j.Status(first), j.KeyStatus(first))
		}
		if s, _ := g.admin.StatusAt(t.Context()).KeySummary([]token.Token{first, second}); s.Void != 1 || s.Previous.Live != 1 {
			t.Errorf("standing %+v", s)
		}
		if got := g.log.String(); strings.Count(got, "key of agent tokens replaced") != 2 || strings.Contains(got, g.vault.v.Current.Text.Reveal()) {
			t.Errorf("log: %s", got)
		}
	})
}

// The holder of a token under the previous key is admitted while the key is replaced. This holds
// for any number of processes, and in any order in which they read the new key.
func TestRotationUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 365)
		var held sync.Map // texts that must be valid
		_, text := g.make("first")
		held.Store("first", text)
		var asked atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for n := range 8 {
			process := g.vault.ring(365, nil)
			wg.Go(func() {
				for ctx.Err() == nil {
					held.Range(func(name, text any) bool {
						if _, err := process.Find(t.Context(), g.admin.Store, text.(secret.Text), time.Now()); err != nil {
							t.Errorf("process %d, token %s: %v", n, name, err)
						}
						asked.Add(1)
						return true
					})
					time.Sleep(time.Duration(700+n*37) * time.Millisecond)
				}
			})
		}
		time.Sleep(time.Minute)
		g.vault.rotate()
		time.Sleep(5 * time.Second) // each process may have keys that are a few seconds old
		_, text = g.make("second")
		held.Store("second", text)
		time.Sleep(30 * time.Minute)
		held.Delete("first") // the operator replaced it before the next rotation
		g.vault.rotate()
		time.Sleep(30 * time.Minute)
		stop()
		wg.Wait()
		if asked.Load() < 10_000 {
			t.Errorf("asked %d times", asked.Load())
		}
	})
}

// A previous key is valid for as long as the operator says, and for a year at most.
func TestPreviousKeyEnds(t *testing.T) {
	for days, until := range map[int]time.Duration{0: 0, 7: 7 * 24 * time.Hour, 365: token.MaxLife} {
		t.Run(fmt.Sprint(days), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(t, days)
				made, text := g.make("ci")
				g.want("made just now", text, nil)
				g.vault.rotate()
				time.Sleep(max(until-time.Second, 10*time.Minute))
				if days > 0 {
					g.want("to the last second", text, nil)
					time.Sleep(time.Second)
				}
				g.want("from then on", text, token.ErrNotFound)
				if j := g.admin.StatusAt(t.Context()); days < 365 && j.Status(made) != token.Void || j.KeyStatus(made) != token.UnderNone {
					t.Errorf("%s, %s", j.Status(made), j.KeyStatus(made))
				}
			})
		})
	}
}

// If the keys cannot be read, Find returns that error, which says nothing about the token.
func TestKeyOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t, 365)
		down := errors.New("vault is down")
		_, old := g.make("old")
		g.vault.fail(down)
		g.want("no key was ever read", old, down)
		g.vault.fail(nil)
		g.want("the key can be read again", old, nil)
		g.vault.rotate()
		time.Sleep(5 * time.Second)
		_, fresh := g.make("new")
		g.vault.fail(down)
		g.want("under a key that may be a newer one", fresh, down)
		g.want("under a cached key", old, nil)
		time.Sleep(time.Hour)
		g.want("under a cached key an hour later", old, nil)
		g.vault.fail(nil)
		time.Sleep(5 * time.Second)
		g.want("read again", fresh, nil)
	})
}

// Not every guessed token makes the process read the key.
func TestUnknownTokensReadTheKeyNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		store := token.NewStore(new(documenttest.Store))
		r := token.NewKeyRing(func(context.Context) (token.Keys, error) {
			reads++
			k, err := token.NewKey(strings.Repeat("k", 32))
			return token.Keys{Current: k}, err
		}, nil, nil)
		for range 600 {
			if _, err := r.Find(t.Context(), store, token.New(), time.Now()); !errors.Is(err, token.ErrNotFound) {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if reads > 13 {
			t.Errorf("%d reads in a minute of guesses", reads)
		}
	})
}

// An older token does not have the id of its key. Its creation time decides which key it has.
func TestPlaceOfOlderTokens(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC) }
	key := func(n int, since time.Time) secret.Version {
		return secret.Version{Text: secret.New(fmt.Sprintf("%032d", n)), Since: since}
	}
	for name, tt := range map[string]struct {
		v    secret.Versions
		made time.Time
		want token.KeyStatus
	}{
		"one key":                         {secret.Versions{Current: key(1, day(5))}, day(1), token.UnderCurrent},
		"before the current key":          {secret.Versions{Current: key(2, day(5)), Previous: key(1, day(1))}, day(3), token.UnderPrevious},
		"after the current key":           {secret.Versions{Current: key(2, day(5)), Previous: key(1, day(1))}, day(6), token.UnderCurrent},
		"before the previous key":         {secret.Versions{Current: key(3, day(5)), Previous: key(2, day(3))}, day(2), token.UnderNone},
		"keys without dates":              {secret.Versions{Current: key(2, time.Time{}), Previous: key(1, time.Time{})}, day(2), token.UnderPrevious},
		"an earlier key is current again": {secret.Versions{Current: key(1, day(1)), Previous: key(2, day(5))}, day(6), token.UnderCurrent},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := token.ReadKeys(tt.v, 365)
			require.OK(t, err)
			ring := token.NewKeyRing(func(context.Context) (token.Keys, error) { return keys, nil }, nil, nil)
			r := &token.Registry{Keys: ring, Now: func() time.Time { return day(7) }}
			if got := r.StatusAt(t.Context()).KeyStatus(token.Token{CreatedAt: tt.made}); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
