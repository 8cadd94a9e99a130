package capacity

import (
	"cmp"
	"container/list"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// spare is how many health requests are always answered, however many others are in flight.
	spare = 16

	// retryAfter is how many seconds a client waits after a refusal before it tries again.
	retryAfter = "1"

	// recent is how long a refusal, or a lack of descriptors, counts as current.
	recent = 30 * time.Second

	logEvery = time.Minute

	drainPoll = 20 * time.Millisecond // between two looks at the requests in flight

	mostBody = 8 << 20 // bytes; a longer body is refused before it is read
)

// GateOptions are the settings of a [Gate]. A field with its zero value uses the default.
type GateOptions struct {
	Health []string         // paths that are always answered
	Agents string           // prefix of agents' paths; other requests get a quarter of the memory
	Refuse http.HandlerFunc // answers refused requests, with Retry-After set; nil: 503 as text
	Now    func() time.Time // nil: time.Now
	Log    *slog.Logger     // nil: no log
}

// A Gate limits the connections, the memory of requests in flight, and the open streams of a
// server. It refuses what exceeds a limit immediately, with 503. A nil Gate limits nothing.
//
// Half of the descriptors are for connections of clients. The others are for servers, programs and
// stores. If there is one connection too many, the gate closes the connection that has been idle
// longest.
type Gate struct {
	o      GateOptions
	limits Limits

	maxConns, maxRequests, maxStreams int

	mu       sync.Mutex
	conns    int
	idle     list.List // of *conn, without a request in flight; the longest idle first
	used     int64     // bytes of requests in flight
	requests int       // in flight, except streams
	others   int       // requests in flight at paths that are not for agents
	working  int       // calls in flight that may take long
	streams  int
	healths  int            // health requests in flight
	byOwner  map[string]int // requests in flight by owner

	refused   int64     // requests refused since the start
	refusedAt time.Time // time of the last refusal
	shortAt   time.Time // time when a descriptor was last missing
	loggedAt  time.Time
}

// NewGate returns a Gate with the given limits.
func NewGate(l Limits, o *GateOptions) *Gate {
	g := &Gate{limits: l, byOwner: map[string]int{}}
	if o != nil {
		g.o = *o
	}
	if g.o.Refuse == nil {
		g.o.Refuse = func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "too many requests are in flight", http.StatusServiceUnavailable)
		}
	}
	if g.o.Now == nil {
		g.o.Now = time.Now
	}
	g.o.Log = cmp.Or(g.o.Log, slog.New(slog.DiscardHandler))
	fit := int(l.Memory / requestCost)
	g.maxConns = max(2*spare, min(l.Descriptors/2, 2*fit))
	g.maxRequests = min(fit, g.maxConns/2)
	g.maxStreams = g.maxConns / 4
	return g
}

// A slot is the share of a [Gate] that a request uses.
type slot struct {
	g        *Gate
	cost     int64
	isHealth bool
	isOther  bool
	isStream bool
	isWork   bool
	isOver   bool // the request has released everything
	owner    string
	conn     *conn
}

type slotKey struct{}

// Drain waits until no request is in flight, except streams and health requests, or until ctx ends.
// It returns how many are in flight.
func (g *Gate) Drain(ctx context.Context) int {
	if g == nil {
		return 0
	}
	look := time.NewTicker(drainPoll)
	defer look.Stop()
	for {
		g.mu.Lock()
		left := g.requests
		g.mu.Unlock()
		if left == 0 {
			return 0
		}
		select {
		case <-ctx.Done():
			return left
		case <-look.C:
		}
	}
}

// slotOf returns the slot of the request of ctx. It returns nil if the request has no slot or has
// released it.
func slotOf(ctx context.Context) *slot {
	s, _ := ctx.Value(slotKey{}).(*slot)
	if s == nil || s.isOver {
		return nil
	}
	return s
}

// Handler wraps h so that the gate admits or refuses its requests. Use it with [Gate.Listener].
func (g *Gate) Handler(h http.Handler) http.Handler {
	if g == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &slot{g: g, isHealth: slices.Contains(g.o.Health, r.URL.Path)}
		s.isOther = !s.isHealth && !strings.HasPrefix(r.URL.Path, g.o.Agents)
		s.conn, _ = r.Context().Value(connKey{}).(*conn)
		if s.cost = requestCost + bodyCost*min(max(0, r.ContentLength), mostBody); s.isHealth {
			s.cost = 0
		}
		// the connection still counts as idle, so that the gate can close it if the client is slow
		if !g.enter(s) {
			w.Header().Set("Retry-After", retryAfter)
			g.o.Refuse(w, r)
			return
		}
		defer s.leave()
		if !g.busy(s.conn) {
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), slotKey{}, s)))
	})
}

