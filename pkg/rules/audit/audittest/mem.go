// Package audittest helps to test the audit. It has [Run], which checks the promises of every
// audit.Events, and [Mem], a working implementation in memory that fails on demand.
package audittest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// A Mem is an [audit.Events] in memory. The zero value is ready to use.
type Mem struct {
	OnPut  func(l audit.Line) error // before a write; its error is the result
	OnRead func() error             // before a read

	mu     sync.Mutex
	lines  []audit.Line // in the order of the writes
	states map[string]string
	reads  int
}

var _ audit.Events = (*Mem)(nil)

// Lines returns the lines in the order of the writes.
func (m *Mem) Lines() []audit.Line {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.lines)
}

// Reads returns how often lines were read since its last call.
func (m *Mem) Reads() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.reads
	m.reads = 0
	return n
}

// PutEvent implements [audit.Events].
func (m *Mem) PutEvent(ctx context.Context, l audit.Line) error {
	_, err := m.put(ctx, l, func() bool { return true })
	return err
}

// PutChange implements [audit.Events].
func (m *Mem) PutChange(ctx context.Context, l audit.Line, state string) (bool, error) {
	return m.put(ctx, l, func() bool {
		if m.states == nil {
			m.states = map[string]string{}
		}
		held, ok := m.states[l.Subject]
		m.states[l.Subject] = state
		return !ok || held != state
	})
}

func (m *Mem) put(ctx context.Context, l audit.Line, due func() bool) (bool, error) {
	if m.OnPut != nil {
		if err := m.OnPut(l); err != nil {
			return false, err
		}
	}
	if err := cmp.Or(ctx.Err(), audit.CheckEvent(l)); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !due() {
		return false, nil
	}
	l.Cursor = audit.Cursor(fmt.Sprintf("%020d#%09d", l.Time.UnixNano(), len(m.lines)))
	m.lines = append(m.lines, l)
	return true, nil
}

// most is how many lines one read examines.
const most = 300

// Events implements [audit.Events].
func (m *Mem) Events(ctx context.Context, f audit.Filter, after audit.Cursor, limit int) (page []audit.Line, next audit.Cursor, err error) {
	if m.OnRead != nil {
		if err := m.OnRead(); err != nil {
			return nil, "", err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if after != "" {
		if _, err := strconv.ParseInt(string(after[:min(20, len(after))]), 10, 64); err != nil || len(after) != 30 {
			return nil, "", fmt.Errorf("%q: %w", after, audit.ErrCursor)
		}
	}
	lines := slices.SortedFunc(slices.Values(m.lines), func(a, b audit.Line) int { return cmp.Compare(b.Cursor, a.Cursor) })
	read := 0
	for _, l := range lines {
		if after != "" && l.Cursor >= after {
			continue
		}
		if len(page) == limit || read == most {
			return page, next, ctx.Err()
		}
		read++
		if next = l.Cursor; f.Wants(l) {
			page = append(page, l)
		}
	}
	return page, "", ctx.Err()
}
