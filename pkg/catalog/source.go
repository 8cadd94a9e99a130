package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/object"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
)

// Where a sync keeps the bytes of the last config and the last policy that parsed, so that a
// process which starts beside a bad or a missing file goes on with what was in use. They
// lie with the catalog because a sync may write there alone.
const (
	LastGoodKey       = "catalog/last_good_config.json"
	LastGoodPolicyKey = "catalog/last_good_policy.cedar"
)

// ErrGone says that a file which was in use is no longer in the store. It is an
// [object.ErrNotFound].
var ErrGone = fmt.Errorf("the file is gone; the last good one stays in use until there is a new one: %w", object.ErrNotFound)

// A Source is one of the operator's files as it is in use, and what is wrong with the one
// that should be in its place. It is immutable.
type Source[T any] struct {
	Value   *T     // nil: nothing is known that could be used; of a policy only
	Version string // of the bytes in use: [config.Version]; "": there are none
	Data    []byte // the bytes in use; must not be changed
	Refused error  // why the file in the store is not in use: its faults, or [ErrGone]; nil: it is
	Unread  error  // why the file could not be read; nil: it was. For the log

	etag string // of the file that was read last, good or not; "": there was none
}

// Stale reports whether what is in use is, or may be, older than the file in the store.
func (s *Source[T]) Stale() bool { return s.Refused != nil || s.Unread != nil }

// Err returns why what is in use is not the file in the store, nil if it is.
func (s *Source[T]) Err() error { return errors.Join(s.Unread, s.Refused) }

// LoadConfig reads the config. held is the one that the caller has, or nil; it is returned
// itself if nothing is newer. A file that does not parse, cannot be read or is
// gone never replaces a good one: held or, if it is nil, the last good one is returned,
// with Refused or Unread set. The error says that there is no config at all; it is
// [config.Faults] if that is because the only one does not parse.
func LoadConfig(ctx context.Context, objects object.Store, held *Source[config.Config]) (*Source[config.Config], error) {
	return configFile.load(ctx, objects, held)
}

// LoadPolicy is [LoadConfig] for the policy. No file is [policy.Empty] only where none was
// ever in use, or the last one was empty: else a deletion by mistake would open
// what the policy shut. If nothing is known of what the operator permits, its Value is nil.
func LoadPolicy(ctx context.Context, objects object.Store, held *Source[policy.Policy]) (*Source[policy.Policy], error) {
	return policyFile.load(ctx, objects, held)
}

var (
	configFile = file[config.Config]{key: config.Key, lastGood: LastGoodKey, parse: config.Parse}
	policyFile = file[policy.Policy]{key: policy.Key, lastGood: LastGoodPolicyKey, parse: policy.Parse, none: policy.Empty}
)

// A file is one that an operator writes.
type file[T any] struct {
	key, lastGood string
	parse         func([]byte) (*T, error)
	none          func() *T // what holds where there never was a file; nil: there must be one
}

func (f file[T]) load(ctx context.Context, objects object.Store, held *Source[T]) (*Source[T], error) {
	ifNoneMatch := ""
	if held != nil {
		ifNoneMatch = held.etag
	}
	o, err := objects.Get(ctx, f.key, ifNoneMatch)
	switch {
	case errors.Is(err, object.ErrNotModified):
		if held.Unread == nil {
			return held, nil
		}
		s := *held
		s.Unread = nil
		return &s, nil
	case errors.Is(err, object.ErrNotFound):
		return f.gone(ctx, objects, held)
	case err != nil:
		return f.fallBack(ctx, objects, held, func(s *Source[T]) { s.Unread = fmt.Errorf("read %s: %w", f.key, err) })
	}
	v, err := f.parse(o.Data)
	if err != nil {
		return f.fallBack(ctx, objects, held, func(s *Source[T]) { s.Refused, s.Unread, s.etag = err, nil, o.ETag })
	}
	return &Source[T]{Value: v, Version: config.Version(o.Data), Data: o.Data, etag: o.ETag}, nil
}

