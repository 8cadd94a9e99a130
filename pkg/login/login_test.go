package login_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/login"
	"github.com/portcullis-mcp/portcullis/pkg/token"
)

func TestCode(t *testing.T) {
	t.Run("signs in once", func(t *testing.T) {
		s := login.New(token.NewAdmin(), "kim", nil)
		code := s.Code()
		for range 3 { // a preview looks, and looks again
			if !s.Takes(code) {
				t.Fatal("looking at a code uses it up")
			}
		}
		text, ok := s.SignIn(code)
		if actor, open := s.Actor(text); !ok || !open || actor != "kim" {
			t.Errorf("SignIn = %v, Actor = %q, %v", ok, actor, open)
		}
		if _, again := s.SignIn(code); again || s.Takes(code) {
			t.Error("a code is taken twice")
		}
	})
	t.Run("signs one of many in", func(t *testing.T) {
		s := login.New(token.NewAdmin(), "kim", nil)
		code, signedIn := s.Code(), make(chan bool, 50)
		var wg sync.WaitGroup
		for range cap(signedIn) {
			wg.Go(func() { _, ok := s.SignIn(code); signedIn <- ok })
		}
		wg.Wait()
		close(signedIn)
		n := 0
		for ok := range signedIn {
			if ok {
				n++
			}
		}
		if n != 1 {
			t.Errorf("one code signed in %d times", n)
		}
	})
	t.Run("ends after ten minutes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := login.New(token.NewAdmin(), "kim", nil)
			code := s.Code()
			time.Sleep(10*time.Minute - time.Nanosecond)
			if !s.Takes(code) {
				t.Error("it ends too early")
			}
			time.Sleep(time.Nanosecond)
			if _, ok := s.SignIn(code); ok || s.Takes(code) {
				t.Error("it is taken after ten minutes")
			}
		})
	})
	t.Run("is of one process", func(t *testing.T) {
		key := token.NewAdmin()
		if _, ok := login.New(key, "kim", nil).SignIn(login.New(key, "kim", nil).Code()); ok {
			t.Error("a code of another process is taken")
		}
	})
	t.Run("makes way for newer ones", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := login.New(token.NewAdmin(), "kim", nil)
			first := s.Code()
			time.Sleep(time.Second)
			newest := first
			for range 100 {
				newest = s.Code()
			}
			if s.Takes(first) || !s.Takes(newest) {
				t.Error("codes are kept without bound, or the newest is not")
			}
		})
	})
}

func TestKey(t *testing.T) {
	key := token.NewAdmin()
	s := login.New(key, "kim", nil)
	for range 2 { // unlike a code
		if _, ok := s.SignIn(key.Reveal()); !ok {
			t.Error("the key does not sign in")
		}
	}
	for _, other := range []string{"", token.NewAdmin().Reveal(), key.Reveal()[4:], key.Reveal() + " ", key.String()} {
		if _, ok := s.SignIn(other); ok {
			t.Errorf("%q signs in", other)
		}
	}
}

func TestSession(t *testing.T) {
	open := func(s *login.Sessions, text string) bool { _, ok := s.Actor(text); return ok }
	signIn := func(t *testing.T, s *login.Sessions) string {
		text, ok := s.SignIn(s.Code())
		if !ok {
			t.Fatal("a fresh code does not sign in")
		}
		return text
	}
	t.Run("ends after an hour without use", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := login.New(token.NewAdmin(), "kim", nil)
			text := signIn(t, s)
			for range 3 {
				time.Sleep(time.Hour - 1)
				if !open(s, text) {
					t.Fatal("a session in use ends")
				}
			}
			time.Sleep(time.Hour)
			if open(s, text) {
				t.Error("it is open after an hour without use")
			}
		})
	})
	t.Run("ends after eight hours of use", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := login.New(token.NewAdmin(), "kim", nil)
			text, began := signIn(t, s), time.Now()
			for open(s, text) {
				time.Sleep(30 * time.Minute)
			}
			if took := time.Since(began); took != 8*time.Hour {
				t.Errorf("it ends after %v", took)
			}
		})
	})
	t.Run("ends by signing out", func(t *testing.T) {
		s := login.New(token.NewAdmin(), "kim", nil)
		one, two := signIn(t, s), signIn(t, s)
		s.SignOut(one)
		if open(s, one) || !open(s, two) {
			t.Error("the wrong session is open")
		}
	})
	t.Run("is neither a code nor the key", func(t *testing.T) {
		key := token.NewAdmin()
		s := login.New(key, "kim", nil)
		code := s.Code()
		if open(s, code) || open(s, key.Reveal()) || open(s, "") {
			t.Error("what signs in is taken for a session")
		}
		if _, ok := s.SignIn(signIn(t, s)); ok {
			t.Error("a session signs in")
		}
	})
	t.Run("makes way for newer ones", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := login.New(token.NewAdmin(), "kim", nil)
			first := signIn(t, s)
			time.Sleep(time.Second)
			for range 200 {
				signIn(t, s)
			}
			if open(s, first) {
				t.Error("sessions are kept without bound")
			}
		})
	})
}
