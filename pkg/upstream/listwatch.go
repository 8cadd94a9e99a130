package upstream

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

const (
	maxListStreams = 64        // open at the same time
	recentUse      = time.Hour // servers with a call in this time come first

	// A stream that ends opens again after firstReopen. The wait doubles up to lastReopen, until a
	// stream has lived for steadyStream. Each wait has up to as much jitter.
	firstReopen  = time.Second
	lastReopen   = 5 * time.Minute
	steadyStream = time.Minute

	// maxListStream is the maximum life of a stream. The next stream uses the present credential.
	maxListStream = time.Hour

	// askNoStream is how long the gateway requests no stream from a server that has none.
	askNoStream = time.Hour

	// missedAfter is the age of the last report after which an opened stream counts as a report:
	// the server may have changed its lists while there was no stream.
	missedAfter = 5 * time.Minute
)

// A ListWatch reports which servers say that their lists have changed. It keeps a notification
// stream to each of at most 64 servers. Notifications of programs, and notifications during calls,
// count without such a stream. It is safe for concurrent use.
type ListWatch struct {
	c       *Client
	changed func(server string)

	mu      sync.Mutex
	watched map[string]bool // names of servers whose notifications count; nil: closed, or none yet
	streams map[string]*serverWatch
	running sync.WaitGroup
}

// A serverWatch is the stream of one server, or the wait for the next one.
type serverWatch struct {
	target    Target
	cancel    context.CancelFunc
	isWaiting atomic.Bool
}

// WatchLists returns a ListWatch, which watches no server until [ListWatch.Set] names some. It
// calls changed with the name of a server, from several goroutines and as often as servers send
// notifications. changed must not block. A client has one ListWatch at a time.
func (c *Client) WatchLists(changed func(server string)) *ListWatch {
	w := &ListWatch{c: c, changed: changed, streams: map[string]*serverWatch{}}
	c.watcher.Store(w)
	return w
}

// Set replaces the watched servers. It ends the streams of other servers, and of servers whose
// target is another than before. If more than 64 servers report changes, servers with a call in the
// last hour come first, then servers that have a stream, and servers whose last stream ended come
// last. Set does not wait for a server.
func (w *ListWatch) Set(targets []Target) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched = make(map[string]bool, len(targets))
	for _, t := range targets {
		w.watched[t.ID] = true
	}
	chosen := w.choose(targets)
	for id, s := range w.streams {
		if t, ok := chosen[id]; !ok || !reflect.DeepEqual(t, s.target) {
			s.cancel()
			delete(w.streams, id)
		}
	}
	for id, t := range chosen {
		if w.streams[id] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		s := &serverWatch{target: t, cancel: cancel}
		w.streams[id] = s
		w.running.Go(func() {
			defer cancel()
			w.keep(ctx, s)
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.streams[id] == s {
				delete(w.streams, id)
			}
		})
	}
}

// choose returns the targets that get a stream, by name, as they are used for it. The caller holds
// the lock.
func (w *ListWatch) choose(targets []Target) map[string]Target {
	type candidate struct {
		Target
		rank int
	}
	var all []candidate
	now := w.c.o.Now()
	for _, t := range targets {
		if t.Command != nil { // a program sends its notifications on its pipe
			continue
		}
		recent, ok := w.c.server(t).mayReport(now)
		if !ok {
			continue
		}
		rank := 0
		if !recent {
			rank = 3
		}
		switch s := w.streams[t.ID]; {
		case s == nil:
			rank++
		case s.isWaiting.Load():
			rank += 2
		}
		// These fields change with each load, and have no effect on a stream.
		t.Memory, t.Lists, t.Once = outcome.Memory{}, "", false
		all = append(all, candidate{t, rank})
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return a.rank - b.rank })
	chosen := map[string]Target{}
	for _, c := range all[:min(len(all), maxListStreams)] {
		chosen[c.ID] = c.Target
	}
	return chosen
}

// Close ends all streams and waits for their end.
func (w *ListWatch) Close() {
	w.Set(nil)
	w.c.watcher.CompareAndSwap(w, nil)
	w.running.Wait()
}

// note passes on that a server has changed its lists, if the server is watched.
func (w *ListWatch) note(server string) {
	w.mu.Lock()
	ok := w.watched[server]
	w.mu.Unlock()
	if ok {
		w.changed(server)
	}
}

// noteListChange passes on that a server has changed its lists, if there is a ListWatch.
func (c *Client) noteListChange(server string) {
	if w := c.watcher.Load(); w != nil {
		w.note(server)
	}
}

// keep keeps the stream of a server open until ctx ends, or until it finds that the server has
// none.
func (w *ListWatch) keep(ctx context.Context, s *serverWatch) {
	t, wait, heard := s.target, firstReopen, time.Now()
	note := func() {
		heard = time.Now()
		w.note(t.ID)
	}
	opened := func() {
		if time.Since(heard) >= missedAfter {
			note()
		}
	}
	for {
		began := time.Now()
		life, cancel := context.WithTimeout(ctx, maxListStream+w.c.o.Jitter(maxListStream/4))
		out, err := w.c.readListChanges(life, t, opened, note)
		isSteady := time.Since(began) >= steadyStream
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errNoListStream), errors.Is(err, errListEnded) && !isSteady:
			w.c.server(t).noteSilent(w.c.o.Now().Add(askNoStream))
			return
		case isSteady:
			wait = firstReopen
		case out.Status == outcome.Denied:
			wait = lastReopen
		}
		s.isWaiting.Store(true)
		sleep(ctx, max(wait+w.c.o.Jitter(wait), min(out.RetryAfter, askNoStream)))
		s.isWaiting.Store(false)
		if ctx.Err() != nil {
			return
		}
		wait = min(2*wait, lastReopen)
	}
}

// mayReport reports whether the server may have a notification stream, and whether it had a call in
// the last hour.
func (s *serverState) mayReport(now time.Time) (recent, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.used) < recentUse, s.reports != (reports{}) && !now.Before(s.silent)
}

// noteSilent records that the server has no notification stream. It counts until the time end.
func (s *serverState) noteSilent(end time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = end
}

// noteUse records a call.
func (s *serverState) noteUse(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = now
}
