package document_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

var errOther = errors.New("another error")

func TestRetry(t *testing.T) {
	conflict := fmt.Errorf("put: %w", &document.ConflictError{Key: document.Key{Part: "p", ID: "i"}})
	for name, test := range map[string]struct {
		conflicts int // before end
		end, want error
		calls     int
		longest   time.Duration
	}{
		"without a conflict it does not wait": {0, nil, nil, 1, 0},
		"another error ends it":               {0, errOther, errOther, 1, 0},
		"another error ends it later":         {3, errOther, errOther, 4, 14 * time.Millisecond},
		"it succeeds when others are done":    {5, nil, nil, 6, 62 * time.Millisecond},
		"it gives up, without a last wait":    {100, nil, document.ErrConflict, 32, 2626 * time.Millisecond},
		"the last call may be the good one":   {31, nil, nil, 32, 2626 * time.Millisecond},
		"a conflict in the last call remains": {32, nil, document.ErrConflict, 32, 2626 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, calls := time.Now(), 0
				got, err := document.Retry(t.Context(), document.ErrConflict, func() (int, error) {
					if calls++; calls <= test.conflicts {
						return calls, conflict
					}
					return calls, test.end
				})
				if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
					t.Errorf("error = %v, want %v", err, test.want)
				}
				if calls != test.calls || got != calls {
					t.Errorf("%d calls, and the value of call %d; want %d", calls, got, test.calls)
				}
				if took := time.Since(began); took > test.longest {
					t.Errorf("Retry waited %v, want at most %v", took, test.longest)
				}
			})
		})
	}
}

func TestRetryWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := document.Retry(t.Context(), errOther, func() (int, error) { return 0, errOther })
		if took := time.Since(began); !errors.Is(err, errOther) || took < 500*time.Millisecond {
			t.Errorf("Retry gave up after %v with %v, want a longer wait for the other writers", took, err)
		}
	})
}

func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		_, err := document.Retry(ctx, errOther, func() (int, error) {
			if calls++; calls == 3 {
				cancel()
			}
			return 0, errOther
		})
		if !errors.Is(err, context.Canceled) || calls != 3 {
			t.Errorf("%d calls, %v; want 3 and %v", calls, err, context.Canceled)
		}
	})
}

func TestStore(t *testing.T) {
	documenttest.Run(t, func(_ *testing.T, now func() time.Time) document.Store {
		return &documenttest.Store{Now: now}
	})
}

// Replace stores a document at any revision, even if another writer is faster.
func TestReplace(t *testing.T) {
	var docs documenttest.Store
	d := document.Doc{Key: document.Key{Part: "BASE#a", ID: "tools"}, Data: []byte("new")}
	raced, reads := 0, 0
	docs.OnDocs = func(context.Context, []document.Key) error { reads++; return nil }
	require.OK(t, document.Replace(t.Context(), &docs, d))
	if reads != 0 {
		t.Errorf("a first write made %d reads", reads)
	}
	docs.OnPut = func(ctx context.Context, _ []document.Doc) (bool, error) {
		if raced++; raced > 3 {
			return false, nil
		}
		held, err := document.Get(ctx, &docs, d.Key)
		require.OK(t, err)
		hook := docs.OnPut
		docs.OnPut = nil
		defer func() { docs.OnPut = hook }()
		held.Data = []byte("of another writer")
		return false, docs.PutDocs(ctx, held)
	}
	d.Data = []byte("newer")
	require.OK(t, document.Replace(t.Context(), &docs, d))
	if got, err := document.Get(t.Context(), &docs, d.Key); err != nil || string(got.Data) != "newer" || got.Rev != 5 {
		t.Errorf("Get = rev %d, %q, %v", got.Rev, got.Data, err)
	}
	docs.OnPut, docs.OnDocs = nil, func(context.Context, []document.Key) error { return errOther }
	if err := document.Replace(t.Context(), &docs, d); !errors.Is(err, errOther) {
		t.Errorf("Replace of an unreadable document = %v", err)
	}
}

func TestWrap(t *testing.T) {
	own := errors.New("it changed")
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"no error": {}, "another error": {errOther, `get "x": another error`}, "a conflict": {&document.ConflictError{}, `get "x": it changed`},
	} {
		err := tt.err
		document.Wrap(&err, own, "get %q", "x")
		if (err != nil) != (tt.want != "") || err != nil && err.Error() != tt.want {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if isOwn := errors.Is(err, own); isOwn != (name == "a conflict") || errors.Is(err, document.ErrConflict) {
			t.Errorf("%s: %v wraps the domain's error: %t; only a conflict may", name, err, isOwn)
		}
	}
}
