package bolt

import (
	"bytes"
	"context"
	"time"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

// RestoreOptions are the knobs of [Store.RestoreBackup].
type RestoreOptions struct {
	// Known reports whether something else than the store tells how new a record is, such as a tool
	// catalog, which is asked afterwards; nil: nothing does.
	Known func(tool.ID) bool

	// KeepTokens says that no token was revoked since the copy was made.
	KeepTokens bool

	Actor string // who takes it back
}

// RestoreReport says what came of it.
type RestoreReport struct {
	Records int       // that the copy has
	Differ  []tool.ID // of which store and copy had two versions, or of which nothing else tells whether they are the newest
	Tokens  int       // that came back
	Revoked int       // of these, since nothing tells whether they were revoked after the copy was made
}

// RestoreBackup takes back what the copy at path holds, in one transaction.
//
// The store is not set back: what people decided after the copy was made would be undone, and a gate that
// they shut would open. Where the two have a record in two versions, or the store has none and nothing
// else is known of it, it is as after a loss: the stricter holds until a person says which one counts
// ([approval.KeepRestored]: the newer, [approval.AcceptStore]: that of the copy). Tokens, stops, lists that
// were taken and lines of the audit are added where the store has none. Sessions of people, requests of
// agents and what was granted, and notices that are not sent do not come back.
func (s *Store) RestoreBackup(ctx context.Context, path string, o RestoreOptions) (out RestoreReport, err error) {
	defer store.Wrap(&err, "take back %q", path)
	from, _, err := openCopy(path)
	if err != nil {
		return out, err
	}
	defer func() { _ = from.Close() }() // nothing was written
	if o.Known == nil {
		o.Known = func(tool.ID) bool { return false }
	}
	defer s.wrote.noteAll()
	err = s.update(func(tx *bbolt.Tx) error { // which may be run again
		t := restoring{s: s, o: o, to: tx, now: s.o.Now()}
		if err := from.view(ctx, t.all); err != nil {
			return err
		}
		out = t.out
		return nil
	})
	return out, err
}

// A restoring is one run of [Store.RestoreBackup].
type restoring struct {
	s   *Store
	o   RestoreOptions
	to  *bbolt.Tx
	now time.Time
	out RestoreReport
}

func (t *restoring) all(from *bbolt.Tx) error {
	had := map[tool.ID]approval.Record{} // what the store had
	if err := eachRecord(t.to, func(r approval.Record) error { had[r.ID()] = r; return nil }); err != nil {
		return err
	}
	err := eachRecord(from, func(r approval.Record) error {
		t.out.Records++
		held, ok := had[r.ID()]
		delete(had, r.ID())
		return t.record(&r, held, ok)
	})
	if err != nil {
		return err
	}
	for _, held := range had { // which are newer than the copy
		if err := t.recover(nil, &held, held); err != nil {
			return err
		}
	}
	if err := eachToken(from, t.token); err != nil {
		return err
	}
	if err := addDocs(t.to.Bucket(documents), from.Bucket(documents)); err != nil {
		return err
	}
	for _, name := range [][]byte{audit, events, eventStates, usageMinutes, usageHours} {
		if b := from.Bucket(name); b != nil {
			if err := addMissing(t.to.Bucket(name), b); err != nil {
				return err
			}
		}
	}
	return nil
}

// record takes back one record. held is what the store has, if ok.
func (t *restoring) record(r *approval.Record, held approval.Record, ok bool) error {
	switch {
	case ok && approval.IsLost(r, &held): // which was written after the copy
		return t.recover(r, &held, held)
	case ok && approval.IsLost(&held, r): // the store itself was set back
		return t.recover(&held, r, held)
	case ok:
		return nil
	case t.o.Known(r.ID()):
		if err := move(t.to, approval.Record{}, *r); err != nil {
			return err
		}
		return put(t.to, *r)
	}
	unknown := *r // as if its approval had been taken back since, and it had been disabled: where nothing waits for approval that alone locks it
	unknown.Disabled, unknown.ApprovedHash, unknown.Approved, unknown.Endorsed, unknown.ApprovedBefore = true, "", nil, approval.Remembered{}, nil
	return t.recover(r, &unknown, approval.Record{})
}

// recover writes the stricter of two versions of a record in the place of held.
func (t *restoring) recover(older, newer *approval.Record, held approval.Record) error {
	next, entry := approval.Recover(older, newer, t.now)
	next.Rev = max(next.Rev, held.Rev)
	next = next.Next(t.now)
	t.out.Differ = append(t.out.Differ, next.ID())
	if err := move(t.to, held, next); err != nil {
		return err
	}
	if err := put(t.to, next); err != nil {
		return err
	}
	return t.s.addLine(t.to, next.Line(entry))
}

// token takes back one token that the store does not have, or when one that it has was last used.
func (t *restoring) token(x token.Token, d document.Doc) error {
	b := t.to.Bucket(documents)
	if data := b.Get(docKey(d.Key)); data != nil {
		if held, err := unwrapDoc(d.Key, data); err == nil && held.Mark == "" {
			held.Mark = d.Mark
			return b.Put(docKey(d.Key), wrapDoc(held))
		}
		return nil // what the store has stays
	}
	t.out.Tokens++
	if !t.o.KeepTokens && x.Live(t.now) {
		t.out.Revoked++
		x = x.Revoke(t.o.Actor, t.now)
	}
	x, data, err := x.Encode()
	if err != nil {
		return err
	}
	d.Data, d.Rev = data, x.Rev
	return b.Put(docKey(d.Key), wrapDoc(d))
}

// addDocs adds the stops and baselines of a file that another one does not have.
func addDocs(to, from *bbolt.Bucket) error {
	for _, part := range []string{"STOP\x00", "BASE#", "SRV#"} {
		c := from.Cursor()
		for k, data := c.Seek([]byte(part)); bytes.HasPrefix(k, []byte(part)); k, data = c.Next() {
			if to.Get(k) != nil {
				continue
			}
			if err := to.Put(bytes.Clone(k), bytes.Clone(data)); err != nil {
				return err
			}
		}
	}
	return nil
}

// addMissing adds to a bucket what another one has and it has not, in buckets inside as well.
func addMissing(to, from *bbolt.Bucket) error {
	return from.ForEach(func(k, v []byte) error {
		if v == nil {
			inner, err := to.CreateBucketIfNotExists(bytes.Clone(k))
			if err != nil {
				return err
			}
			return addMissing(inner, from.Bucket(k))
		}
		if to.Get(k) != nil {
			return nil
		}
		return to.Put(bytes.Clone(k), bytes.Clone(v))
	})
}
