package observe

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// Counts collects the values of one request that its log line counts, in addition to the request
// itself. The goroutine that answers the request sets the exported fields. Spans and server calls
// set the other fields, from any goroutine.
type Counts struct {
	IncludeDisabled bool   // a search asked for locked tools
	Nudged          bool   // its answer pointed the agent to locked tools
	Called          Target // target of the call, with its tier
	Blocked         Target // locked target of the call, with its lock status

	mu            sync.Mutex
	answered      *serverAnswer // the first answer; nil: the request reached no server
	store, search time.Duration // time in stores and in ranking
}

// A Target is the target of an agent's call. By is the value of the dimension under which the meter
// counts the call. The zero Target is none.
type Target struct{ Name, By string }

// A serverAnswer is the result of a load or a call of a server.
type serverAnswer struct {
	server, status, reason string
	took                   time.Duration
}

type countsKey struct{}

// Begin returns a context for one request. The meter adds all counts of that context to c.
func (m *Meter) Begin(ctx context.Context, c *Counts) context.Context {
	if m == nil {
		return ctx
	}
	return context.WithValue(ctx, countsKey{}, c)
}

func countsOf(ctx context.Context) *Counts {
	c, _ := ctx.Value(countsKey{}).(*Counts)
	return c
}

// spend adds to the time that the request spent on a kind of work.
func (c *Counts) spend(k Kind, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch k {
	case Open, Record:
		c.store += took
	case Search:
		c.search += took
	}
}

// Request returns the attributes of a request's log line. failed means a 5xx or a JSON-RPC internal
// error. The line names the target, so that the saved query "which locked tools do agents ask for"
// can group by it.
func (m *Meter) Request(c *Counts, took time.Duration, failed bool) []slog.Attr {
	if m == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &metricLine{}
	l.target("Tier", c.Called, "ToolCalls")
	if c.answered != nil {
		l.answer(*c.answered)
	}
	l.target("LockStatus", c.Blocked, "BlockedCalls")
	var values []Value
	if c.IncludeDisabled {
		values = append(values, count("IncludeDisabled", 1))
	}
	if c.Nudged {
		values = append(values, count("Nudges", 1))
	}
	values = append(values, count("Requests", 1), count("Errors", number(failed)), milliseconds("Latency", took))
	l.add(nil, slog.Attr{}, m.withMemory(values)...)
	for _, part := range []struct {
		name string
		took time.Duration
	}{{"store", c.store}, {"search", c.search}} {
		if part.took > 0 {
			l.members = append(l.members, text.Ms(part.name, part.took))
		}
	}
	return m.attrs(l)
}

// target counts the target of a call under a dimension.
func (l *metricLine) target(dimension string, t Target, metric string) {
	if t.Name != "" {
		l.add([]slog.Attr{slog.String(dimension, t.By)}, slog.String("target", t.Name), count(metric, 1))
	}
}

// answer counts the result of a load or a call of a server.
func (l *metricLine) answer(a serverAnswer) {
	l.add([]slog.Attr{slog.String("Status", a.status), slog.String("Reason", cmp.Or(a.reason, "none"))},
		slog.String("server", a.server), count("UpstreamOutcomes", 1), milliseconds("UpstreamDuration", a.took))
}

// Upstream counts the result of a load or a call of a server. Without a reason it counts the result
// under "none". If ctx belongs to no request, or the request's line already has a server, Upstream
// returns attributes for a separate line.
func (m *Meter) Upstream(ctx context.Context, server, status, reason string, took time.Duration) []slog.Attr {
	a := serverAnswer{server, status, reason, took}
	if c := countsOf(ctx); c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.answered == nil {
			c.answered = &a
			return nil
		}
	}
	l := &metricLine{}
	l.answer(a)
	return m.attrs(l)
}

// ColdStart returns the attributes of the log line for the start of a function's environment.
func (m *Meter) ColdStart(took time.Duration) []slog.Attr {
	l := &metricLine{}
	values := []Value{count("ColdStarts", 1), milliseconds("InitDuration", took)}
	l.add(nil, slog.Attr{}, m.withMemory(values)...)
	return m.attrs(l)
}

// A SyncRun is one sync.
type SyncRun struct {
	Result         string // ok, failed or skipped
	Servers, Tools int
	Took           time.Duration
	Catalog        *CatalogCounts // of the catalog in use after it; nil: none
}

// CatalogCounts says how old the catalog in use is, and whether the config or policy in use is
// stale.
type CatalogCounts struct {
	Age        time.Duration
	Stale      bool
	Memory     int // MB that the function behind /mcp should have for this catalog
	SyncMemory int // MB that the function that syncs should have for it
}

// Sync returns the attributes of the log line of a sync.
func (m *Meter) Sync(r SyncRun) []slog.Attr {
	l := &metricLine{}
	l.add([]slog.Attr{slog.String("Result", r.Result)}, slog.Attr{}, count("SyncRuns", 1), milliseconds("SyncDuration", r.Took),
		count("SyncServers", float64(r.Servers)), count("SyncTools", float64(r.Tools)))
	var values []Value
	if c := r.Catalog; c != nil {
		age := Value{"CatalogAge", "Seconds", c.Age.Seconds()}
		values = append(values, age, count("ConfigStale", number(c.Stale)),
			Value{"MemoryNeeded", "Megabytes", float64(c.Memory)},
			Value{"SyncMemoryNeeded", "Megabytes", float64(c.SyncMemory)})
	}
	l.add(nil, slog.Attr{}, m.withMemory(values)...)
	return m.attrs(l)
}

// GivenUp returns the attributes of the log line for notices that n targets will not get.
func (m *Meter) GivenUp(n int) []slog.Attr {
	l := &metricLine{}
	l.add(nil, slog.Attr{}, count("NoticesGivenUp", float64(n)))
	return m.attrs(l)
}

// withMemory adds the most memory that the process has used, at most once per memoryEvery.
func (m *Meter) withMemory(values []Value) []Value {
	if m == nil {
		return values
	}
	if used, ok := m.memory.nextPeak(m.now()); ok {
		values = append(values, Value{"MemoryUsed", "Megabytes", used})
	}
	return values
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
