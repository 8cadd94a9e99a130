package secret_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var value, reads int
		var fault error
		h := secret.NewRefreshable(func(context.Context) (int, error) { reads++; return value, fault }, nil)
		want := func(what string, get func(context.Context, time.Duration) (int, error), age time.Duration, v, n int, err error) {
			t.Helper()
			if got, failed := get(t.Context(), age); got != v || reads != n || !errors.Is(failed, err) {
				t.Errorf("%s: %d, %v after %d reads; want %d, %v after %d", what, got, failed, reads, v, err, n)
			}
		}
		down := errors.New("down")
		fault = down
		want("no value", h.Get, time.Hour, 0, 1, down)
		want("no value, second try", h.Get, time.Hour, 0, 2, down)
		value, fault = 1, nil
		want("read", h.Get, time.Hour, 1, 3, nil)
		value = 2
		want("kept", h.Get, time.Hour, 1, 3, nil)
		time.Sleep(time.Minute)
		want("value too old for Fresh", h.Fresh, time.Minute, 2, 4, nil)
		value, fault = 3, down
		time.Sleep(time.Hour)
		want("the older value stays", h.Get, time.Hour, 2, 5, nil)
		if !errors.Is(h.Err(), down) {
			t.Errorf("Err = %v", h.Err())
		}
		want("a failed read counts as a read", h.Fresh, time.Minute, 2, 5, nil)
	})
}

// A caller waits for another caller's read only if there is no value, or if the caller cannot use
// the cached value.
func TestHeldWhileItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int32
		h := secret.NewRefreshable(func(context.Context) (int32, error) {
			time.Sleep(time.Second)
			return reads.Add(1), nil
		}, nil)
		var wg sync.WaitGroup
		all := func(get func(context.Context, time.Duration) (int32, error), v int32, took time.Duration) {
			for range 8 {
				wg.Go(func() {
					begin := time.Now()
					if got, err := get(t.Context(), time.Minute); got != v || err != nil || time.Since(begin) > took {
						t.Errorf("%d, %v after %v", got, err, time.Since(begin))
					}
				})
			}
		}
		all(h.Get, 1, time.Second)
		wg.Wait()
		time.Sleep(time.Minute)
		go func() { _, _ = h.Get(t.Context(), time.Minute) }()
		synctest.Wait()
		all(h.Get, 1, 0)
		all(h.Fresh, 2, time.Second)
		wg.Wait()
		gone, cancel := context.WithCancel(t.Context())
		time.Sleep(time.Minute)
		cancel()
		if _, err := h.Get(gone, time.Minute); err != nil || h.Err() != nil {
			t.Errorf("the read ended with the request that began it: %v, %v", err, h.Err())
		}
	})
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.key")
	at := time.Date(2026, 11, 22, 22, 0, 0, 0, time.UTC)
	two := secret.Versions{Current: secret.Version{Text: secret.New("new"), Since: at}, Previous: secret.Version{Text: secret.New("old")}}
	require.OK(t, os.WriteFile(path, []byte(secret.FileText(two)), 0o600))
	got, err := secret.ReadFile(path)
	if err != nil || !got.Current.Text.Equal(two.Current.Text) || !got.Current.Since.Equal(at) || !got.Previous.Text.Equal(two.Previous.Text) || !got.Previous.Since.IsZero() {
		t.Errorf("%v %v, %v", got.Current.Since, got.Previous.Since, err)
	}
	require.OK(t, os.WriteFile(path, []byte("new yesterday\n"), 0o600))
	if _, err := secret.ReadFile(path); err == nil || strings.Contains(err.Error(), "new y") {
		t.Errorf("a malformed line: %v", err)
	}
	require.OK(t, os.Chmod(path, 0o640))
	if _, err := secret.ReadFile(path); err == nil || !strings.Contains(err.Error(), "other users") {
		t.Errorf("a file that others can read: %v", err)
	}
	if _, err := secret.ReadFile(t.TempDir()); err == nil {
		t.Error("ReadFile accepts a folder")
	}
}
