package request_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request/requesttest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// asking returns a change that adds a request.
func asking(r request.Request) func(request.List) (request.List, string, json.RawMessage, error) {
	return func(a request.List) (request.List, string, json.RawMessage, error) {
		next, held, added, err := a.Add(r, request.Granted{}, nil, time.Now())
		if !added {
			return a, "", nil, err
		}
		return next, held.ID, nil, err
	}
}

// ChangeList repeats a change if another writer was first, but not forever. It does not store a
// change without effect.
func TestChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conflicts, writes := 5, 0
		var docs documenttest.Store
		docs.OnPut = func(_ context.Context, put []document.Doc) (bool, error) {
			if writes++; writes <= conflicts {
				return false, &document.ConflictError{Key: put[0].Key}
			}
			return false, nil
		}
		m := request.NewStore(&docs, nil)
		began := time.Now()
		a, err := request.ChangeList(t.Context(), m, ci, asking(requesttest.To("git", "push")))
		if err != nil || writes != 6 || len(a.List) != 1 || a.Agent != ci || time.Since(began) > time.Second {
			t.Errorf("ChangeList = %+v, %v after %d writes and %v", a, err, writes, time.Since(began))
		}
		if a, err = request.ChangeList(t.Context(), m, ci, asking(requesttest.To("git", "push"))); err != nil || writes != 6 || a.Rev != 1 || len(a.List) != 1 {
			t.Errorf("a change without effect = %+v, %v after %d writes", a, err, writes)
		}
		if g, err := m.ChangeGranted(t.Context(), ci, func(g request.Granted) (request.Granted, error) { return g, nil }); err != nil || g.Rev != 0 {
			t.Errorf("a change without effect = %+v, %v", g, err)
		}
		conflicts, writes = 1000, 0
		if _, err = request.ChangeList(t.Context(), m, ci, asking(requesttest.To("git", "pull"))); !errors.Is(err, request.ErrConflict) || writes != 32 || time.Since(began) > 10*time.Second {
			t.Errorf("ChangeList = %v after %d writes and %v, want ErrConflict after 32", err, writes, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err = request.ChangeList(ctx, m, ci, asking(requesttest.To("git", "pull"))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ChangeList = %v after its deadline", err)
		}
	})
}

// An unreadable document stays as it is. The error of a change reaches the caller.
func TestChangeFails(t *testing.T) {
	down, no := errors.New("no answer"), errors.New("no")
	var docs documenttest.Store
	m := request.NewStore(&docs, nil)
	refuse := func(a request.List) (request.List, string, json.RawMessage, error) { return a, "", nil, no }
	if a, err := request.ChangeList(t.Context(), m, ci, refuse); !errors.Is(err, no) || a.Rev != 0 {
		t.Errorf("ChangeList = %+v, %v", a, err)
	}
	docs.OnDocs = func(context.Context, []document.Key) error { return down }
	if _, err := request.ChangeList(t.Context(), m, ci, asking(requesttest.To("git", "push"))); !errors.Is(err, down) {
		t.Errorf("ChangeList of an unreadable document = %v", err)
	}
	_, err := m.ChangeGranted(t.Context(), ci, func(g request.Granted) (request.Granted, error) {
		t.Error("the change gets an unreadable document")
		return g, nil
	})
	if !errors.Is(err, down) {
		t.Errorf("ChangeGranted of an unreadable document = %v", err)
	}
	docs.OnDocs = nil
	list, all, err := m.Requests(t.Context())
	require.OK(t, err)
	if len(list) != 0 || !all {
		t.Errorf("something was stored: %+v", list)
	}
}
