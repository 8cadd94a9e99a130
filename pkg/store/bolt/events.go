package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"

	"go.etcd.io/bbolt"

	lines "github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// More buckets of the file.
var (
	events      = []byte("deeds")       // 8 bytes of nanoseconds, 8 of a number → Line
	eventStates = []byte("deed_states") // subject of a change → the state after the change
)

const (
	eventKeySize  = timeSize + 8
	maxEventsRead = 5000 // maximum number of lines that one read examines
)

// Events is an audit.Events in the file of the approvals.
type Events struct{ s *Store }

var _ lines.Events = Events{}

// Events returns the events of the file.
func (s *Store) Events() Events { return Events{s} }

// PutEvent implements audit.Events.
func (x Events) PutEvent(ctx context.Context, l lines.Line) (err error) {
	defer store.Wrap(&err, "put event %q", l.Action)
	if err := cmp.Or(ctx.Err(), lines.CheckEvent(l)); err != nil {
		return err
	}
	return x.s.update(func(tx *bbolt.Tx) error { return x.s.putEvent(tx, l) })
}

// PutChange implements audit.Events.
func (x Events) PutChange(ctx context.Context, l lines.Line, state string) (changed bool, err error) {
	defer store.Wrap(&err, "put change of %q", l.Subject)
	if err := cmp.Or(ctx.Err(), lines.CheckEvent(l)); err != nil {
		return false, err
	}
	err = x.s.update(func(tx *bbolt.Tx) error { // update may call this again
		b, subject := tx.Bucket(eventStates), []byte(l.Subject)
		held := b.Get(subject)
		if changed = held == nil || string(held) != state; !changed {
			return nil
		}
		if err := b.Put(subject, []byte(state)); err != nil {
			return err
		}
		return x.s.putEvent(tx, l)
	})
	return changed && err == nil, err
}

// putEvent writes a line, and removes those that are too old.
func (s *Store) putEvent(tx *bbolt.Tx, l lines.Line) error {
	b := tx.Bucket(events)
	n, err := b.NextSequence()
	if err != nil {
		return err
	}
	if err := putJSON(b, binary.BigEndian.AppendUint64(timeKey(l.Time), n), l); err != nil {
		return err
	}
	return s.trimEvents(b)
}

// trimEvents removes the events that are too old.
func (s *Store) trimEvents(b *bbolt.Bucket) error {
	if s.o.KeepAudit <= 0 {
		return nil
	}
	first := timeKey(s.o.Now().Add(-s.o.KeepAudit))
	c := b.Cursor()
	for key, _ := c.First(); key != nil && bytes.Compare(key[:timeSize], first) < 0; key, _ = c.First() {
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// Events implements audit.Events.
func (x Events) Events(ctx context.Context, f lines.Filter, after lines.Cursor, limit int) (page []lines.Line, next lines.Cursor, err error) {
	defer store.Wrap(&err, "read events")
	end, err := hex.DecodeString(string(after)) // the first key that is newer than the page
	if err != nil || after != "" && len(end) != eventKeySize {
		return nil, "", lines.ErrCursor
	}
	if until := timeKey(f.Until); !f.Until.IsZero() && (after == "" || bytes.Compare(until, end) < 0) {
		end = until
	}
	since := timeKey(f.Since)
	err = x.s.view(ctx, func(tx *bbolt.Tx) error {
		page, next = nil, ""
		c := tx.Bucket(events).Cursor()
		key, data := newest(c, end)
		for n := 0; key != nil && bytes.Compare(key[:timeSize], since) >= 0; n++ {
			if len(page) == limit || n == maxEventsRead {
				return nil
			}
			var l lines.Line
			if err := json.Unmarshal(data, &l); err != nil {
				return err
			}
			l.Cursor = lines.Cursor(hex.EncodeToString(key))
			if next = l.Cursor; f.Wants(l) {
				page = append(page, l)
			}
			key, data = c.Prev()
		}
		next = ""
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return page, next, nil
}

// newest returns the last entry before end, or the last entry of the bucket if end is empty.
func newest(c *bbolt.Cursor, end []byte) (key, data []byte) {
	if len(end) == 0 {
		return c.Last()
	}
	if key, _ := c.Seek(end); key == nil {
		return c.Last()
	}
	return c.Prev()
}