// enter reserves what a request needs, or reports that the request is refused.
func (g *Gate) enter(s *slot) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	isFull := g.requests >= g.maxRequests || g.requests > 0 && g.used+s.cost > g.limits.Memory
	switch {
	case s.isHealth && g.healths < spare:
		g.healths++
		return true
	case s.isHealth, isFull, s.isOther && g.others >= g.maxRequests/4:
		g.refuse()
		return false
	}
	g.requests++
	g.used += s.cost
	if s.isOther {
		g.others++
	}
	return true
}

// refuse records a refusal. The caller holds the lock.
func (g *Gate) refuse() {
	g.refused++
	g.refusedAt = g.o.Now()
	if g.refusedAt.Sub(g.loggedAt) >= logEvery {
		g.loggedAt = g.refusedAt
		g.o.Log.LogAttrs(context.Background(), slog.LevelWarn, "requests refused, because too many are in flight",
			slog.Int("in_flight", g.requests), slog.Int64("bytes", g.used), slog.Int64("refused", g.refused))
	}
}

// leave releases the request's share, once. After that, its connection may be closed.
func (s *slot) leave() {
	g := s.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.isOver {
		return
	}
	s.isOver = true
	s.conn.rest()
	g.used -= s.cost
	switch {
	case s.isHealth:
		g.healths--
	case s.isStream:
		g.streams--
	default:
		g.requests--
		s.disown()
	}
}

// disown removes the request from the count of its owner. The caller holds the lock.
func (s *slot) disown() {
	g := s.g
	if s.isOther {
		g.others--
	}
	if s.isWork {
		g.working--
	}
	if s.owner != "" {
		if g.byOwner[s.owner]--; g.byOwner[s.owner] == 0 {
			delete(g.byOwner, s.owner)
		}
	}
}

// Leave releases the share of the request of ctx before the request ends. Call it for a refused
// request: the gateway only has to send the refusal, perhaps to a slow client.
func Leave(ctx context.Context) {
	if s := slotOf(ctx); s != nil {
		s.leave()
	}
}

// take calls f with the slot of the request of ctx, under the lock of the gate. It returns true if
// the request has no slot or has released it.
func take(ctx context.Context, f func(*Gate, *slot) bool) bool {
	s := slotOf(ctx)
	if s == nil {
		return true
	}
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	return f(s.g, s)
}

// SetBody sets the length of the body of the request of ctx, if no header gave the length.
func SetBody(ctx context.Context, length int) {
	take(ctx, func(g *Gate, s *slot) bool {
		cost := requestCost + bodyCost*int64(length)
		g.used += cost - s.cost
		s.cost = cost
		return true
	})
}

// Hold reports whether the request of ctx may continue as an open stream. An open stream uses none
// of the memory for other requests. Streams may use a quarter of the connections.
func Hold(ctx context.Context) bool {
	return take(ctx, func(g *Gate, s *slot) bool {
		if g.streams >= g.maxStreams {
			return false
		}
		g.streams++
		g.requests--
		g.used -= s.cost
		s.disown()
		s.isStream, s.cost = true, 0
		return true
	})
}

// Claim reports whether the request of ctx may continue for an owner. One owner may use half of the
// memory.
func Claim(ctx context.Context, owner string) bool {
	return take(ctx, func(g *Gate, s *slot) bool {
		if g.byOwner[owner] >= g.maxRequests/2 {
			g.refuse()
			return false
		}
		g.byOwner[owner]++
		s.owner = owner
		return true
	})
}

// Work reports whether the request of ctx may call a server, which may take long. Such requests may
// use three quarters of the memory, so that others have some left.
func Work(ctx context.Context) bool {
	return take(ctx, func(g *Gate, s *slot) bool {
		if g.working >= g.maxRequests*3/4 {
			g.refuse()
			return false
		}
		g.working++
		s.isWork = true
		return true
	})
}
