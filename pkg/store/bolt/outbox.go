package bolt

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/notify"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// The buckets of what people are to be told.
var (
	outbox    = []byte("outbox")     // id of an event → notify.Notice
	outboxIDs = []byte("outbox_ids") // id of an event → 8 bytes: until when it is known
)

// Outbox is a [notify.Outbox] in the file of the approvals.
type Outbox struct{ s *Store }

var _ notify.Outbox = Outbox{}

// Outbox returns what people are to be told.
func (s *Store) Outbox() Outbox { return Outbox{s} }

// Put implements [notify.Outbox].
func (x Outbox) Put(ctx context.Context, e notify.Event) (err error) {
	defer store.Wrap(&err, "put notice")
	now := x.s.o.Now()
	n, data, err := notify.NewNotice(e, now).Encode()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return err
	}
	return x.s.update(func(tx *bbolt.Tx) error {
		ids, open, id := tx.Bucket(outboxIDs), tx.Bucket(outbox), []byte(n.Event.ID)
		if until := ids.Get(id); bytes.Compare(until, timeKey(now)) > 0 {
			return nil
		}
		if err := sweep(tx, outboxIDs, func(_, until []byte) bool { return bytes.Compare(until, timeKey(now)) <= 0 }); err != nil {
			return err
		}
		held := 0
		_ = open.ForEach(func([]byte, []byte) error { held++; return nil }) // Stats does not count what this transaction wrote
		if held >= notify.MaxOpen {
			return notify.ErrFull
		}
		return errors.Join(ids.Put(id, timeKey(now.Add(notify.Remember))), open.Put(id, data))
	})
}

// Pending implements [notify.Outbox].
func (x Outbox) Pending(ctx context.Context) (list []notify.Notice, err error) {
	defer store.Wrap(&err, "list notices")
	err = x.s.view(ctx, func(tx *bbolt.Tx) error {
		return tx.Bucket(outbox).ForEach(func(id, data []byte) error {
			n, err := notify.DecodeNotice(data)
			n.Slot = string(id)
			list = append(list, n)
			return err
		})
	})
	notify.SortNotices(list)
	return list, err
}

// Change implements [notify.Outbox].
func (x Outbox) Change(ctx context.Context, n notify.Notice) (next notify.Notice, err error) {
	defer store.Wrap(&err, "change notice")
	next, data, err := n.Encode()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return notify.Notice{}, err
	}
	err = x.s.update(func(tx *bbolt.Tx) error {
		if err := stillOpen(tx, n); err != nil {
			return err
		}
		return tx.Bucket(outbox).Put([]byte(n.Slot), data)
	})
	if err != nil {
		return notify.Notice{}, err
	}
	return next, nil
}

// Remove implements [notify.Outbox].
func (x Outbox) Remove(ctx context.Context, n notify.Notice) (err error) {
	defer store.Wrap(&err, "remove notice")
	if err := ctx.Err(); err != nil {
		return err
	}
	return x.s.update(func(tx *bbolt.Tx) error {
		if err := stillOpen(tx, n); err != nil {
			return err
		}
		return tx.Bucket(outbox).Delete([]byte(n.Slot))
	})
}

// stillOpen returns [notify.ErrTaken] unless the notice is as n has it.
func stillOpen(tx *bbolt.Tx, n notify.Notice) error {
	data := tx.Bucket(outbox).Get([]byte(n.Slot))
	if data == nil {
		return notify.ErrTaken
	}
	held, err := notify.DecodeNotice(data)
	if err == nil && (held.Rev != n.Rev || held.Event.ID != n.Event.ID) {
		err = notify.ErrTaken
	}
	return err
}
