package state_test

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/finding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// byOtherRules returns the snapshot with another version of the rules for findings. The other
// content is the same. catalog/format.go describes the layout.
func byOtherRules(t *testing.T, s *catalog.Snapshot) *catalog.Snapshot {
	t.Helper()
	const atSum, atCounts, atRules = 8, 12, 36
	blob := append([]byte{}, s.Encode()...)
	if got := binary.LittleEndian.Uint32(blob[atRules:]); got != finding.Version {
		t.Fatalf("version of the rules in the snapshot = %d, want %d", got, finding.Version)
	}
	binary.LittleEndian.PutUint32(blob[atRules:], finding.Version+1)
	binary.LittleEndian.PutUint32(blob[atSum:], crc32.Checksum(blob[atCounts:], crc32.MakeTable(crc32.Castagnoli)))
	other, err := catalog.Decode(blob)
	require.OK(t, err)
	return other
}

// If severe findings wait, and the catalog does not know which tools have one, only tools that
// people approved are callable.
func TestLoaderFindingsUnknown(t *testing.T) {
	for _, test := range []struct {
		review string
		want   map[string]lock.Status
	}{
		{`"review": {"findings": "show"}`, map[string]lock.Status{"files:read": lock.None, "files:write": lock.None}},
		{`"review": {"findings": "wait"}`, map[string]lock.Status{"files:read": lock.None, "files:write": lock.PendingApproval}},
	} {
		h := newFixture(t)
		h.ConfigureOnly(map[string]string{"files": ""}, test.review)
		h.observe("files:read", "Reads.", true)
		h.observe("files:write", "Writes.", true)
		h.Decide("files:read", "approve")
		h.Clock.Wait(time.Minute)
		snap := h.publish(listing{"files": {"read": "Reads.", "write": "Writes."}})
		for _, known := range []bool{true, false} {
			if !known {
				cur := snap.Current()
				cur.StoredAt = time.Time{} // the snapshot is another object
				_, err := catalog.Save(t.Context(), h.Objects, byOtherRules(t, snap), cur, "")
				require.OK(t, err)
				h.Clock.Wait(time.Minute)
			}
			for id, got := range h.statuses() {
				want := test.want[id]
				if known {
					want = lock.None
				}
				if got != want || h.callStatuses()[id] != want {
					t.Errorf("%s, known %v: %s is %q, called %q, want %q", test.review, known, id, got, h.callStatuses()[id], want)
				}
			}
		}
	}
}
