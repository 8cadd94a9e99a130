package bolt

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

var _ document.Store = (*Store)(nil)

// Docs implements [document.Store].
func (s *Store) Docs(ctx context.Context, keys ...document.Key) (docs []document.Doc, err error) {
	defer store.Wrap(&err, "read documents")
	err = s.view(ctx, func(tx *bbolt.Tx) (err error) {
		docs, err = s.docs(tx, keys)
		return err
	})
	return docs, err
}

// GetWith implements [approval.Store], in one transaction.
func (s *Store) GetWith(ctx context.Context, id tool.ID, keys ...document.Key) (
	r approval.Record, docs []document.Doc, err error,
) {
	defer store.Wrap(&err, "get approval %q and documents", id)
	err = s.view(ctx, func(tx *bbolt.Tx) (err error) {
		if docs, err = s.docs(tx, keys); err != nil {
			return err
		}
		r, err = get(tx, id)
		return err
	})
	return r, docs, err
}

// PutDocs implements [document.Store].
func (s *Store) PutDocs(ctx context.Context, docs ...document.Doc) (err error) {
	defer store.Wrap(&err, "write documents")
	if err := cmp.Or(ctx.Err(), document.CheckPut(docs)); err != nil {
		return err
	}
	return s.update(func(tx *bbolt.Tx) error {
		if err := s.sweepDocs(tx); err != nil {
			return err
		}
		for _, d := range docs {
			if err := s.putDoc(tx, d); err != nil {
				return err
			}
		}
		return nil
	})
}

// ListDocs implements [document.Store]. It returns every document that can be read.
func (s *Store) ListDocs(ctx context.Context, part string) (
	docs []document.Doc, all bool, err error,
) {
	defer store.Wrap(&err, "list documents of %q", part)
	all = true
	prefix, now := docKey(document.Key{Part: part}), s.o.Now()
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(documents).Cursor()
		for k, data := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, data = c.Next() {
			d, err := unwrapDoc(document.Key{Part: part, ID: string(k[len(prefix):])}, data)
			switch {
			case err != nil:
				all = false
			case !isOver(d, now):
				docs = append(docs, d)
			}
		}
		return nil
	})
	return docs, all && err == nil, err
}

// TouchDoc implements [document.Store].
func (s *Store) TouchDoc(ctx context.Context, key document.Key, mark string) (err error) {
	defer store.Wrap(&err, "touch document %q %q", key.Part, key.ID)
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.update(func(tx *bbolt.Tx) error {
		d, err := s.doc(tx, key)
		switch {
		case err != nil:
			return err
		case d.Rev == 0:
			return document.ErrNotFound
		}
		d.Mark = mark
		return tx.Bucket(documents).Put(docKey(key), wrapDoc(d))
	})
}

// docs returns a document for each key.
func (s *Store) docs(tx *bbolt.Tx, keys []document.Key) ([]document.Doc, error) {
	docs := make([]document.Doc, len(keys))
	for i, key := range keys {
		var err error
		if docs[i], err = s.doc(tx, key); err != nil {
			return nil, err
		}
	}
	return docs, nil
}

// doc returns the document with the key, or the key alone if the document is absent or has expired.
func (s *Store) doc(tx *bbolt.Tx, key document.Key) (document.Doc, error) {
	absent := document.Doc{Key: key}
	data := tx.Bucket(documents).Get(docKey(key))
	if data == nil {
		return absent, nil
	}
	d, err := unwrapDoc(key, data)
	if err != nil || isOver(d, s.o.Now()) {
		return absent, err
	}
	return d, nil
}

// putDoc writes or deletes one document of PutDocs.
func (s *Store) putDoc(tx *bbolt.Tx, d document.Doc) error {
	held, err := s.doc(tx, d.Key)
	switch {
	case err != nil:
		return err
	case strings.Contains(d.Part, "\x00"): // a zero byte ends the part in the key
		return fmt.Errorf("part %q of a document has a zero byte", d.Part)
	case held.Rev != max(d.Rev, 0):
		return &document.ConflictError{Key: d.Key}
	case d.Data == nil:
		return tx.Bucket(documents).Delete(docKey(d.Key))
	}
	d.Mark, d.Rev = cmp.Or(d.Mark, held.Mark), document.NextRev(d.Rev)
	return tx.Bucket(documents).Put(docKey(d.Key), wrapDoc(d))
}

// sweepEvery is how often expired documents are removed.
const sweepEvery = time.Hour

// sweepDocs removes the documents that have expired, at most once an hour. It runs only in write
// transactions. At most one of these runs at a time, so s.swept needs no lock. It keeps documents
// that it cannot read.
func (s *Store) sweepDocs(tx *bbolt.Tx) error {
	now := s.o.Now()
	if since := now.Sub(s.swept); since >= 0 && since < sweepEvery {
		return nil
	}
	err := sweep(tx, documents, func(_, data []byte) bool {
		d, err := unwrapDoc(document.Key{}, data)
		return err == nil && isOver(d, now)
	})
	if err == nil {
		s.swept = now
	}
	return err
}
