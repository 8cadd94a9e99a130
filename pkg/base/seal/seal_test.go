package seal

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"
)

func secretOf(c byte) []byte { return bytes.Repeat([]byte{c}, MinKey) }

// A vault holds secrets, can be out of reach, and counts how often it is read.
type vault struct {
	Keys
	err   error
	asked int
}

func (v *vault) read(context.Context) (Keys, error) {
	v.asked++
	return v.Keys, v.err
}

func TestSealedTexts(t *testing.T) {
	v := &vault{Keys: Keys{Current: secretOf(1)}}
	s := New(v.read)
	for _, plain := range []string{"", "a", strings.Repeat("x", 10_000)} {
		sealed, err := s.Seal(t.Context(), Session, []byte(plain))
		require.OK(t, err)
		if other, _ := s.Seal(t.Context(), Session, []byte(plain)); other == sealed {
			t.Error("the same content is sealed to the same text, which reveals the equality")
		}
		got, err := New(v.read).Open(t.Context(), Session, sealed) // another instance
		require.OK(t, err)
		if string(got) != plain {
			t.Errorf("opened %q, sealed %q", got, plain)
		}
		for _, p := range []Purpose{State, Login, Ask, ""} {
			if _, err := s.Open(t.Context(), p, sealed); !errors.Is(err, ErrForged) {
				t.Errorf("a session opens as %q: %v", p, err)
			}
		}
	}
	if v.asked != 4 { // once for s and once for each other instance
		t.Errorf("the secret was read %d times", v.asked)
	}
}

// A text opens only if it is exactly the sealed text: each bit counts, and so does the encoding.
func TestForgedTexts(t *testing.T) {
	s := New((&vault{Keys: Keys{Current: secretOf(1)}}).read)
	sealed, err := s.Seal(t.Context(), State, []byte("state"))
	require.OK(t, err)
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	require.OK(t, err)
	forged := []string{"", "A", sealed + "A", sealed + "=", sealed + "\n", sealed[1:], sealed[:len(sealed)-1], strings.Repeat("A", maxSealed+1)}
	for i := range len(raw) * 8 {
		changed := bytes.Clone(raw)
		changed[i/8] ^= 1 << (i % 8)
		forged = append(forged, base64.RawURLEncoding.EncodeToString(changed))
	}
	for n := range len(raw) {
		forged = append(forged, base64.RawURLEncoding.EncodeToString(raw[:n]))
	}
	foreign, err := New((&vault{Keys: Keys{Current: secretOf(2)}}).read).Seal(t.Context(), State, []byte("state"))
	require.OK(t, err)
	for _, text := range append(forged, foreign) {
		if got, err := s.Open(t.Context(), State, text); !errors.Is(err, ErrForged) {
			t.Errorf("%q opens: %q, %v", text, got, err)
		}
	}
}

// If the secret was replaced, a Sealer reads the new secret automatically: when it gets a text that
// the new secret sealed, or after refreshEvery.
func TestRotation(t *testing.T) {
	now := time.Now()
	v := &vault{Keys: Keys{Current: secretOf(1)}}
	s := New(v.read)
	s.now = func() time.Time { return now }
	old, err := s.Seal(t.Context(), Session, []byte("old"))
	require.OK(t, err)
	v.Keys = Keys{Current: secretOf(2), Previous: secretOf(1)}
	other := New(v.read)
	fresh, err := other.Seal(t.Context(), Session, []byte("new"))
	require.OK(t, err)

	if _, err := s.Open(t.Context(), Session, fresh); !errors.Is(err, ErrForged) || v.asked != 2 {
		t.Errorf("%d reads of the secret, %v; want no second read for an unknown key within a minute", v.asked, err)
	}
	now = now.Add(refreshSoon)
	for _, text := range []string{fresh, old} {
		for _, with := range []*Sealer{s, other} {
			if _, err := with.Open(t.Context(), Session, text); err != nil {
				t.Errorf("not opened after a rotation: %v", err)
			}
		}
	}
	v.Keys = Keys{Current: secretOf(3), Previous: secretOf(2)}
	now = now.Add(refreshEvery)
	if _, err := s.Open(t.Context(), Session, old); !errors.Is(err, ErrForged) {
		t.Errorf("a withdrawn key still opens a text: %v", err)
	}
}

func TestSecretOutOfReach(t *testing.T) {
	now := time.Now()
	v := &vault{err: errors.New("vault is down")}
	s := New(v.read)
	s.now = func() time.Time { return now }
	sealed, err := New((&vault{Keys: Keys{Current: secretOf(1)}}).read).Seal(t.Context(), Ask, []byte("x"))
	require.OK(t, err)
	if _, err := s.Seal(t.Context(), Ask, nil); !errors.Is(err, ErrNoKey) || !errors.Is(err, v.err) {
		t.Errorf("sealed without a key: %v", err)
	}
	if _, err := s.Open(t.Context(), Ask, sealed); !errors.Is(err, ErrNoKey) {
		t.Errorf("Open without a key = %v, want ErrNoKey", err)
	}
	v.Keys, v.err = Keys{Current: secretOf(1)}, nil
	if _, err := s.Open(t.Context(), Ask, sealed); err != nil {
		t.Errorf("Open after the secret is readable again = %v", err)
	}
	v.err, now = errors.New("down again"), now.Add(2*refreshEvery)
	if _, err := s.Open(t.Context(), Ask, sealed); err != nil {
		t.Errorf("Open with a cached key = %v", err)
	}
	newer, err := New((&vault{Keys: Keys{Current: secretOf(2)}}).read).Seal(t.Context(), Ask, []byte("x"))
	require.OK(t, err)
	if _, err := s.Open(t.Context(), Ask, newer); !errors.Is(err, ErrNoKey) {
		t.Errorf("Open while a newer key may exist but is unreadable = %v, want ErrNoKey", err)
	}
	v.err, now = nil, now.Add(refreshSoon)
	if _, err := s.Open(t.Context(), Ask, newer); !errors.Is(err, ErrForged) {
		t.Errorf("Open with an unknown key after a successful read = %v, want ErrForged", err)
	}
	for _, short := range []Keys{{}, {Current: secretOf(1)[1:]}, {Current: secretOf(1), Previous: []byte("short")}} {
		if _, err := New((&vault{Keys: short}).read).Seal(t.Context(), Ask, nil); !errors.Is(err, ErrNoKey) {
			t.Errorf("sealed with %v: %v", short, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	s := New((&vault{Keys: Keys{Current: secretOf(1)}}).read)
	sealed, err := s.Seal(f.Context(), State, []byte("state"))
	require.OK(f, err)
	for _, seed := range []string{sealed, "", "AQ", sealed[:20]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := s.Open(t.Context(), State, text); err == nil && text != sealed {
			t.Errorf("%q opens as %q", text, got)
		} else if err != nil && !errors.Is(err, ErrForged) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
