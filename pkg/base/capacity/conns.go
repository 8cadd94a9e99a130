package capacity

import (
	"container/list"
	"context"
	"net"
	"sync/atomic"
	"time"
)

const (
	// idleLeast is how long a connection without a request always stays open, because a request may
	// be on its way. A request whose header takes longer than headerLeast does not keep its
	// connection open.
	idleLeast   = 500 * time.Millisecond
	headerLeast = 2 * time.Second
	roomPoll    = 5 * time.Millisecond
	maxLooks    = 64 // maximum number of connections that closeIdle skips
)

// A conn is a connection of a client.
type conn struct {
	net.Conn
	g      *Gate
	at     *list.Element // in the list of idle connections; nil: it is busy or closed
	since  time.Time     // when it became idle
	read   atomic.Int64  // time of the last read of bytes, in Unix nanoseconds
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

// isIdle reports whether no request seems to be on its way: no bytes came recently, or they come
// too slowly.
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

// leave removes the connection from the count. The caller holds the gate's lock.
func (c *conn) leave() {
	if !c.closed {
		c.closed = true
		c.g.conns--
		c.leaveIdle()
	}
}

// leaveIdle removes the connection from the idle list, whose connections may be closed. The caller
// holds the gate's lock.
func (c *conn) leaveIdle() {
	if c.at != nil {
		c.g.idle.Remove(c.at)
		c.at = nil
	}
}

// busy records that a request of a connection is in flight. It returns false if the connection was
// closed in the meantime: nobody would read the answer.
func (g *Gate) busy(c *conn) bool {
	if c == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	c.leaveIdle()
	return !c.closed
}

// rest records that a connection is idle until its next request. The caller holds the gate's lock.
func (c *conn) rest() {
	if c != nil && !c.closed && c.at == nil {
		c.at, c.since = c.g.idle.PushBack(c), c.g.o.Now()
	}
}

// Listener wraps l so that the gate bounds its connections.
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

// Accept implements [net.Listener]. While there are too many connections, it closes the connection
// that has been idle longest, or waits until one ends.
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

// makeRoom reports whether one more connection may be accepted. If there are too many, it closes
// the connection that has been idle longest.
func (g *Gate) makeRoom() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conns < g.maxConns {
		return true
	}
	return g.closeIdle(1) > 0
}

// closeIdle closes up to n connections and starts with the longest idle. It skips connections that
// may have sent a request, at most maxLooks of them. The caller holds the lock.
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
			_ = c.Conn.Close() // no client waits for an answer on it
		}
	}
	return closed
}

// Short records that the process has no descriptor left, and closes some idle connections.
func (g *Gate) Short() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shortAt = g.o.Now()
	g.closeIdle((g.idle.Len() + 3) / 4)
}

// Facts describe the state of a [Gate].
type Facts struct {
	Requests    int   `json:"requests" doc:"requests in flight, except streams"`
	MaxRequests int   `json:"max_requests" doc:"maximum of requests in flight, by memory and descriptors"`
	Connections int   `json:"connections" doc:"connections of clients"`
	MaxConns    int   `json:"max_connections"`
	Streams     int   `json:"streams" doc:"streams that clients hold open"`
	Refused     int64 `json:"refused" doc:"requests that were answered with 503 since the start, because too many were in flight"`

	IsRefusing  bool `json:"-"` // it refused a request recently
	IsShort     bool `json:"-"` // a descriptor was missing recently, or is missing now
	Descriptors int  `json:"-"` // how many the process can have
}

// Facts returns the state of the gate. It opens a file to find out whether descriptors are left.
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
