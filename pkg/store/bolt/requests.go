package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"github.com/portcullis-mcp/portcullis/pkg/request"
	"github.com/portcullis-mcp/portcullis/pkg/store"
)

var _ request.Store = (*Store)(nil)

// The buckets of requests.
var (
	asked        = []byte("asked")         // key of an agent → request.Asked
	granted      = []byte("granted")       // key of an agent → request.Granted
	requestKeys  = []byte("request_keys")  // id of a request → request.Pointer
	requestArgs  = []byte("request_args")  // id of a request → the arguments of its call
	requestsUsed = []byte("requests_used") // id of a request → usedMark
)

// A usedMark says when a confirmed call was made.
type usedMark struct {
	At   time.Time `json:"at"`
	Keep time.Time `json:"keep"`
}

// sweepEvery is how often what is over is removed, as a request is added.
const sweepEvery = time.Hour

// getDoc returns what a bucket has of an agent; the zero document if that is nothing.
func getDoc[T any](tx *bbolt.Tx, bucket []byte, key string, decode func(key string, data []byte) (T, error)) (doc T, err error) {
	data := tx.Bucket(bucket).Get([]byte(key))
	if data == nil {
		return doc, nil
	}
	return decode(key, data)
}

// Asked implements [request.Store].
func (s *Store) Asked(ctx context.Context, key string) (a request.Asked, err error) {
	defer store.Wrap(&err, "get requests")
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		a, err = getDoc(tx, asked, key, request.DecodeAsked)
		return err
	})
	return a, err
}

// PutAsked implements [request.Store].
func (s *Store) PutAsked(ctx context.Context, a request.Asked, added string, arguments json.RawMessage) (next request.Asked, err error) {
	defer store.Wrap(&err, "put requests")
	next, data, err := a.Encode()
	r, wrong := a.Added(added, arguments)
	if err := cmp.Or(ctx.Err(), err, wrong); err != nil {
		return request.Asked{}, err
	}
	key := a.Agent.Key()
	err = s.update(func(tx *bbolt.Tx) error {
		held, err := getDoc(tx, asked, key, request.DecodeAsked)
		switch {
		case err != nil:
			return err
		case held.Rev != a.Rev, added != "" && tx.Bucket(requestKeys).Get([]byte(added)) != nil:
			return request.ErrConflict
		}
		if err := tx.Bucket(asked).Put([]byte(key), data); err != nil || added == "" {
			return err
		}
		if err := s.sweepRequests(tx); err != nil {
			return err
		}
		if len(arguments) > 0 {
			if err := tx.Bucket(requestArgs).Put([]byte(added), arguments); err != nil {
				return err
			}
		}
		return putJSON(tx.Bucket(requestKeys), []byte(added), request.Pointer{Request: added, Key: key, Expires: r.Expires, Kept: r.Kept()})
	})
	if err != nil {
		return request.Asked{}, err
	}
	return next, nil
}

// sweepRequests removes arguments of requests that have expired, and what else is not kept any longer,
// unless it did so lately. It runs in transactions alone, of which there is one at a time.
func (s *Store) sweepRequests(tx *bbolt.Tx) error {
	now := s.o.Now()
	if since := now.Sub(s.swept); since >= 0 && since < sweepEvery {
		return nil
	}
	err := errors.Join(
		sweep(tx, requestArgs, func(id, _ []byte) bool {
			p, err := pointer(tx, string(id))
			return errors.Is(err, request.ErrNotFound) || err == nil && !now.Before(p.Expires)
		}),
		sweep(tx, requestKeys, func(_, data []byte) bool {
			var p request.Pointer
			return json.Unmarshal(data, &p) == nil && !now.Before(p.Kept)
		}),
		sweep(tx, requestsUsed, func(_, data []byte) bool {
			var m usedMark
			return json.Unmarshal(data, &m) == nil && !now.Before(m.Keep)
		}),
	)
	if err == nil {
		s.swept = now
	}
	return err
}

// Granted implements [request.Store].
func (s *Store) Granted(ctx context.Context, key string) (g request.Granted, err error) {
	defer store.Wrap(&err, "get grants")
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		g, err = getDoc(tx, granted, key, request.DecodeGranted)
		return err
	})
	return g, err
}

