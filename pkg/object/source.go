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

// A File is one that an operator writes. A copy of the last one that parsed is kept beside it,
// so that a process which starts next to a bad or a missing file goes on with what was in use.
type File[T any] struct {
	Key      string
	LastGood string // key of the copy
	Parse    func([]byte) (*T, error)
	None     func() *T // the value where there never was a file; nil: there must be one
}

// A Source is a file as it is in use, and what is wrong with the one that should be in its
// place. The zero Source was never read.
type Source[T any] struct {
	Value   *T        // nil: nothing is known that can be used
	Version string    // [Version] of the bytes in use; "": there are none
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

// Load returns the file as of now. held is what the caller has of it; its Value is kept
// if nothing is newer. A file that does not parse, cannot be read or is gone never replaces
// a good one: what is held or else the last good file stays, with Refused or Unread set. Without
// a file the Value is that of None only where none was ever in use, or the last one was
// empty: else a deletion by mistake would permit what a policy denies.
func (f File[T]) Load(ctx context.Context, objects Store, held Source[T], now time.Time) Source[T] {
	s := f.load(ctx, objects, held)
	if s.ReadAt = held.ReadAt; s.Unread == nil {
		s.ReadAt = now
	}
	return s
}

func (f File[T]) load(ctx context.Context, objects Store, held Source[T]) Source[T] {
	o, err := objects.Get(ctx, f.Key, held.etag)
	switch {
	case errors.Is(err, ErrNotModified):
		held.Unread = nil
		return held
	case errors.Is(err, ErrNotFound):
		return f.gone(ctx, objects, held)
	case err != nil:
		return f.older(ctx, objects, held, func(s *Source[T]) { s.Unread = fmt.Errorf("read %s: %w", f.Key, err) })
	}
	v, err := f.Parse(o.Data)
	if err != nil {
		return f.older(ctx, objects, held, func(s *Source[T]) { s.Refused, s.Unread, s.etag = err, nil, o.ETag })
	}
	return Source[T]{Value: v, Version: Version(o.Data), Data: o.Data, etag: o.ETag}
}

// gone returns what is in use while there is no file. Who holds none looks whether there was
// one: it may have come and gone since.
func (f File[T]) gone(ctx context.Context, objects Store, held Source[T]) Source[T] {
	mark := func(s *Source[T]) { s.Refused, s.Unread, s.etag = fmt.Errorf("%s: %w", f.Key, ErrGone), nil, "" }
	if len(held.Data) > 0 {
		mark(&held)
		return held
	}
	s, err := f.lastGood(ctx, objects)
	switch {
	case err == nil:
		mark(&s)
		return s
	case !errors.Is(err, ErrNotFound) || f.None == nil:
		return f.unknown(held, Source[T]{Refused: fmt.Errorf("read %s: %w", f.Key, ErrNotFound)}, err)
	case held.Value != nil && held.etag == "" && !held.Stale():
		return held
	}
	return Source[T]{Value: f.None()}
}

// older returns held, or else the last good file, after mark has said why.
func (f File[T]) older(ctx context.Context, objects Store, held Source[T], mark func(*Source[T])) Source[T] {
	if held.Value != nil {
		mark(&held)
		return held
	}
	s, err := f.lastGood(ctx, objects)
	mark(&s)
	if err != nil {
		return f.unknown(held, s, err)
	}
	return s
}

// unknown returns s, which has no value. err says why there is no last good file either. If that
// may be another the next time, or if there must be a file, nothing was read: held stays.
func (f File[T]) unknown(held, s Source[T], err error) Source[T] {
	if f.None != nil && (errors.Is(err, ErrNotFound) || errors.Is(err, errUnusable)) {
		return s
	}
	if held.Value == nil {
		held = Source[T]{}
	}
	// What is wrong with the last good file is not wrapped: who asks whether there is no file
	// means the operator's own.
	held.Unread = fmt.Errorf("no %s that can be used: %w; %s: %s", f.Key, s.Err(), f.LastGood, err.Error())
	return held
}

// errUnusable says that the last good file does not parse: another version of the program left it.
var errUnusable = errors.New("the last good file cannot be used")

// lastGood returns the last good file. An empty one is [ErrNotFound]: it says that there was none.
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

// Keep is Load for the one who writes the last good file; the error says why it was not
// written. That file is read first and written over only as it was then: of two writers
// the one with the older file must not win by being slow. What is gone replaces nothing.
func (f File[T]) Keep(ctx context.Context, objects Store, held Source[T], now time.Time) (Source[T], error) {
	kept, err := objects.Get(ctx, f.LastGood, "")
	s := f.Load(ctx, objects, held, now)
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
