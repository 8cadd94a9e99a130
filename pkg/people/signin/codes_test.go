package signin_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
)

func TestCode(t *testing.T) {
	t.Run("is good once", func(t *testing.T) {
		c := signin.NewCodes(nil)
		code := c.New()
		for range 3 { // a preview looks repeatedly
			if !c.Takes(code) {
				t.Fatal("looking at a code uses it up")
			}
		}
		if !c.Use(code) {
			t.Error("a fresh code is not good")
		}
		if c.Use(code) || c.Takes(code) {
			t.Error("a code is good twice")
		}
	})
	t.Run("is good for one of many", func(t *testing.T) {
		c := signin.NewCodes(nil)
		code := c.New()
		var good atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if c.Use(code) {
					good.Add(1)
				}
			})
		}
		wg.Wait()
		if n := good.Load(); n != 1 {
			t.Errorf("one code was good %d times", n)
		}
	})
	t.Run("ends after ten minutes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := signin.NewCodes(nil)
			code := c.New()
			time.Sleep(10*time.Minute - time.Nanosecond)
			if !c.Takes(code) {
				t.Error("it ends too early")
			}
			time.Sleep(time.Nanosecond)
			if c.Takes(code) || c.Use(code) {
				t.Error("it is good after ten minutes")
			}
		})
	})
	t.Run("is of one process", func(t *testing.T) {
		if signin.NewCodes(nil).Use(signin.NewCodes(nil).New()) {
			t.Error("a code of another process is good")
		}
	})
	t.Run("makes way for newer ones", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := signin.NewCodes(nil)
			first := c.New()
			time.Sleep(time.Second)
			newest := first
			for range 100 {
				newest = c.New()
			}
			if c.Takes(first) || !c.Takes(newest) {
				t.Error("codes are kept without bound, or the newest is not")
			}
		})
	})
}
