// Package bolt keeps approvals, documents and the events of people in one bbolt file, for a gateway
// that runs on one machine.
//
// Only one process at a time can open a bbolt file for writing. It runs one write transaction at a
// time.
package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

const (
	// lockWait is the default time for which Open waits for another process to close the file.
	// lockPoll is the time between two attempts.
	lockWait = 2 * time.Second
	lockPoll = 20 * time.Millisecond
)

// ErrHeld says that another process has the file open.
var ErrHeld = errors.New("another process holds the file; stop that process first, or use another folder")

// A Store is an [approval.Store] and a [document.Store] in one file.
type Store struct {
	guard
	o       store.Options
	swept   time.Time    // when expired documents were last removed; only write transactions use it
	wrote   writeCounter // counts the records that were written since the file was opened
	scratch string       // folder of a copy that is removed with Close; "": none
	isCopy  bool         // for [Store.RestoreBackup]; converts only the restored parts
	before  string       // path of the copy that was made before a conversion; "": none
}

var (
	_ approval.Store   = (*Store)(nil)
	_ approval.Batcher = (*Store)(nil)
)

// The buckets of the file.
var (
	records   = []byte("records")   // "server:tool" → stored
	decisions = []byte("decisions") // DecidedAt, 8 bytes of nanoseconds, and "server:tool" → nothing

	// The same for prompts and resources, by their ids. Earlier programs do not read these buckets.
	itemRecords   = []byte("item_records")
	itemDecisions = []byte("item_decisions")

	audit = []byte("audit") // server → 8 bytes of nanoseconds, tool → Entry
)

// stored is the JSON form of a record. json.Marshal compacts a RawMessage; as []byte the
// definitions stay byte-exact.
type stored struct {
	approval.Record
	Approved     []byte `json:"approved,omitempty"`
	Current      []byte `json:"current,omitempty"`
	UndoApproved []byte `json:"undo_approved,omitempty"`
}

// Open opens or creates the file at path, with the default options if o is nil. If another process
// has the file open, Open returns [ErrHeld] after two seconds. If the file is damaged or empty,
// Open returns [ErrDamaged] and does not change the file. Open converts a file of an earlier
// version, after it copied the file to path.before-documents. If there is no room for the copy, or
// a document cannot be converted, Open does not change the file.
func Open(path string, o *store.Options) (_ *Store, err error) {
	s := &Store{guard: guard{path: path}, o: o.OrDefault()}
	defer store.Wrap(&err, "open approvals %q", path)
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, nil
}

// open opens the file, and prepares it.
func (s *Store) open() error {
	wait := cmp.Or(s.o.LockWait, lockWait)
	err := begin(s.path)
	if err == nil {
		err = intact(s.path, wait)
	}
	if err == nil {
		err = s.run(func() (err error) {
			s.db, err = bbolt.Open(s.path, 0o600, &bbolt.Options{Timeout: wait})
			return err
		})
	}
	if errors.Is(err, bolterrors.ErrTimeout) {
		return ErrHeld
	}
	if err != nil {
		return err
	}
	sweepCopies(s.path) // no other process has the file open
	if s.scratch == "" {
		err = s.keepBefore()
	}
	if err == nil {
		err = s.prepare()
	}
	if capacity.IsDiskFull(err) && s.isPrepared() { // a prepared file can be read without a write
		err = nil
	}
	if err != nil {
		_ = s.close() // the first error counts
	}
	return err
}

// buckets are the buckets of a file that this program can read.
var buckets = [][]byte{
	records, decisions, itemRecords, itemDecisions, audit, documents, events, eventStates,
	usageMinutes, usageHours,
}

// prepare makes the missing buckets, converts the documents of an earlier version, and removes
// expired data.
func (s *Store) prepare() error {
	err := s.update(func(tx *bbolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		if err := migrate(tx); err != nil {
			return err
		}
		if err := s.convert(tx); err != nil {
			return err
		}
		return errors.Join(s.trimAll(tx), s.sweepDocs(tx))
	})
	if bad, ok := errors.AsType[*unconvertedError](err); ok {
		return fmt.Errorf("%w: %w", bad, ErrUnconverted)
	}
	return err
}

