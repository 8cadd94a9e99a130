package bolt_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/login"
	"github.com/portcullis-mcp/portcullis/pkg/login/logintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestLogins(t *testing.T) {
	logintest.Run(t, func(t *testing.T) login.Store {
		return open(t, filepath.Join(t.TempDir(), "approvals.db"), nil).Logins()
	})
}

// What has expired, or cannot be read, leaves the file when the next person signs in.
func TestLoginsAreSwept(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "approvals.db"), time.Now()
	s := open(t, path, func() time.Time { return now })
	put := func(id string, life time.Duration) {
		_, err := s.Logins().Put(t.Context(), login.Session{ID: strings.Repeat(id, 64), Actor: "kim", Expires: now.Add(life)})
		require.OK(t, err)
	}
	put("1", time.Minute)
	put("2", time.Hour)
	require.OK(t, s.Close())
	require.OK(t, onBucket(path, "logins", func(b *bbolt.Bucket) error { return b.Put([]byte("3"), []byte("{")) }))
	s = open(t, path, func() time.Time { return now })
	if all, err := s.Logins().List(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("List = %+v, %v; want the two that can be read, as nobody could sign in otherwise", all, err)
	}
	if _, err := s.Logins().Get(t.Context(), "3"); err == nil || errors.Is(err, login.ErrNotFound) {
		t.Errorf("Get of what cannot be read = %v", err)
	}
	now = now.Add(time.Minute)
	put("4", time.Hour)
	require.OK(t, s.Close())
	var left []string
	require.OK(t, onBucket(path, "logins", func(b *bbolt.Bucket) error {
		return b.ForEach(func(id, _ []byte) error { left = append(left, string(id[:1])); return nil })
	}))
	if got := strings.Join(left, ""); got != "24" {
		t.Errorf("the file holds %q, want 24", got)
	}
}

// onBucket works on a bucket of a file that is closed.
func onBucket(path, name string, do func(*bbolt.Bucket) error) error {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error { return do(tx.Bucket([]byte(name))) })
	return errors.Join(err, db.Close())
}