// PutGranted implements [request.Store].
func (s *Store) PutGranted(ctx context.Context, g request.Granted) (next request.Granted, err error) {
	defer store.Wrap(&err, "put grants")
	next, data, err := g.Encode()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return request.Granted{}, err
	}
	key := g.Agent.Key()
	err = s.update(func(tx *bbolt.Tx) error {
		held, err := getDoc(tx, granted, key, request.DecodeGranted)
		switch {
		case err != nil:
			return err
		case held.Rev != g.Rev:
			return request.ErrConflict
		}
		return tx.Bucket(granted).Put([]byte(key), data)
	})
	if err != nil {
		return request.Granted{}, err
	}
	return next, nil
}

// Use implements [request.Store].
func (s *Store) Use(ctx context.Context, id string, now, keep time.Time) (used time.Time, err error) {
	defer store.Wrap(&err, "use confirmation %s", id)
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	now = now.UTC().Truncate(time.Microsecond)
	err = s.update(func(tx *bbolt.Tx) error {
		m, is, err := getUsed(tx, id)
		switch {
		case err != nil:
			return err
		case is:
			used = m.At
			return request.ErrUsed
		}
		return putJSON(tx.Bucket(requestsUsed), []byte(id), usedMark{At: now, Keep: request.KeepUse(keep).UTC()})
	})
	if err == nil {
		used = now
	}
	return used, err
}

// Used implements [request.Store].
func (s *Store) Used(ctx context.Context, id string) (used time.Time, err error) {
	defer store.Wrap(&err, "look for use of %s", id)
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		m, _, err := getUsed(tx, id)
		used = m.At
		return err
	})
	return used, err
}

func getUsed(tx *bbolt.Tx, id string) (m usedMark, is bool, err error) {
	data := tx.Bucket(requestsUsed).Get([]byte(id))
	if data == nil {
		return m, false, nil
	}
	return m, true, json.Unmarshal(data, &m)
}

// Arguments implements [request.Store].
func (s *Store) Arguments(ctx context.Context, _, id string) (arguments json.RawMessage, err error) {
	defer store.Wrap(&err, "get arguments of %s", id)
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		if arguments = bytes.Clone(tx.Bucket(requestArgs).Get([]byte(id))); arguments == nil {
			return request.ErrNotFound
		}
		p, err := pointer(tx, id)
		if err == nil && !s.o.Now().Before(p.Expires) {
			return request.ErrNotFound
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return arguments, nil
}

// DropArguments implements [request.Store].
func (s *Store) DropArguments(ctx context.Context, _, id string) (err error) {
	defer store.Wrap(&err, "drop arguments of %s", id)
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.update(func(tx *bbolt.Tx) error { return tx.Bucket(requestArgs).Delete([]byte(id)) })
}

// Whose implements [request.Store].
func (s *Store) Whose(ctx context.Context, id string) (key string, err error) {
	defer store.Wrap(&err, "find request %s", id)
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		p, err := pointer(tx, id)
		if err == nil && !s.o.Now().Before(p.Kept) {
			err = request.ErrNotFound
		}
		key = p.Key
		return err
	})
	if err != nil {
		return "", err
	}
	return key, nil
}

func pointer(tx *bbolt.Tx, id string) (p request.Pointer, err error) {
	data := tx.Bucket(requestKeys).Get([]byte(id))
	if data == nil {
		return p, request.ErrNotFound
	}
	err = json.Unmarshal(data, &p)
	return p, err
}

// Requests implements [request.Store].
func (s *Store) Requests(ctx context.Context) (list []request.Pointer, all bool, err error) {
	defer store.Wrap(&err, "list requests")
	now := s.o.Now()
	all = true
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		return tx.Bucket(requestKeys).ForEach(func(_, data []byte) error {
			var p request.Pointer
			if err := json.Unmarshal(data, &p); err != nil {
				all = false // the others wait for people
			} else if now.Before(p.Kept) {
				list = append(list, p)
			}
			return nil
		})
	})
	return list, all && err == nil, err
}