// isPrepared reports whether this version of the program wrote the file, so that it needs no
// conversion.
func (s *Store) isPrepared() bool {
	missing := func(tx *bbolt.Tx) func([]byte) bool {
		return func(name []byte) bool { return tx.Bucket(name) == nil }
	}
	return s.view(context.Background(), func(tx *bbolt.Tx) error {
		if slices.ContainsFunc(buckets, missing(tx)) || tx.Bucket(feed) != nil || hasOldForm(tx) {
			return ErrDamaged
		}
		return nil
	}) == nil
}

// Close closes the file. It waits for running transactions.
func (s *Store) Close() error {
	err := s.close()
	if s.scratch != "" {
		err = errors.Join(err, os.RemoveAll(s.scratch))
	}
	return err
}

// Get implements [approval.Store].
func (s *Store) Get(ctx context.Context, id tool.ID) (r approval.Record, err error) {
	defer store.Wrap(&err, "get approval %q", id)
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		r, err = get(tx, id)
		return err
	})
	return r, err
}

// Peek implements [approval.Store].
func (s *Store) Peek(ctx context.Context, id tool.ID) (approval.Record, error) { return s.Get(ctx, id) }

// Records implements [approval.Store].
func (s *Store) Records(ctx context.Context, server string) (all []approval.Record, err error) {
	defer store.Wrap(&err, "approvals of %q", server)
	prefix := []byte(tool.ID{Server: server}.String())
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		for _, bucket := range [][]byte{records, itemRecords} {
			c := tx.Bucket(bucket).Cursor()
			for id, data := c.Seek(prefix); bytes.HasPrefix(id, prefix); id, data = c.Next() {
				s.read += len(data)
				r, err := decode(data)
				if err != nil {
					return fmt.Errorf("%q: %w", id, err)
				}
				all = append(all, r)
			}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b approval.Record) int { return a.ID().Compare(b.ID()) })
	return all, err
}

// Changes implements [approval.Store].
func (s *Store) Changes(ctx context.Context, since time.Time, after string) (decided []approval.Decision, next string, err error) {
	defer store.Wrap(&err, "changes of approvals")
	if after != "" { // there is one page
		return nil, "", fmt.Errorf("no page after %q", after)
	}
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		for _, of := range [][2][]byte{{decisions, records}, {itemDecisions, itemRecords}} {
			c, held := tx.Bucket(of[0]).Cursor(), tx.Bucket(of[1])
			for key, _ := c.Seek(timeKey(since)); key != nil; key, _ = c.Next() {
				r, err := find(held, key[timeSize:])
				if err != nil {
					return fmt.Errorf("%q: %w", key[timeSize:], err)
				}
				decided = append(decided, r.Decision())
			}
		}
		return nil
	})
	slices.SortStableFunc(decided, func(a, b approval.Decision) int { return a.DecidedAt.Compare(b.DecidedAt) })
	return decided, "", err
}

// Put implements [approval.Store].
func (s *Store) Put(ctx context.Context, r approval.Record, e *approval.Entry) (next approval.Record, err error) {
	defer store.Wrap(&err, "put approval %q", r.ID())
	if err := cmp.Or(ctx.Err(), approval.CheckPut(r, e)); err != nil {
		return next, err
	}
	defer s.wrote.note(r.Server)
	err = s.update(func(tx *bbolt.Tx) (err error) { // update may call this again
		next, err = s.replace(tx, r, e)
		return err
	})
	if err != nil {
		return approval.Record{}, err
	}
	return next, nil
}

