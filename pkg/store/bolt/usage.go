package bolt

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// The buckets of the usage: 8 bytes of seconds since 1970 → usage.Tally.
var (
	usageMinutes = []byte("usage_minutes")
	usageHours   = []byte("usage_hours")
)

// Usage is a [usage.Store] in the file of the approvals.
type Usage struct{ s *Store }

var _ usage.Store = Usage{}

// Usage returns the usage in the file.
func (s *Store) Usage() Usage { return Usage{s} }

// Add implements [usage.Store]. It replaces stored tallies that cannot be read.
func (x Usage) Add(ctx context.Context, minutes map[time.Time]*usage.Tally) (err error) {
	defer store.Wrap(&err, "add usage")
	if err := ctx.Err(); err != nil {
		return err
	}
	order := slices.SortedFunc(maps.Keys(minutes), time.Time.Compare)
	hours := map[time.Time]*usage.Tally{}
	for _, minute := range order {
		hour := minute.Truncate(time.Hour)
		if hours[hour] == nil {
			hours[hour] = &usage.Tally{}
		}
		hours[hour].Add(minutes[minute])
	}
	return x.s.update(func(tx *bbolt.Tx) error {
		if err := addTallies(tx.Bucket(usageMinutes), minutes, usage.KeepMinutes); err != nil {
			return err
		}
		return addTallies(tx.Bucket(usageHours), hours, usage.KeepHours)
	})
}

// addTallies adds tallies to a bucket. If one of them is new, addTallies removes the oldest tallies
// until keep are left.
func addTallies(b *bbolt.Bucket, tallies map[time.Time]*usage.Tally, keep int) error {
	grown := false
	for start, t := range tallies {
		key, sum := tallyKey(start), usage.Tally{}
		if kept := b.Get(key); kept == nil || sum.UnmarshalBinary(kept) != nil {
			grown = true
		}
		sum.Add(t)
		data, err := sum.AppendBinary(nil)
		if err != nil {
			return err
		}
		if err := b.Put(key, data); err != nil {
			return err
		}
	}
	if !grown {
		return nil
	}
	c, left := b.Cursor(), keep
	var old [][]byte // a bucket must not change during an iteration
	for key, _ := c.Last(); key != nil; key, _ = c.Prev() {
		if left--; left < 0 {
			old = append(old, key)
		}
	}
	for _, key := range old {
		if err := b.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// Each implements [usage.Store].
func (x Usage) Each(ctx context.Context, u usage.Unit, from, to time.Time, do func(time.Time, *usage.Tally)) (err error) {
	defer store.Wrap(&err, "read usage")
	name := usageMinutes
	if u == usage.Hour {
		name = usageHours
	}
	return x.s.view(ctx, func(tx *bbolt.Tx) error {
		c, end := tx.Bucket(name).Cursor(), string(tallyKey(to))
		for key, data := c.Seek(tallyKey(from)); key != nil && string(key) < end; key, data = c.Next() {
			var t usage.Tally
			start := time.Unix(int64(binary.BigEndian.Uint64(key)), 0).UTC()
			if err := t.UnmarshalBinary(data); err != nil {
				return fmt.Errorf("%s: %w", start.Format(time.RFC3339), err)
			}
			do(start, &t)
		}
		return nil
	})
}

// tallyKey returns a key that sorts like t, for times from 1970 on.
func tallyKey(t time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(max(t.Unix(), 0)))
}