// gone is what holds while there is no file. Whoever holds none looks whether there was
// one: it may have come and gone since.
func (f file[T]) gone(ctx context.Context, objects object.Store, held *Source[T]) (*Source[T], error) {
	if held != nil && len(held.Data) > 0 {
		s := *held
		s.Refused, s.Unread, s.etag = fmt.Errorf("%s: %w", f.key, ErrGone), nil, ""
		return &s, nil
	}
	s, err := f.last(ctx, objects)
	switch {
	case errors.Is(err, object.ErrNotFound) && f.none != nil:
		if held != nil && held.Value != nil && held.etag == "" && !held.Stale() {
			return held, nil
		}
		return &Source[T]{Value: f.none()}, nil
	case err != nil:
		return f.unknown(&Source[T]{Refused: fmt.Errorf("read %s: %w", f.key, object.ErrNotFound)}, err)
	}
	s.Refused = fmt.Errorf("%s: %w", f.key, ErrGone)
	return s, nil
}

// fallBack returns held, or else the last good file, after mark has said why.
func (f file[T]) fallBack(ctx context.Context, objects object.Store, held *Source[T], mark func(*Source[T])) (*Source[T], error) {
	if held != nil && held.Value != nil {
		s := *held
		mark(&s)
		return &s, nil
	}
	s, err := f.last(ctx, objects)
	if err != nil {
		s = &Source[T]{}
		mark(s)
		return f.unknown(s, err)
	}
	mark(s)
	return s, nil
}

// unknown returns s, in which nothing can be used. err says why there is no last good file
// either. Only if that could not be read, or if there must be a file, is it an error.
func (f file[T]) unknown(s *Source[T], err error) (*Source[T], error) {
	unusable := errors.Is(err, object.ErrNotFound) || errors.Is(err, ErrUnusable)
	if f.none != nil && unusable {
		return s, nil
	}
	// What is wrong with the last good file is not wrapped: whoever asks whether there
	// is no file means the operator's own.
	return nil, fmt.Errorf("no %s that can be used: %w; %s: %s", f.key, s.Err(), f.lastGood, err.Error())
}

// last returns the last good file. An empty one is [object.ErrNotFound]: it says that
// there was none; one that does not parse, as another version of the program might leave it, is
// [ErrUnusable].
func (f file[T]) last(ctx context.Context, objects object.Store) (*Source[T], error) {
	o, err := objects.Get(ctx, f.lastGood, "")
	if err != nil {
		return nil, err
	}
	if len(o.Data) == 0 {
		return nil, object.ErrNotFound
	}
	v, err := f.parse(o.Data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return &Source[T]{Value: v, Version: config.Version(o.Data), Data: o.Data}, nil
}

// keep loads the file for a sync, and keeps it as the last good one if it is good. The one
// that is kept is looked at first and written over only as it was then: of two syncs
// the one with the older file must not win by being slow. What is gone replaces nothing.
func (f file[T]) keep(ctx context.Context, objects object.Store, held *Source[T], log *slog.Logger) (*Source[T], error) {
	kept, keptErr := objects.Get(ctx, f.lastGood, "")
	s, err := f.load(ctx, objects, held)
	if err != nil {
		return nil, err
	}
	ifMatch := kept.ETag
	switch none := errors.Is(keptErr, object.ErrNotFound); {
	case s.Value == nil, s.Version == "", s.Stale() && !none:
		return s, nil
	case none: // also if both are gone, and only this process still holds what was in use
		ifMatch, keptErr = object.IfAbsent, nil
	case keptErr == nil && bytes.Equal(kept.Data, s.Data):
		return s, nil
	}
	if keptErr == nil {
		_, keptErr = objects.Put(ctx, f.lastGood, s.Data, ifMatch)
	}
	if keptErr != nil {
		log.LogAttrs(ctx, slog.LevelWarn, "last good file not kept", slog.String("file", f.key), slog.Any("error", keptErr))
	}
	return s, nil
}