// PutAll implements [approval.Batcher], in one transaction.
func (s *Store) PutAll(ctx context.Context, all []approval.Write) (out []approval.Written, err error) {
	defer store.Wrap(&err, "put approvals")
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out = make([]approval.Written, len(all))
	refused := make([]error, len(all))
	for i, w := range all {
		refused[i] = approval.CheckPut(w.Record, w.Entry)
		defer s.wrote.note(w.Record.Server)
	}
	err = s.update(func(tx *bbolt.Tx) error { // update may call this again
		for i, w := range all {
			if out[i] = (approval.Written{Err: refused[i]}); refused[i] != nil {
				continue
			}
			next, err := s.replace(tx, w.Record, w.Entry)
			if err != nil && !errors.Is(err, approval.ErrConflict) {
				return err
			}
			out[i] = approval.Written{Record: next, Err: err}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, w := range all {
		store.Wrap(&out[i].Err, "put approval %q", w.Record.ID())
	}
	return out, nil
}

// replace writes r and its audit line. If the stored revision is not r.Rev, it writes nothing and
// returns [approval.ErrConflict].
func (s *Store) replace(tx *bbolt.Tx, r approval.Record, e *approval.Entry) (next approval.Record, err error) {
	held, err := get(tx, r.ID())
	if err != nil && !errors.Is(err, approval.ErrNotFound) {
		return next, err
	}
	if held.Rev != r.Rev {
		return next, approval.ErrConflict
	}
	next = r.Next(s.o.Now())
	if err := move(tx, held, next); err != nil {
		return next, err
	}
	if err := put(tx, next); err != nil || e == nil {
		return next, err
	}
	return next, s.addLine(tx, next.Line(*e))
}

// putJSON writes v as JSON.
func putJSON(b *bbolt.Bucket, key []byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(key, data)
}

// put writes the record.
func put(tx *bbolt.Tx, r approval.Record) error {
	st := stored{Record: r, Approved: r.Approved, Current: r.Current}
	if r.Undo != nil {
		st.UndoApproved = r.Undo.Approved
	}
	data, err := rawjson.Marshal(st, r.Unknown)
	if err != nil {
		return err
	}
	return recordsOf(tx, r.Kind).Put([]byte(r.ID().String()), data)
}

// move updates the entry of the record among the decisions.
func move(tx *bbolt.Tx, before, now approval.Record) error {
	if before.DecidedAt.Equal(now.DecidedAt) {
		return nil
	}
	b := tx.Bucket(decisions)
	if now.Kind != tool.Tool {
		b = tx.Bucket(itemDecisions)
	}
	if !before.DecidedAt.IsZero() {
		if err := b.Delete(decisionKey(before)); err != nil {
			return err
		}
	}
	if now.DecidedAt.IsZero() {
		return nil
	}
	return b.Put(decisionKey(now), nil)
}

// get returns the record with the id, or [approval.ErrNotFound].
func get(tx *bbolt.Tx, id tool.ID) (approval.Record, error) {
	return find(recordsOf(tx, id.Kind), []byte(id.String()))
}

// recordsOf returns the bucket of the records of a kind.
func recordsOf(tx *bbolt.Tx, k tool.Kind) *bbolt.Bucket {
	if k == tool.Tool {
		return tx.Bucket(records)
	}
	return tx.Bucket(itemRecords)
}

// find returns the record with the key, or [approval.ErrNotFound].
func find(b *bbolt.Bucket, id []byte) (approval.Record, error) {
	data := b.Get(id)
	if data == nil {
		return approval.Record{}, approval.ErrNotFound
	}
	return decode(data)
}

// decode reads a record as put wrote it.
func decode(data []byte) (approval.Record, error) {
	var st stored
	unknown, err := rawjson.Unmarshal(data, &st)
	if err != nil {
		return approval.Record{}, fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	r := st.Record
	r.Approved, r.Current, r.Unknown = st.Approved, st.Current, unknown
	if r.Undo != nil {
		r.Undo.Approved = st.UndoApproved
	}
	return r, nil
}

// timeSize is the number of bytes of the time in the key of a decision.
const timeSize = 8

func decisionKey(r approval.Record) []byte {
	return append(timeKey(r.DecidedAt), r.ID().String()...)
}

// timeKey returns a key that sorts like t. All times before 1970, and the zero time, have the first
// key.
func timeKey(t time.Time) []byte {
	var ns uint64
	if t.Unix() > 0 {
		ns = uint64(t.UnixNano())
	}
	return binary.BigEndian.AppendUint64(nil, ns)
}

// sweep removes expired entries from a bucket.
func sweep(tx *bbolt.Tx, bucket []byte, over func(key, data []byte) bool) error {
	var keys [][]byte // a bucket must not change during an iteration
	err := tx.Bucket(bucket).ForEach(func(k, data []byte) error {
		if over(k, data) {
			keys = append(keys, bytes.Clone(k))
		}
		return nil
	})
	for _, k := range keys {
		err = errors.Join(err, tx.Bucket(bucket).Delete(k))
	}
	return err
}
