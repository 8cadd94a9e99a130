// Package documenttest helps to test documents. [Run] tests the promises that every document.Store
// keeps. [Store] is a working store in memory with hooks that can fail.
package documenttest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
)

// A Store is a [document.Store] in memory. The zero Store is ready to use. Set hooks before the
// first use; they run without the lock. The call returns the error of its hook. If a hook of a
// write also returns true, the store keeps the write and loses its answer, as networks do.
type Store struct {
	Now     func() time.Time // nil: time.Now
	OnDocs  func(ctx context.Context, keys []document.Key) error
	OnPut   func(ctx context.Context, docs []document.Doc) (kept bool, err error)
	OnList  func(ctx context.Context, part string) error
	OnTouch func(ctx context.Context, key document.Key, mark string) (kept bool, err error)

	mu   sync.Mutex
	docs map[document.Key]document.Doc
}

var _ document.Store = (*Store)(nil)

// Docs implements [document.Store].
func (s *Store) Docs(ctx context.Context, keys ...document.Key) ([]document.Doc, error) {
	if s.OnDocs != nil {
		if err := s.OnDocs(ctx, keys); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	docs := make([]document.Doc, len(keys))
	for i, key := range keys {
		docs[i] = s.get(key)
	}
	return docs, nil
}

// get returns a copy of the live document of a key.
func (s *Store) get(key document.Key) document.Doc {
	d, ok := s.docs[key]
	if !ok || !d.Keep.IsZero() && !s.now().Before(d.Keep) {
		return document.Doc{Key: key}
	}
	d.Data = bytes.Clone(d.Data)
	return d
}

func (s *Store) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// PutDocs implements [document.Store].
func (s *Store) PutDocs(ctx context.Context, docs ...document.Doc) error {
	if s.OnPut != nil {
		if kept, err := s.OnPut(ctx, docs); err != nil {
			if kept {
				_ = s.put(ctx, docs) // the caller gets the error of the hook
			}
			return err
		}
	}
	return s.put(ctx, docs)
}

func (s *Store) put(ctx context.Context, docs []document.Doc) error {
	if err := cmp.Or(ctx.Err(), document.CheckPut(docs)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range docs {
		if s.get(d.Key).Rev != max(d.Rev, 0) {
			return &document.ConflictError{Key: d.Key}
		}
	}
	for _, d := range docs {
		if d.Data == nil {
			delete(s.docs, d.Key)
			continue
		}
		if s.docs == nil {
			s.docs = map[document.Key]document.Doc{}
		}
		d.Mark = cmp.Or(d.Mark, s.get(d.Key).Mark)
		d.Data, d.Rev = bytes.Clone(d.Data), document.NextRev(d.Rev)
		s.docs[d.Key] = d
	}
	return nil
}

// ListDocs implements [document.Store].
func (s *Store) ListDocs(ctx context.Context, part string) (docs []document.Doc, all bool, err error) {
	if s.OnList != nil {
		if err := s.OnList(ctx, part); err != nil {
			return nil, false, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.docs {
		if d := s.get(key); key.Part == part && d.Rev != 0 {
			docs = append(docs, d)
		}
	}
	slices.SortFunc(docs, func(a, b document.Doc) int { return cmp.Compare(a.ID, b.ID) })
	return docs, true, nil
}

// TouchDoc implements [document.Store].
func (s *Store) TouchDoc(ctx context.Context, key document.Key, mark string) error {
	if s.OnTouch != nil {
		if kept, err := s.OnTouch(ctx, key, mark); err != nil {
			if kept {
				_ = s.touch(ctx, key, mark) // the caller gets the error of the hook
			}
			return err
		}
	}
	return s.touch(ctx, key, mark)
}

func (s *Store) touch(ctx context.Context, key document.Key, mark string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.get(key)
	if d.Rev == 0 {
		return fmt.Errorf("touch %q %q: %w", key.Part, key.ID, document.ErrNotFound)
	}
	d.Mark = mark
	s.docs[key] = d
	return nil
}

// All returns every document, in no order.
func (s *Store) All() []document.Doc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.docs))
}

// CopyTo stores the documents of s in other, as a backup does. It copies nothing else.
func (s *Store) CopyTo(other *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	other.mu.Lock()
	defer other.mu.Unlock()
	other.docs = maps.Clone(s.docs)
}

// DocsOf returns a hook of Docs that calls hook if a key belongs to a part with this prefix.
func DocsOf(prefix string, hook func() error) func(context.Context, []document.Key) error {
	return func(_ context.Context, keys []document.Key) error {
		for _, key := range keys {
			if strings.HasPrefix(key.Part, prefix) {
				return hook()
			}
		}
		return nil
	}
}

// PutOf returns a hook of PutDocs that calls hook if a document belongs to a part with this prefix.
func PutOf(
	prefix string, hook func() (kept bool, err error),
) func(context.Context, []document.Doc) (bool, error) {
	return func(_ context.Context, docs []document.Doc) (bool, error) {
		for _, d := range docs {
			if strings.HasPrefix(d.Part, prefix) {
				return hook()
			}
		}
		return false, nil
	}
}
