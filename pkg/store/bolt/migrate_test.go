package bolt_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// earlier writes a file as an earlier program did, which had all records in its feed. The records
// have last_seen. The file has no form, no decided_at and no decisions. by maps the name of each
// tool to the person who decided about it last.
func earlier(t *testing.T, path string, by map[string]string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	require.OK(t, err)
	err = db.Update(func(tx *bbolt.Tx) error {
		records, err := tx.CreateBucketIfNotExists([]byte("records"))
		if err != nil {
			return err
		}
		feed, err := tx.CreateBucketIfNotExists([]byte("feed"))
		if err != nil {
			return err
		}
		n := 0
		for name, actor := range by {
			at := decidedAt(name).Format(time.RFC3339Nano)
			data := fmt.Sprintf(`{"server":"s","tool":%q,"state":"approved","disabled":false,"approved_hash":"h","current_hash":"h","by":%q,"at":%q,`+
				`"first_seen":%q,"last_seen":%q,"rev":3,"updated_at":%q,"approved":"e30=","current":"e30="}`, name, actor, at, at, at, at)
			n++
			key := binary.BigEndian.AppendUint64(nil, uint64(1_700_000_000_000_000_000+n))
			if err := records.Put([]byte("s:"+name), []byte(data)); err != nil {
				return err
			}
			if err := feed.Put(key, []byte("s:"+name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = db.Close()
	}
	require.OK(t, err)
}

// decidedAt returns the time of the decision about the tool with this name: a, then b, then c.
func decidedAt(name string) time.Time {
	return time.Date(2026, 1, 2, 3, int(name[0]), 5, 6, time.UTC)
}

func decisions(t *testing.T, s approval.Store) []string {
	t.Helper()
	ds, err := approvaltest.AllChanges(t.Context(), s, time.Time{})
	require.OK(t, err)
	var got []string
	for _, d := range ds {
		got = append(got, fmt.Sprintf("%s at %s, rev %d", d.ID.Name, d.DecidedAt.Format(time.RFC3339Nano), d.Rev))
	}
	return got
}

func TestOpenEarlierFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "approvals.db")
	earlier(t, path, map[string]string{"c": "ada", "a": "bob", "b": approval.Sync, "d": ""})
	want := []string{"a at 2026-01-02T04:37:05.000000006Z, rev 3", "c at 2026-01-02T04:39:05.000000006Z, rev 3"}
	for n := range 2 { // the second time, the file has the form of this program
		s := open(t, path, nil)
		if d := cmp.Diff(want, decisions(t, s)); d != "" {
			t.Errorf("decisions of people (-want +got):\n%s", d)
		}
		want[1] = fmt.Sprintf("c at 2026-01-02T04:39:05.000000006Z, rev %d", 4+n)
		r, err := s.Get(t.Context(), tool.ID{Server: "s", Name: "c"})
		if err != nil || string(r.Approved) != "{}" || r.By != "ada" || !r.DecidedAt.Equal(r.At) {
			t.Errorf("record = %+v, %v", r, err)
		}
		if next, err := s.Put(t.Context(), r, nil); err != nil || len(next.Unknown) != 0 {
			t.Errorf("Put = %+v, %v, want it without last_seen", next, err)
		}
		require.OK(t, s.Close())
	}
	// The earlier program runs again. It writes the records of the tools a and b without the
	// members that it does not know, and it writes its own feed.
	earlier(t, path, map[string]string{"a": approval.Sync, "b": "ada"})
	want = []string{"b at 2026-01-02T04:38:05.000000006Z, rev 3", want[1]}
	if d := cmp.Diff(want, decisions(t, open(t, path, nil))); d != "" {
		t.Errorf("decisions after the earlier program wrote again (-want +got):\n%s", d)
	}
}
