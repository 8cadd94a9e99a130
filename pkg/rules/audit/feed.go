package audit

import (
	"context"
	"sync"
)

// Limits of a [Feed].
const (
	MaxFollowers = 64  // in one process
	maxUnread    = 128 // lines that wait for one follower
)

// A Feed is a [Sink] that passes each line to its followers. It never waits for a follower. The
// zero Feed is ready for use, and safe for concurrent use.
type Feed struct {
	mu        sync.Mutex
	followers map[*Follower]bool
}

var _ Sink = (*Feed)(nil)

// A Follower gets the lines that are written after its start.
type Follower struct {
	// Lines has the lines in the order in which they were written.
	Lines <-chan Line

	feed  *Feed
	lines chan Line
	lost  int
}

// Follow starts a follower, which the caller closes. It returns nil if there are [MaxFollowers].
func (f *Feed) Follow() *Follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.followers) >= MaxFollowers {
		return nil
	}
	if f.followers == nil {
		f.followers = map[*Follower]bool{}
	}
	lines := make(chan Line, maxUnread)
	w := &Follower{Lines: lines, feed: f, lines: lines}
	f.followers[w] = true
	return w
}

// Write implements [Sink]. A follower that does not keep up loses the line.
func (f *Feed) Write(_ context.Context, l Line) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.followers) == 0 {
		return nil
	}
	l = l.bounded()
	for w := range f.followers {
		select {
		case w.lines <- l:
		default:
			w.lost++
		}
	}
	return nil
}

// TakeLost returns how many lines the follower lost since the last call.
func (w *Follower) TakeLost() int {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	n := w.lost
	w.lost = 0
	return n
}

// Close ends the follower.
func (w *Follower) Close() {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	delete(w.feed.followers, w)
}
