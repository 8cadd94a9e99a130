package capacity

import (
	"cmp"
	"container/list"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// spare is how many requests for health are answered whatever else is in flight.
	spare = 16

	// retryAfter is when a request that was refused may come again, in seconds.
	retryAfter = "1"

	// recent is how long a refusal, or a lack of descriptors, counts as going on.
	recent = 30 * time.Second

	logEvery = time.Minute

	mostBody = 8 << 20 // bytes; a longer body is refused unread
)

// GateOptions are the knobs of a [Gate]. The zero value of each field stands for its default.
type GateOptions struct {
	Health string           // the path that is answered whatever else is in flight; "": none
	Agents string           // what paths of agents begin with; requests elsewhere have a quarter of the room
	Refuse http.HandlerFunc // answers what is refused, with the header Retry-After set; nil: 503 as text
	Now    func() time.Time // time.Now
	Log    *slog.Logger     // none
}

// A Gate bounds what a server takes at once: connections, requests in flight by their memory, and streams that
// are held open. What is over a bound is refused at once with 503. A nil Gate bounds nothing.
//
// Half of the descriptors are for connections of clients, so that servers, programs and stores have the rest.
// When a connection is too many, the one that has been idle longest is closed.
type Gate struct {
	o      GateOptions
	limits Limits

	maxConns, maxRequests, maxStreams int

	mu       sync.Mutex
	conns    int
	idle     list.List // of *conn, without a request in flight; the longest idle first
	used     int64     // bytes of requests in flight
	requests int       // in flight, except streams
	others   int       // of them, those that are not at a path of agents
	working  int       // of them, calls that may take long
	streams  int
	healths  int            // requests for health
	byOwner  map[string]int // requests by who made them

	refused   int64     // requests, since the start
	refusedAt time.Time // the last of them
	shortAt   time.Time // when a descriptor was last missing
	loggedAt  time.Time
}

// NewGate returns a Gate with these limits.
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

// A slot is what a request takes of a [Gate].
type slot struct {
	g        *Gate
	cost     int64
	isHealth bool
	isOther  bool
	isStream bool
	isWork   bool
	isOver   bool // it has given everything back
	owner    string
	conn     *conn
}

type slotKey struct{}

// slotOf returns what the request of ctx takes; nil: nothing, or not any more.
func slotOf(ctx context.Context) *slot {
	s, _ := ctx.Value(slotKey{}).(*slot)
	if s == nil || s.isOver {
		return nil
	}
	return s
}

// Handler returns h, whose requests the gate lets in or refuses. It goes with [Gate.Listener].
func (g *Gate) Handler(h http.Handler) http.Handler {
	if g == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &slot{g: g, isHealth: g.o.Health != "" && r.URL.Path == g.o.Health}
		s.isOther = !s.isHealth && !strings.HasPrefix(r.URL.Path, g.o.Agents)
		s.conn, _ = r.Context().Value(connKey{}).(*conn)
		if s.cost = requestCost + bodyCost*min(max(0, r.ContentLength), mostBody); s.isHealth {
			s.cost = 0
		}
		if !g.enter(s) { // its connection stays idle, so that one that sends slowly can be closed
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

// enter takes what a request needs, or reports that it is refused.
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

// refuse notes a refusal. The lock is held.
func (g *Gate) refuse() {
	g.refused++
	g.refusedAt = g.o.Now()
	if g.refusedAt.Sub(g.loggedAt) >= logEvery {
		g.loggedAt = g.refusedAt
		g.o.Log.LogAttrs(context.Background(), slog.LevelWarn, "requests refused, because too many are in flight",
			slog.Int("in_flight", g.requests), slog.Int64("bytes", g.used), slog.Int64("refused", g.refused))
	}
}

// leave gives back what a request took, once. From then on its connection may be closed.
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

// disown counts a request out that is not one of a kind any more. The lock is held.
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

// Leave gives back what the request of ctx took, before its end: it is refused, and all that is left is to say
// so to a client that may be slow.
func Leave(ctx context.Context) {
	if s := slotOf(ctx); s != nil {
		s.leave()
	}
}

// take calls f under the lock of the gate with what the request of ctx takes. It reports true if that is
// nothing, or not any more.
func take(ctx context.Context, f func(*Gate, *slot) bool) bool {
	s := slotOf(ctx)
	if s == nil {
		return true
	}
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	return f(s.g, s)
}

// SetBody says how long the body of the request of ctx is, which no header said before.
func SetBody(ctx context.Context, length int) {
	take(ctx, func(g *Gate, s *slot) bool {
		cost := requestCost + bodyCost*int64(length)
		g.used += cost - s.cost
		s.cost = cost
		return true
	})
}

// Hold reports whether the request of ctx may go on as a stream that is held open. Then it takes no room of
// other requests. Streams have a quarter of the connections.
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

// Claim reports whether the request of ctx may go on as one of an owner, who has half of the room.
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

// Work reports whether the request of ctx may go on to a server, which may take long. Such requests have three
// quarters of the room, so that others have some left.
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
