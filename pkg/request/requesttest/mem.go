// Package requesttest holds what tests of requests need: [Run], the promises that every request.Store
// keeps, and [Mem], a working store in memory that fails on demand.
package requesttest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/request"
)

// A Mem is a [request.Store] in memory. The zero value is ready to use. Hooks are set before the first
// use; they run without the lock.
type Mem struct {
	Clock        func() time.Time                                                                    // nil: time.Now
	OnAsked      func(ctx context.Context, key string) error                                         // before a read of what was asked for; an error is its answer
	OnGranted    func(ctx context.Context, key string) error                                         // before a read of what was decided, as OnAsked
	OnPutAsked   func(ctx context.Context, a request.Asked) (kept bool, err error)                   // before a write; an error is its answer, but if it also says true the write is kept
	OnPutGranted func(ctx context.Context, g request.Granted) (kept bool, err error)                 // as OnPutAsked
	OnUse        func(ctx context.Context, id string) (kept bool, err error)                         // as OnPutAsked
	OnArguments  func(ctx context.Context, id string, have json.RawMessage) (json.RawMessage, error) // what a read of arguments returns

	mu        sync.Mutex
	asked     map[string][]byte
	granted   map[string][]byte
	pointers  map[string]request.Pointer
	arguments map[string]json.RawMessage
	used      map[string]time.Time
}

var _ request.Store = (*Mem)(nil)

func (m *Mem) now() time.Time {
	if m.Clock != nil {
		return m.Clock()
	}
	return time.Now()
}

// Asked implements [request.Store].
func (m *Mem) Asked(ctx context.Context, key string) (a request.Asked, err error) {
	if m.OnAsked != nil {
		err = m.OnAsked(ctx, key)
	}
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return a, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if data := m.asked[key]; data != nil {
		return request.DecodeAsked(key, data)
	}
	return a, nil
}

// PutAsked implements [request.Store].
func (m *Mem) PutAsked(ctx context.Context, a request.Asked, added string, arguments json.RawMessage) (request.Asked, error) {
	if m.OnPutAsked != nil {
		if kept, err := m.OnPutAsked(ctx, a); err != nil {
			if kept {
				_, _ = m.putAsked(ctx, a, added, arguments) // the caller gets the hook's error
			}
			return request.Asked{}, err
		}
	}
	return m.putAsked(ctx, a, added, arguments)
}

func (m *Mem) putAsked(ctx context.Context, a request.Asked, added string, arguments json.RawMessage) (request.Asked, error) {
	next, data, err := a.Encode()
	r, wrong := a.Added(added, arguments)
	if err := cmp.Or(ctx.Err(), err, wrong); err != nil {
		return request.Asked{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := a.Agent.Key()
	var held request.Asked
	if old := m.asked[key]; old != nil {
		if held, err = request.DecodeAsked(key, old); err != nil {
			return request.Asked{}, err
		}
	}
	if _, twice := m.pointers[added]; held.Rev != a.Rev || twice {
		return request.Asked{}, request.ErrConflict
	}
	if added != "" {
		put(&m.pointers, added, request.Pointer{Request: added, Key: key, Expires: r.Expires, Kept: r.Kept()})
		if len(arguments) > 0 {
			put(&m.arguments, added, bytes.Clone(arguments))
		}
	}
	put(&m.asked, key, data)
	return next, nil
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// Granted implements [request.Store].
func (m *Mem) Granted(ctx context.Context, key string) (g request.Granted, err error) {
	if m.OnGranted != nil {
		err = m.OnGranted(ctx, key)
	}
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return g, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if data := m.granted[key]; data != nil {
		return request.DecodeGranted(key, data)
	}
	return g, nil
}

// PutGranted implements [request.Store].
func (m *Mem) PutGranted(ctx context.Context, g request.Granted) (request.Granted, error) {
	if m.OnPutGranted != nil {
		if kept, err := m.OnPutGranted(ctx, g); err != nil {
			if kept {
				_, _ = m.putGranted(ctx, g) // as above
			}
			return request.Granted{}, err
		}
	}
	return m.putGranted(ctx, g)
}

func (m *Mem) putGranted(ctx context.Context, g request.Granted) (request.Granted, error) {
	next, data, err := g.Encode()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return request.Granted{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := g.Agent.Key()
	var held request.Granted
	if old := m.granted[key]; old != nil {
		if held, err = request.DecodeGranted(key, old); err != nil {
			return request.Granted{}, err
		}
	}
	if held.Rev != g.Rev {
		return request.Granted{}, request.ErrConflict
	}
	put(&m.granted, key, data)
	return next, nil
}

// Use implements [request.Store].
func (m *Mem) Use(ctx context.Context, id string, now, _ time.Time) (time.Time, error) {
	if m.OnUse != nil {
		if kept, err := m.OnUse(ctx, id); err != nil {
			if kept {
				_, _ = m.use(ctx, id, now) // as above
			}
			return time.Time{}, err
		}
	}
	return m.use(ctx, id, now)
}

func (m *Mem) use(ctx context.Context, id string, now time.Time) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, is := m.used[id]; is {
		return at, request.ErrUsed
	}
	now = now.UTC().Truncate(time.Microsecond)
	put(&m.used, id, now)
	return now, nil
}

// Used implements [request.Store].
func (m *Mem) Used(ctx context.Context, id string) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used[id], nil
}

// Arguments implements [request.Store].
func (m *Mem) Arguments(ctx context.Context, _, id string) (json.RawMessage, error) {
	m.mu.Lock()
	have, p := m.arguments[id], m.pointers[id]
	m.mu.Unlock()
	if m.OnArguments != nil {
		return m.OnArguments(ctx, id, have)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if have == nil || !m.now().Before(p.Expires) {
		return nil, request.ErrNotFound
	}
	return bytes.Clone(have), nil
}

// DropArguments implements [request.Store].
func (m *Mem) DropArguments(ctx context.Context, _, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.arguments, id)
	return nil
}

// Whose implements [request.Store].
func (m *Mem) Whose(ctx context.Context, id string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.pointers[id]
	if !ok || !m.now().Before(p.Kept) {
		return "", request.ErrNotFound
	}
	return p.Key, nil
}

// Requests implements [request.Store].
func (m *Mem) Requests(ctx context.Context) (list []request.Pointer, all bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.pointers {
		if m.now().Before(p.Kept) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b request.Pointer) int { return cmp.Compare(a.Request, b.Request) })
	return list, true, nil
}
