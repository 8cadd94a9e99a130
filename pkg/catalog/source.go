package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/object"
)

// LastGoodKey is where a sync keeps the bytes of the last config that parsed,
// so that a process which starts beside a bad file goes on with what was in
// use. It lies with the catalog because a sync may write there alone.
const LastGoodKey = "catalog/last_good_config.json"

// A Source is the config in use, and what is wrong with the file that should
// be in its place. It is immutable.
type Source struct {
	Config  *config.Config // never nil
	Version string         // of the bytes in use: [config.Version]
	Data    []byte         // the bytes in use; must not be changed
	Refused error          // why the file in the store is not in use: [config.Faults]; nil: it is
	Unread  error          // why the file could not be read; nil: it was. For the log

	etag string // of the file that was read last, good or not
}

// Stale reports whether the config in use is, or may be, older than the file in the store.
func (s *Source) Stale() bool { return s.Refused != nil || s.Unread != nil }

// LoadSource reads the config. held is the one that the caller has, or nil;
// it is returned itself if nothing is newer. A file that does not parse or cannot be
// read never replaces a good config: held or, if it is nil, the last good one
// is returned, with Refused or Unread set. The error says that there is no config
// at all; it is [config.Faults] if that is because the only one does not parse.
func LoadSource(ctx context.Context, objects object.Store, held *Source) (*Source, error) {
	ifNoneMatch := ""
	if held != nil {
		ifNoneMatch = held.etag
	}
	o, err := objects.Get(ctx, config.Key, ifNoneMatch)
	if errors.Is(err, object.ErrNotModified) {
		if held.Unread == nil {
			return held, nil
		}
		s := *held
		s.Unread = nil
		return &s, nil
	}
	if err != nil {
		return fallBack(ctx, objects, held, func(s *Source) { s.Unread = fmt.Errorf("read %s: %w", config.Key, err) })
	}
	c, err := config.Parse(o.Data)
	if err != nil {
		return fallBack(ctx, objects, held, func(s *Source) { s.Refused, s.Unread, s.etag = err, nil, o.ETag })
	}
	return &Source{Config: c, Version: config.Version(o.Data), Data: o.Data, etag: o.ETag}, nil
}

// fallBack returns held, or else the last good config, after mark has said
// why. Without either, its error is the reason that mark gives.
func fallBack(ctx context.Context, objects object.Store, held *Source, mark func(*Source)) (*Source, error) {
	if held == nil {
		s := &Source{}
		o, err := objects.Get(ctx, LastGoodKey, "")
		if err == nil {
			s.Config, err = config.Parse(o.Data)
		}
		if err != nil {
			mark(s)
			// What is wrong with the last good file is not wrapped: whoever asks whether
			// there is no file means the config itself.
			return nil, fmt.Errorf("no config: %w; %s: %s", errors.Join(s.Refused, s.Unread), LastGoodKey, err.Error())
		}
		s.Version, s.Data = config.Version(o.Data), o.Data
		held = s
	}
	s := *held
	mark(&s)
	return &s, nil
}

// keep stores what parsed as the last good version of a file, unless it is that
// already. It writes only over what it read: of two syncs the one with the older file
// must not win by being slow.
func keep(ctx context.Context, objects object.Store, key string, data []byte) error {
	ifMatch := object.IfAbsent
	kept, err := objects.Get(ctx, key, "")
	switch {
	case err == nil:
		ifMatch = kept.ETag
	case !errors.Is(err, object.ErrNotFound):
		return fmt.Errorf("read %s: %w", key, err)
	}
	if bytes.Equal(kept.Data, data) { // no file and none kept are equal, too
		return nil
	}
	if _, err := objects.Put(ctx, key, data, ifMatch); err != nil {
		return fmt.Errorf("store %s: %w", key, err)
	}
	return nil
}
