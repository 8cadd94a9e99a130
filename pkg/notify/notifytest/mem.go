// Package notifytest has the test that every outbox passes, and one in memory.
package notifytest

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/notify"
)

// A Mem is a [notify.Outbox] in memory. The zero value is ready to use.
type Mem struct {
	Now   func() time.Time                  // nil: time.Now
	OnPut func(notify.Event) error          // test hook: what it returns fails the call, and nothing is kept
	OnAct func(verb, id string) error       // the same of pending, change and remove; called first
	Lost  func(verb string, id string) bool // test hook: the write is kept, and its answer is [context.DeadlineExceeded]

	mu    sync.Mutex
	open  []notify.Notice
	known map[string]time.Time
	slots int
	reads int
}

var _ notify.Outbox = (*Mem)(nil)

// Put implements [notify.Outbox].
func (m *Mem) Put(ctx context.Context, e notify.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.OnPut != nil {
		if err := m.OnPut(e); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	n, _, err := notify.NewNotice(e, now).Encode()
	switch {
	case err != nil:
		return err
	case now.Before(m.known[n.Event.ID]):
		return nil
	case len(m.open) >= notify.MaxOpen:
		return notify.ErrFull
	}
	if m.known == nil {
		m.known = map[string]time.Time{}
	}
	m.known[n.Event.ID] = now.Add(notify.Remember)
	m.slots++
	n.Slot = strconv.Itoa(m.slots)
	m.open = append(m.open, n)
	return nil
}

// Pending implements [notify.Outbox].
func (m *Mem) Pending(ctx context.Context) ([]notify.Notice, error) {
	if err := m.act(ctx, "pending", ""); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	list := slices.Clone(m.open)
	notify.SortNotices(list)
	return list, nil
}

// Change implements [notify.Outbox].
func (m *Mem) Change(ctx context.Context, n notify.Notice) (notify.Notice, error) {
	next, data, err := n.Encode()
	if err != nil {
		return notify.Notice{}, err
	}
	return next, m.write(ctx, "change", n, func(i int) {
		held, _ := notify.DecodeNotice(data) // which Encode wrote
		held.Slot = n.Slot
		m.open[i] = held
	})
}

// Remove implements [notify.Outbox].
func (m *Mem) Remove(ctx context.Context, n notify.Notice) error {
	return m.write(ctx, "remove", n, func(i int) { m.open = slices.Delete(m.open, i, i+1) })
}

func (m *Mem) write(ctx context.Context, verb string, n notify.Notice, do func(i int)) error {
	if err := m.act(ctx, verb, n.Event.ID); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.open, func(held notify.Notice) bool { return held.Slot == n.Slot && held.Rev == n.Rev })
	if i < 0 {
		return notify.ErrTaken
	}
	if do(i); m.Lost != nil && m.Lost(verb, n.Event.ID) {
		return context.DeadlineExceeded
	}
	return nil
}

func (m *Mem) act(ctx context.Context, verb, id string) error {
	if err := ctx.Err(); err != nil || m.OnAct == nil {
		return err
	}
	return m.OnAct(verb, id)
}

// Reads returns how often the outbox was listed.
func (m *Mem) Reads() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reads
}

func (m *Mem) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}
