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

// RestoreOptions configure [Store.RestoreBackup].
type RestoreOptions struct {
	// Known reports whether another source, such as a tool catalog, has the record. The next sync
	// compares the record with that source. nil: there is no such source.
	Known func(tool.ID) bool

	// KeepTokens says that no token was revoked since the copy was made.
	KeepTokens bool

	Actor string // the person who restores
}

// RestoreReport says what a restore did.
type RestoreReport struct {
	Records int       // number of records in the copy
	Differ  []tool.ID // records with different versions in store and copy, or of unknown age
	Tokens  int       // number of restored tokens

	// Revoked is how many of these tokens are revoked now: it is unknown whether a person revoked
	// them after the copy was made.
	Revoked int
}

// RestoreBackup restores the contents of the copy at path, in one transaction.
//
// It does not replace the store by the copy, because that would undo later decisions, and unlock
// tools that people locked later. If a record has two versions, or if neither the store nor another
// source has it, RestoreBackup treats it as lost: the stricter version applies until a person
// chooses ([approval.KeepRestored]: the newer version, [approval.AcceptStore]: the copy's version).
// Tokens, stops, baselines and audit lines are added if the store has none. RestoreBackup does not
// restore sessions of people, requests of agents, grants, and unsent notices.
func (s *Store) RestoreBackup(ctx context.Context, path string, o RestoreOptions) (out RestoreReport, err error) {
	defer store.Wrap(&err, "restore backup %q", path)
	from, _, err := openCopy(path)
	if err != nil {
		return out, err
	}
	defer func() { _ = from.Close() }() // nothing was written
	if o.Known == nil {
		o.Known = func(tool.ID) bool { return false }
	}
	defer s.wrote.noteAll()
	err = s.update(func(tx *bbolt.Tx) error { // update may call this again
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
	for _, held := range had { // records of the store are newer than the copy
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

// record restores one record. If ok is set, held is the store's record.
func (t *restoring) record(r *approval.Record, held approval.Record, ok bool) error {
	switch {
	case ok && approval.IsLost(r, &held): // the store's record is newer than the copy
		return t.recover(r, &held, held)
	case ok && approval.IsLost(&held, r): // somebody restored an older state of the store itself
		return t.recover(&held, r, held)
	case ok:
		return nil
	case t.o.Known(r.ID()):
		if err := move(t.to, approval.Record{}, *r); err != nil {
			return err
		}
		return put(t.to, *r)
	}
	unknown := *r // not approved and disabled: if its server needs no approval, only disabled locks it
	unknown.Disabled, unknown.ApprovedHash, unknown.Approved, unknown.Endorsed, unknown.ApprovedBefore = true, "", nil, approval.Remembered{}, nil
	return t.recover(r, &unknown, approval.Record{})
}

// recover replaces held with the stricter of two versions of a record.
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

// token restores a token that the store does not have. For a token in the store it restores the
// time of the last use.
func (t *restoring) token(x token.Token, d document.Doc) error {
	b := t.to.Bucket(documents)
	if data := b.Get(docKey(d.Key)); data != nil {
		if held, err := unwrapDoc(d.Key, data); err == nil && held.Mark == "" {
			held.Mark = d.Mark
			return b.Put(docKey(d.Key), wrapDoc(held))
		}
		return nil // keep the store's token
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

// addDocs adds the stops and baselines that the store does not have.
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

// addMissing adds to one bucket the entries of another bucket that the first bucket does not have.
// It does the same in nested buckets.
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
