// Package stoptest holds what tests of the emergency stop need: [Run], the promises that every
// stop.Store keeps, and [Mem], a working store in memory that fails on demand.
package stoptest

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/stop"
)

// A Mem is a [stop.Store] in memory. The zero value is ready to use. Hooks are set before the first
// use; they run without the lock.
type Mem struct {
	OnStops    func(context.Context) error                     // before a read; an error is its answer
	OnPutStops func(context.Context, stop.Stops) (bool, error) // before a write; an error is its answer, but if it also says true the write is kept

	mu   sync.Mutex
	held stop.Stops
}

var _ stop.Store = (*Mem)(nil)

// Stops implements [stop.Store].
func (m *Mem) Stops(ctx context.Context) (stop.Stops, error) {
	if m.OnStops != nil {
		if err := m.OnStops(ctx); err != nil {
			return stop.Stops{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return stop.Stops{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return clone(m.held), nil
}

// PutStops implements [stop.Store].
func (m *Mem) PutStops(ctx context.Context, s stop.Stops) (stop.Stops, error) {
	if m.OnPutStops != nil {
		if kept, err := m.OnPutStops(ctx, s); err != nil {
			if kept {
				_, _ = m.put(ctx, s) // the caller gets the hook's error, whatever became of the write
			}
			return stop.Stops{}, err
		}
	}
	return m.put(ctx, s)
}

func (m *Mem) put(ctx context.Context, s stop.Stops) (stop.Stops, error) {
	next, _, err := s.Encode()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return stop.Stops{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held.Rev != s.Rev {
		return stop.Stops{}, stop.ErrConflict
	}
	m.held = clone(next)
	return next, nil
}

// clone cuts s loose from what its caller may write over.
func clone(s stop.Stops) stop.Stops {
	s.List, s.Ended = slices.Clone(s.List), slices.Clone(s.Ended)
	return s
}
