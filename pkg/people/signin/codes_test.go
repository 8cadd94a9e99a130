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
	t.Run("is valid once", func(t *testing.T) {
		c := signin.NewCodes(nil)
		code := c.New()
		for range 3 { // a preview opens the link several times
			if !c.Takes(code) {
				t.Fatal("Takes consumes the code")
			}
		}
		if !c.Use(code) {
			t.Error("Use refuses a new code")
		}
		if c.Use(code) || c.Takes(code) {
			t.Error("a used code is valid")
		}
	})
	t.Run("is valid for one of many uses", func(t *testing.T) {
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
			t.Errorf("one code was valid for %d uses", n)
		}
	})
	t.Run("ends after ten minutes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := signin.NewCodes(nil)
			code := c.New()
			time.Sleep(10*time.Minute - time.Nanosecond)
			if !c.Takes(code) {
				t.Error("the code expires within ten minutes")
			}
			time.Sleep(time.Nanosecond)
			if c.Takes(code) || c.Use(code) {
				t.Error("the code is valid after ten minutes")
			}
		})
	})
	t.Run("belongs to one process", func(t *testing.T) {
		if signin.NewCodes(nil).Use(signin.NewCodes(nil).New()) {
			t.Error("a code of another process is valid")
		}
	})
	t.Run("is replaced by newer codes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := signin.NewCodes(nil)
			first := c.New()
			time.Sleep(time.Second)
			newest := first
			for range 100 {
				newest = c.New()
			}
			if c.Takes(first) || !c.Takes(newest) {
				t.Error("want the oldest code removed and the newest valid")
			}
		})
	})
}
