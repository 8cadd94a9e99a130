package capacity

import (
	"container/list"
	"context"
	"net"
	"sync/atomic"
	"time"
)

const (
	// idleLeast is how long a connection without a request stays open in any case: a request may be on its way.
	// A request whose header takes longer than headerLeast does not keep its connection open.
	idleLeast   = 500 * time.Millisecond
	headerLeast = 2 * time.Second
	roomPoll    = 5 * time.Millisecond
	maxLooks    = 64 // at connections on which a request may be on its way
)

// A conn is a connection of a client.
type conn struct {
	net.Conn
	g      *Gate
	at     *list.Element // among the idle ones; nil: a request is in flight, or it is closed
	since  time.Time     // when it became idle
	read   atomic.Int64  // when bytes were last read of it, in Unix nanoseconds
	closed bool
}

type connKey struct{}

// WithConn returns ctx for the requests of a connection that the gate's listener accepted.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.read.Store(c.g.o.Now().UnixNano())
	}
	return n, err
}

// isIdle reports whether no request seems to be on its way: nothing has come of late, or it comes too slowly.
func (c *conn) isIdle(now time.Time) bool {
	isQuiet := now.Sub(time.Unix(0, c.read.Load())) >= idleLeast || now.Sub(c.since) >= headerLeast
	return isQuiet && !hasUnread(c.Conn)
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.g.mu.Lock()
	c.leave()
	c.g.mu.Unlock()
	return c.Conn.Close()
}

// leave counts the connection out. The gate's lock is held.
func (c *conn) leave() {
	if !c.closed {
		c.closed = true
		c.g.conns--
		c.leaveIdle()
	}
}

// leaveIdle takes the connection out of those that may be closed. The gate's lock is held.
func (c *conn) leaveIdle() {
	if c.at != nil {
		c.g.idle.Remove(c.at)
		c.at = nil
	}
}

// busy notes that a request of a connection is in flight. It returns false if the connection was closed at this
// moment, so that nobody would read the answer.
func (g *Gate) busy(c *conn) bool {
	if c == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	c.leaveIdle()
	return !c.closed
}

// rest notes that a connection waits for its next request. The gate's lock is held.
func (c *conn) rest() {
	if c != nil && !c.closed && c.at == nil {
		c.at, c.since = c.g.idle.PushBack(c), c.g.o.Now()
	}
}

// Listener returns l, whose connections the gate bounds.
func (g *Gate) Listener(l net.Listener) net.Listener {
	if g == nil {
		return l
	}
	return &listener{l, g}
}

type listener struct {
	net.Listener
	g *Gate
}

// Accept implements [net.Listener]. While there are too many connections it closes the one that has been idle
// longest, or waits for one to end.
func (l *listener) Accept() (net.Conn, error) {
	for !l.g.makeRoom() {
		time.Sleep(roomPoll)
	}
	accepted, err := l.Listener.Accept()
	if IsDescriptors(err) {
		l.g.Short()
	}
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, g: l.g}
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	l.g.conns++
	c.rest()
	return c, nil
}

// makeRoom reports whether one more connection may be accepted. If there are too many, it closes the one that
// has been idle longest.
func (g *Gate) makeRoom() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conns < g.maxConns {
		return true
	}
	return g.closeIdle(1) > 0
}

// closeIdle closes up to n connections, those first that have been idle longest. It leaves those that may have
// sent a request, and looks at no more than a few of them. The lock is held.
func (g *Gate) closeIdle(n int) (closed int) {
	now := g.o.Now()
	next := g.idle.Front()
	for left := 0; next != nil && closed < n && left < maxLooks; {
		c := next.Value.(*conn)
		next = next.Next()
		switch {
		case now.Sub(c.since) < idleLeast:
			return closed
		case !c.isIdle(now):
			left++
		default:
			c.leave()
			closed++
			_ = c.Conn.Close() // nobody waits for anything on it
		}
	}
	return closed
}

// Short notes that a descriptor was missing, and closes a part of the idle connections.
func (g *Gate) Short() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shortAt = g.o.Now()
	g.closeIdle((g.idle.Len() + 3) / 4)
}

// Facts are what a [Gate] knows of itself.
type Facts struct {
	Requests    int   `json:"requests" doc:"that are in flight, except streams"`
	MaxRequests int   `json:"max_requests" doc:"that may be, by the limits of memory and of descriptors"`
	Connections int   `json:"connections" doc:"of clients"`
	MaxConns    int   `json:"max_connections"`
	Streams     int   `json:"streams" doc:"that are held open"`
	Refused     int64 `json:"refused" doc:"requests that were answered with 503 since the start, because too many were in flight"`

	IsRefusing  bool `json:"-"` // it refused one of late
	IsShort     bool `json:"-"` // a descriptor was missing of late, or is
	Descriptors int  `json:"-"` // that the process can have
}

// Facts returns how the gate is. It opens a file to see whether one can be opened.
func (g *Gate) Facts() Facts {
	short := IsDescriptors(Probe())
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.o.Now()
	if short {
		g.shortAt = now
	}
	of := func(at time.Time) bool { return !at.IsZero() && now.Sub(at) < recent }
	return Facts{
		Requests: g.requests, MaxRequests: g.maxRequests, Connections: g.conns, MaxConns: g.maxConns,
		Streams: g.streams, Refused: g.refused,
		IsRefusing: of(g.refusedAt), IsShort: of(g.shortAt), Descriptors: g.limits.Descriptors,
	}
}
