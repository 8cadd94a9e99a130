package object

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// ErrGone says that a file which was in use is no longer in the store. It is an [ErrNotFound].
var ErrGone = fmt.Errorf("the file is gone; the last good one stays in use until there is a new one: %w", ErrNotFound)

// Version returns the lower-case hex SHA-256 of data.
func Version(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// A File is written by an operator. A copy of the last one that parsed is kept beside it, so that a
// process which starts next to a bad or a missing file goes on with what was in use.
type File[T any] struct {
	Key      string
	LastGood string // key of the copy
	Parse    func([]byte) (*T, error)
	None     func() *T // the value where there never was a file; nil: there must be one
}

// A Source is a file as it is in use, and what is wrong with the one in the store. The zero Source
// was never read.
type Source[T any] struct {
	Value   *T        // nil: nothing is known that can be used
	Version string    // [Version] of the bytes in use; "": there are none
	Stored  string    // [Version] of the file in the store, if that is refused; "": it is not, or there is none
	Data    []byte    // the bytes in use; must not be changed
	Refused error     // why the file in the store is not in use: what Parse says, or [ErrGone]; nil: it is
	Unread  error     // why nothing, or nothing newer, could be read; nil: it was. For the log
	ReadAt  time.Time // when it was last known what the store holds

	etag string // of the file that was read last, good or not; "": there was none
}

// Stale reports whether what is in use is, or may be, older than the file in the store.
func (s Source[T]) Stale() bool { return s.Refused != nil || s.Unread != nil }

// Err returns why what is in use is not the file in the store, nil if it is.
func (s Source[T]) Err() error { return errors.Join(s.Unread, s.Refused) }

// Load returns the file as of now. last is what the caller read before; its Value is kept if
// nothing is newer. A file that does not parse, cannot be read or is gone never replaces a good
// one: that of last or else the last good copy stays, with Refused or Unread set. Without a file
// the Value is that of None only where none was ever in use, or the last one was empty: else a
// deletion by mistake would permit what a policy denies.
func (f File[T]) Load(ctx context.Context, objects Store, last Source[T], now time.Time) Source[T] {
	s := f.load(ctx, objects, last)
	if s.ReadAt = last.ReadAt; s.Unread == nil {
		s.ReadAt = now
	}
	return s
}

func (f File[T]) load(ctx context.Context, objects Store, last Source[T]) Source[T] {
	o, err := objects.Get(ctx, f.Key, last.etag)
	switch {
	case errors.Is(err, ErrNotModified):
		last.Unread = nil
		return last
	case errors.Is(err, ErrNotFound):
		return f.gone(ctx, objects, last)
	case err != nil:
		return f.older(ctx, objects, last, func(s *Source[T]) { s.Unread = fmt.Errorf("read %s: %w", f.Key, err) })
	}
	v, err := f.Parse(o.Data)
	if err != nil {
		return f.older(ctx, objects, last, func(s *Source[T]) { s.Refused, s.Unread, s.etag, s.Stored = err, nil, o.ETag, Version(o.Data) })
	}
	return Source[T]{Value: v, Version: Version(o.Data), Data: o.Data, etag: o.ETag}
}

// gone returns what is in use while there is no file. Without a value in last the copy is read: a
// file may have come and gone since.
func (f File[T]) gone(ctx context.Context, objects Store, last Source[T]) Source[T] {
	mark := func(s *Source[T]) {
		s.Refused, s.Unread, s.etag, s.Stored = fmt.Errorf("%s: %w", f.Key, ErrGone), nil, "", ""
	}
	if len(last.Data) > 0 {
		mark(&last)
		return last
	}
	s, err := f.lastGood(ctx, objects)
	switch {
	case err == nil:
		mark(&s)
		return s
	case !errors.Is(err, ErrNotFound) || f.None == nil:
		return f.unknown(last, Source[T]{Refused: fmt.Errorf("read %s: %w", f.Key, ErrNotFound)}, err)
	case last.Value != nil && last.etag == "" && !last.Stale():
		return last
	}
	return Source[T]{Value: f.None()}
}

// older returns last, or else the last good copy, after mark has said why.
func (f File[T]) older(ctx context.Context, objects Store, last Source[T], mark func(*Source[T])) Source[T] {
	if last.Value != nil {
		mark(&last)
		return last
	}
	s, err := f.lastGood(ctx, objects)
	mark(&s)
	if err != nil {
		return f.unknown(last, s, err)
	}
	return s
}

// unknown returns s, which has no value. err says why there is no last good copy either. If that
// may change, or if there must be a file, the read counts as failed and last stays.
func (f File[T]) unknown(last, s Source[T], err error) Source[T] {
	if f.None != nil && (errors.Is(err, ErrNotFound) || errors.Is(err, errUnusable)) {
		return s
	}
	if last.Value == nil {
		last = Source[T]{}
	}
	// What is wrong with the last good file is not wrapped: who asks whether there is no file
	// means the operator's own.
	last.Unread = fmt.Errorf("no %s that can be used: %w; %s: %s", f.Key, s.Err(), f.LastGood, err.Error())
	return last
}

// errUnusable says that the last good copy does not parse: another version of the program left it.
var errUnusable = errors.New("the last good file cannot be used")

// lastGood reads the last good copy. An empty one is [ErrNotFound]: it means that there was no
// file.
func (f File[T]) lastGood(ctx context.Context, objects Store) (s Source[T], err error) {
	o, err := objects.Get(ctx, f.LastGood, "")
	if err != nil {
		return s, err
	}
	if len(o.Data) == 0 {
		return s, ErrNotFound
	}
	v, err := f.Parse(o.Data)
	if err != nil {
		return s, fmt.Errorf("%w: %w", errUnusable, err)
	}
	return Source[T]{Value: v, Version: Version(o.Data), Data: o.Data}, nil
}

// Keep is Load for the one who writes the last good copy; the error says why it was not written.
// The copy is read first and replaced only if it is still the same: of two writers the one with the
// older file must not win by being slow. A file that is gone replaces nothing.
func (f File[T]) Keep(ctx context.Context, objects Store, last Source[T], now time.Time) (Source[T], error) {
	kept, err := objects.Get(ctx, f.LastGood, "")
	s := f.Load(ctx, objects, last, now)
	ifMatch := kept.ETag
	switch none := errors.Is(err, ErrNotFound); {
	case s.Value == nil, s.Version == "", s.Stale() && !none:
		return s, nil
	case none: // also if both are gone, and only this process still holds what was in use
		ifMatch, err = IfAbsent, nil
	case err == nil && bytes.Equal(kept.Data, s.Data):
		return s, nil
	}
	if err == nil {
		_, err = objects.Put(ctx, f.LastGood, s.Data, ifMatch)
	}
	return s, err
}
