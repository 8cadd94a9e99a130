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

// ErrGone says that a file that was in use is no longer in the store. It wraps [ErrNotFound].
var ErrGone = fmt.Errorf("the file is gone; the last good one stays in use until there is a new one: %w", ErrNotFound)

// Version returns the lower-case hex SHA-256 of data.
func Version(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// A File is a file that an operator writes. The store also has a copy of the last version that
// parsed. A process that starts while the file is bad or missing uses that copy.
type File[T any] struct {
	Key      string
	LastGood string // key of the copy
	Parse    func([]byte) (*T, error)
	None     func() *T // the value if there never was a file; nil: there must be one
}

// A Source is the file in use, with the fault of the file in the store. The zero Source was never
// read.
type Source[T any] struct {
	Value   *T        // nil: no usable value is known
	Version string    // [Version] of the bytes in use; "": there are none
	Stored  string    // [Version] of the file in the store if the file is refused; "": otherwise
	Data    []byte    // the bytes in use; must not be changed
	Before  []byte    // the bytes that Data replaced in this process; nil: none
	Bad     []byte    // the bytes of the file in the store if they have faults; nil: otherwise
	Refused error     // why the file in the store is not in use; nil: it is
	Unread  error     // why the last read failed; for the log; nil: it succeeded
	ReadAt  time.Time // when the content of the store was last known

	etag string // of the file that was read last, good or not; "": there was none
}

// Stale reports whether the file in use is, or may be, older than the file in the store.
func (s Source[T]) Stale() bool { return s.Refused != nil || s.Unread != nil }

// Err returns why the file in the store is not in use, or nil if it is.
func (s Source[T]) Err() error { return errors.Join(s.Unread, s.Refused) }

// Load returns the present file. last is the result of the caller's last read; Load keeps its Value
// if nothing is newer. A file that does not parse, cannot be read or is missing never replaces a
// good one. Then the value of last or the last good copy stays, with Refused or Unread set. Without
// a file, Load uses None only if no file was ever in use, or the last one was empty: otherwise a
// deletion by mistake would permit what a policy denies.
func (f File[T]) Load(ctx context.Context, objects Store, last Source[T], now time.Time) Source[T] {
	s := f.load(ctx, objects, last)
	if s.ReadAt = last.ReadAt; s.Unread == nil {
		s.ReadAt = now
	}
	if s.Before = last.Before; last.Data != nil && s.Version != last.Version {
		s.Before = last.Data
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
		return f.withoutFile(ctx, objects, last)
	case err != nil:
		return f.older(ctx, objects, last, func(s *Source[T]) { s.Unread = fmt.Errorf("read %s: %w", f.Key, err) })
	}
	v, err := f.Parse(o.Data)
	if err != nil {
		return f.older(ctx, objects, last, func(s *Source[T]) {
			s.Refused, s.Unread, s.etag, s.Stored, s.Bad = err, nil, o.ETag, Version(o.Data), o.Data
		})
	}
	return Source[T]{Value: v, Version: Version(o.Data), Data: o.Data, etag: o.ETag}
}

// withoutFile returns the source to use while there is no file. If no file was in use at the last
// read, it reads the copy: since then, another process may have used a file that is deleted now.
func (f File[T]) withoutFile(ctx context.Context, objects Store, last Source[T]) Source[T] {
	mark := func(s *Source[T]) {
		s.Refused, s.Unread = fmt.Errorf("%s: %w", f.Key, ErrGone), nil
		s.etag, s.Stored, s.Bad = "", "", nil
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

// older returns last or, if it has no value, the last good copy. The function mark first sets the
// reason in it.
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

// unknown returns s, which has no value. err says why there is no last good copy either. If err may
// be temporary, or if there must be a file, the read counts as failed, and unknown returns last.
func (f File[T]) unknown(last, s Source[T], err error) Source[T] {
	if f.None != nil && (errors.Is(err, ErrNotFound) || errors.Is(err, errUnusable)) {
		return s
	}
	if last.Value == nil {
		last = Source[T]{}
	}
	// The error of the last good file is not wrapped: errors.Is(err, ErrNotFound) must mean the
	// operator's own file.
	last.Unread = fmt.Errorf("no %s that can be used: %w; %s: %s", f.Key, s.Err(), f.LastGood, err.Error())
	return last
}

// errUnusable says that the last good copy does not parse: another version of the program wrote it.
var errUnusable = errors.New("the last good file cannot be used")

// lastGood reads the last good copy. For an empty copy it returns [ErrNotFound]: the last file was
// empty.
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

// Keep calls Load, and also writes the last good copy. The error says why Keep did not write the
// copy. Keep reads the copy first and replaces it only if it has not changed since: a slow writer
// with an older file must not win. A missing file replaces nothing.
func (f File[T]) Keep(ctx context.Context, objects Store, last Source[T], now time.Time) (Source[T], error) {
	kept, err := objects.Get(ctx, f.LastGood, "")
	s := f.Load(ctx, objects, last, now)
	ifMatch := kept.ETag
	switch none := errors.Is(err, ErrNotFound); {
	case s.Value == nil, s.Version == "", s.Stale() && !none:
		return s, nil
	case none: // even if both are missing, and only this process still has the value
		ifMatch, err = IfAbsent, nil
	case err == nil && bytes.Equal(kept.Data, s.Data):
		return s, nil
	}
	if err == nil {
		_, err = objects.Put(ctx, f.LastGood, s.Data, ifMatch)
	}
	return s, err
}
