package connection_test

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/oauth"
	"github.com/portcullis-mcp/portcullis/test/issuertest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A step is where a process is killed during a refresh.
type step int

const (
	leaseStored step = iota + 1 // the lease is stored, before the request to the issuer
	answered                    // the issuer has answered, before any write
	beforeWrite                 // before the write of the token
	afterWrite
)

// A victim is a process that is killed at a step: its goroutine ends there. It uses the same store
// and issuer as other processes.
type victim struct {
	document.Store
	at step
}

func (v victim) dieAt(at step) {
	if v.at == at {
		runtime.Goexit()
	}
}

// PutDocs implements [document.Store].
func (v victim) PutDocs(ctx context.Context, docs ...document.Doc) error {
	var s struct{ Holder string }
	isWrite := json.Unmarshal(docs[0].Data, &s) == nil && s.Holder == ""
	if isWrite {
		v.dieAt(beforeWrite)
	}
	err := v.Store.PutDocs(ctx, docs...)
	if isWrite && err == nil {
		v.dieAt(afterWrite)
	}
	return err
}

// Do implements [oauth.Doer].
func (v victim) Do(req *http.Request) (*http.Response, error) {
	v.dieAt(leaseStored)
	resp, err := http.DefaultClient.Do(req)
	if err == nil && v.at == answered {
		_ = resp.Body.Close()
		v.dieAt(answered)
	}
	return resp, err
}

// TestKilledInRefresh kills a process at each step of a refresh. At worst, a person must sign in
// again: if the issuer has replaced the refresh token, and the new token was not stored. Other
// processes still use the valid token, and the connection's state is correct.
func TestKilledInRefresh(t *testing.T) {
	for name, c := range map[string]struct {
		at        step
		habits    issuertest.Habits
		refreshed int // by the issuer, at the end
		ended     bool
	}{
		"lease_stored":             {leaseStored, issuertest.Habits{}, 1, false},
		"answered":                 {answered, issuertest.Habits{}, 1, true},
		"before_write":             {beforeWrite, issuertest.Habits{}, 1, true},
		"after_write":              {afterWrite, issuertest.Habits{}, 1, false},
		"answered_no_rotation":     {answered, issuertest.Habits{KeepRefresh: true}, 2, false},
		"before_write_no_rotation": {beforeWrite, issuertest.Habits{KeepRefresh: true}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.habits)
			s := f.service()
			f.signIn(t, s)
			f.wait(56 * time.Minute) // due, and valid
			f.kill(c.at)

			if !f.accepted(t, f.token(t, f.service())) {
				t.Error("the valid token was not used while the dead process has the lease")
			}
			f.wait(21 * time.Second) // the lease ends
			text, err := s.Token(t.Context(), f.server)
			hasEnded := reasonOf(err) == string(oauth.InvalidGrant)
			if hasEnded != c.ended || !c.ended && (err != nil || !f.accepted(t, text.Reveal())) {
				t.Errorf("after the lease: %v", err)
			}
			if n := f.issuer.Count(&f.issuer.Refreshed); n != c.refreshed {
				t.Errorf("%d refreshes", n)
			}
			st, _, err := f.service().State(t.Context(), f.server)
			require.OK(t, err)
			if (st.Status == connection.Ended) != c.ended {
				t.Errorf("state %+v", st)
			}
			if c.ended {
				f.signIn(t, s)
			}
			f.wait(time.Hour)
			if !f.accepted(t, f.token(t, f.service())) {
				t.Error("the next refresh failed")
			}
		})
	}
}

// kill starts a process that refreshes the token and is killed at a step.
func (f *fixture) kill(at step) {
	v := victim{f.docs, at}
	s := connection.New(connection.Options{
		Docs: v, HTTP: v, Table: f.table, Now: f.clock,
		Keys: &connection.LocalKey{Read: func() ([]byte, error) { return f.key, nil }},
	})
	var killed sync.WaitGroup
	killed.Go(func() { _, _ = s.Token(context.Background(), f.server) })
	killed.Wait()
}
