package bolt_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/request"
	"github.com/portcullis-mcp/portcullis/pkg/request/requesttest"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestRequests(t *testing.T) {
	requesttest.Run(t, func(t *testing.T) request.Store {
		return open(t, filepath.Join(t.TempDir(), "approvals.db"), nil)
	})
	t.Run("with a record and stops", func(t *testing.T) {
		requesttest.RunStanding(t, func(t *testing.T) requesttest.Standing {
			return open(t, filepath.Join(t.TempDir(), "approvals.db"), nil)
		})
	})
}

// asking stores a request for one call, with a decision and its use, and returns it.
func asking(t *testing.T, s *bolt.Store, id string, now time.Time) request.Request {
	t.Helper()
	agent := requesttest.Agent(id)
	a, r, _, err := request.Asked{Agent: agent}.Add(requesttest.OneCall("git", "push", `{"a":1}`), request.Granted{}, nil, now)
	require.OK(t, err)
	_, err = s.PutAsked(t.Context(), a, r.ID, json.RawMessage(`{"a":1}`))
	require.OK(t, err)
	_, err = s.PutGranted(t.Context(), request.Granted{Agent: agent, List: []request.Decision{request.Decide(r, request.Confirmed, 0, "kim", "", now)}})
	require.OK(t, err)
	_, err = s.Use(t.Context(), r.ID, now, now.Add(request.UseFor))
	require.OK(t, err)
	return r
}

// A program that is killed closes nothing. What it had stored, the next one has; above all that a
// confirmation is used.
func TestRequestsOutliveTheProgram(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "approvals.db"), time.Now()
	r := asking(t, open(t, path, nil), "ci", now)
	data, err := os.ReadFile(path) // as the disk has it while the first one runs
	require.OK(t, err)
	path = filepath.Join(t.TempDir(), "approvals.db")
	require.OK(t, os.WriteFile(path, data, 0o600))
	s, key := open(t, path, nil), requesttest.Agent("ci").Key()
	a, err := s.Asked(t.Context(), key)
	if _, is := a.Find(r.ID); err != nil || !is {
		t.Errorf("Asked = %+v, %v", a, err)
	}
	if g, err := s.Granted(t.Context(), key); err != nil || !g.Decided(r.ID) {
		t.Errorf("Granted = %+v, %v", g, err)
	}
	if used, err := s.Use(t.Context(), r.ID, now, now); !errors.Is(err, request.ErrUsed) || used.IsZero() {
		t.Errorf("Use = %v, %v; want ErrUsed", used, err)
	}
	if arguments, err := s.Arguments(t.Context(), key, r.ID); err != nil || string(arguments) != `{"a":1}` {
		t.Errorf("Arguments = %q, %v", arguments, err)
	}
}

// What is over leaves the file: as it is opened, and as a request is added an hour after the last time.
func TestRequestsAreSwept(t *testing.T) {
	const day = 24 * time.Hour
	path, now := filepath.Join(t.TempDir(), "approvals.db"), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	s := open(t, path, func() time.Time { return now })
	held := func(step string, keys, arguments, used int) {
		t.Helper()
		require.OK(t, s.Close())
		for bucket, want := range map[string]int{"request_keys": keys, "request_args": arguments, "requests_used": used} {
			got := 0
			require.OK(t, onBucket(path, bucket, func(b *bbolt.Bucket) error {
				return b.ForEach(func(_, _ []byte) error { got++; return nil })
			}))
			if got != want {
				t.Errorf("%s: %d in %s, want %d", step, got, bucket, want)
			}
		}
		s = open(t, path, func() time.Time { return now })
	}
	asking(t, s, "a", now)
	held("made", 1, 1, 1)
	now = now.Add(day)
	asking(t, s, "b", now)
	held("a day later", 2, 1, 2)
	now = now.Add(time.Minute) // the program has just been started, and swept
	asking(t, s, "c", now)
	held("a minute later", 3, 2, 3)
	now = now.Add(6 * day) // a week more than a use is needed its note is kept, as its decision is
	held("seven days after the first", 3, 2, 3)
	held("and opened anew", 3, 0, 3)
	now = now.Add(2*day - time.Minute)
	held("nine days after", 3, 0, 3)
	held("and opened anew", 2, 0, 0)
	now = now.Add(90 * day)
	asking(t, s, "d", now)
	held("long after", 1, 1, 1)
}

// A document that cannot be read, or that lies with another agent's key, is an error and not nothing; a
// pointer that cannot be read hides no other.
func TestDamagedRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "approvals.db")
	s := open(t, path, nil)
	one, two := asking(t, s, "a", time.Now()), asking(t, s, "b", time.Now())
	require.OK(t, s.Close())
	a, b := requesttest.Agent("a").Key(), requesttest.Agent("b").Key()
	for _, bucket := range []string{"asked", "granted"} {
		require.OK(t, onBucket(path, bucket, func(held *bbolt.Bucket) error {
			return errors.Join(held.Put([]byte(a), held.Get([]byte(b))), held.Put([]byte(b), []byte("{")))
		}))
	}
	for _, bucket := range []string{"request_keys", "requests_used"} {
		require.OK(t, onBucket(path, bucket, func(held *bbolt.Bucket) error { return held.Put([]byte(one.ID), []byte("{")) }))
	}
	s = open(t, path, nil)
	for _, key := range []string{a, b} {
		_, asked := s.Asked(t.Context(), key)
		_, granted := s.Granted(t.Context(), key)
		_, _, _, standing := s.Standing(t.Context(), one.Item(), key)
		for call, err := range map[string]error{"Asked": asked, "Granted": granted, "Standing": standing} {
			if err == nil || errors.Is(err, request.ErrNotFound) {
				t.Errorf("%s = %v, want an error", call, err)
			}
		}
	}
	_, err := s.PutGranted(t.Context(), request.Granted{Agent: requesttest.Agent("a")})
	if err == nil || errors.Is(err, request.ErrConflict) {
		t.Errorf("PutGranted over what cannot be read = %v", err)
	}
	if _, err := s.Use(t.Context(), one.ID, time.Now(), time.Now()); err == nil || errors.Is(err, request.ErrUsed) {
		t.Errorf("Use = %v, want that nothing is known", err)
	}
	list, all, err := s.Requests(t.Context())
	if err != nil || all || len(list) != 1 || list[0].Request != two.ID {
		t.Errorf("Requests = %+v, all: %v, %v; want %s, and that it is not all", list, all, err, two.ID)
	}
}

// A file of an earlier program has no buckets of requests.
func TestOpenFileWithoutRequests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "approvals.db")
	earlier(t, path, map[string]string{"a": "ada"})
	s := open(t, path, nil)
	r := asking(t, s, "ci", time.Now())
	if list, all, err := s.Requests(t.Context()); err != nil || !all || len(list) != 1 || list[0].Request != r.ID {
		t.Errorf("Requests = %+v, all: %v, %v", list, all, err)
	}
	if len(decisions(t, s)) != 1 {
		t.Error("what the earlier program knew is not there")
	}
}
