package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// addLine writes an audit line, and removes lines of its server that are too old.
func (s *Store) addLine(tx *bbolt.Tx, e approval.Entry) error {
	lines, err := tx.Bucket(audit).CreateBucketIfNotExists([]byte(e.Server))
	if err != nil {
		return err
	}
	if err := putJSON(lines, auditKey(e.Cursor()), e); err != nil {
		return err
	}
	return s.trim(lines)
}

// trimAll removes every audit line that is too old.
func (s *Store) trimAll(tx *bbolt.Tx) error {
	all := tx.Bucket(audit)
	return errors.Join(
		all.ForEachBucket(func(server []byte) error { return s.trim(all.Bucket(server)) }),
		s.trimEvents(tx.Bucket(events)),
	)
}

// trim removes the lines of a server that are too old. The first line is the oldest.
func (s *Store) trim(lines *bbolt.Bucket) error {
	if s.o.KeepAudit <= 0 {
		return nil
	}
	first := s.o.Now().Add(-s.o.KeepAudit)
	c := lines.Cursor()
	for key, data := c.First(); key != nil; key, data = c.First() {
		if !writtenAt(key).Before(first) {
			return nil
		}
		var e approval.Entry
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		// the key of an old program's line is a number, so only At has the time
		if !e.At.Before(first) {
			return nil
		}
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// writtenAt returns when the line with the key was written.
func writtenAt(key []byte) time.Time {
	return time.Unix(0, int64(binary.BigEndian.Uint64(key))).UTC()
}

// auditKey returns the key of the line at a cursor. Keys sort by time, the oldest first. The keys
// of an earlier program were the numbers 1, 2, 3 and so on, so its lines sort before all others.
func auditKey(p approval.Cursor) []byte { return append(timeKey(p.Written), p.Tool...) }

// Audit implements [approval.Store].
func (s *Store) Audit(ctx context.Context, server string, after approval.Cursor, limit int) (lines []approval.Entry, err error) {
	defer store.Wrap(&err, "audit of %q", server)
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		b := tx.Bucket(audit).Bucket([]byte(server))
		if b == nil {
			return nil
		}
		c := b.Cursor()
		key, data := c.Last()
		if last := auditKey(after); after != (approval.Cursor{}) && bytes.Compare(key, last) >= 0 {
			c.Seek(last) // the first key that is last or after it; there is such a key
			key, data = c.Prev()
		}
		for ; key != nil && len(lines) < limit; key, data = c.Prev() {
			var e approval.Entry
			if err := json.Unmarshal(data, &e); err != nil {
				return err
			}
			e.Written = writtenAt(key)
			lines = append(lines, e)
		}
		return nil
	})
	return lines, err
}
