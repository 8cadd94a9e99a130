package observe

import (
	"context"
	"log/slog"
	"time"
)

// Request counts a request that [Meter.Begin] began: failed is a 5xx, or a JSON-RPC internal
// error. It returns all that was counted in the request, for its log line.
func (m *Meter) Request(ctx context.Context, took time.Duration, failed bool) []slog.Attr {
	l := lineOf(ctx)
	l.add(nil, slog.Attr{}, count("Requests", 1), count("Errors", number(failed)), milliseconds("Latency", took))
	m.countMemory(l)
	return m.attrs(l)
}

// Discovery counts one search of a request: whether it asked for locked tools, and
// whether the answer pointed the agent to them.
func (m *Meter) Discovery(ctx context.Context, includeDisabled, nudged bool) {
	l := lineOf(ctx)
	if includeDisabled {
		l.add(nil, slog.Attr{}, count("IncludeDisabled", 1))
	}
	if nudged {
		l.add(nil, slog.Attr{}, count("Nudges", 1))
	}
}

// Call counts a tool call that goes upstream, by tier. The line names the tool as target.
func (m *Meter) Call(ctx context.Context, tool, tier string) {
	lineOf(ctx).add([]slog.Attr{slog.String("Tier", tier)}, slog.String("target", tool), count("ToolCalls", 1))
}

// Blocked counts a call of a locked tool, by lock status. The line names the tool as target,
// by which the saved query "which locked tools do agents ask for" groups.
func (m *Meter) Blocked(ctx context.Context, tool, status string) {
	lineOf(ctx).add([]slog.Attr{slog.String("LockStatus", status)}, slog.String("target", tool), count("BlockedCalls", 1))
}

// Upstream counts how a load or a call of a server ended; without a reason, under "none". It
// returns attributes for a line of its own where ctx is no request's, or its line has a server.
func (m *Meter) Upstream(ctx context.Context, server, status, reason string, took time.Duration) []slog.Attr {
	if reason == "" {
		reason = "none"
	}
	count := func(l *metricLine) bool {
		return l.add([]slog.Attr{slog.String("Status", status), slog.String("Reason", reason)}, slog.String("server", server),
			count("UpstreamOutcomes", 1), milliseconds("UpstreamDuration", took))
	}
	if l := lineOf(ctx); l != nil && count(l) {
		return nil
	}
	own := &metricLine{}
	count(own)
	return m.attrs(own)
}

// ColdStart returns the attributes of the line of a start of a function's environment.
func (m *Meter) ColdStart(took time.Duration) []slog.Attr {
	l := &metricLine{}
	l.add(nil, slog.Attr{}, count("ColdStarts", 1), milliseconds("InitDuration", took))
	m.countMemory(l)
	return m.attrs(l)
}

// A SyncRun is one sync.
type SyncRun struct {
	Result         string // ok, failed or skipped
	Servers, Tools int
	Took           time.Duration
	Catalog        *CatalogCounts // in use after it; nil: none
}

// CatalogCounts says how old the catalog in use is, and whether config or policy in use is a stale
// one.
type CatalogCounts struct {
	Age   time.Duration
	Stale bool
}

// Sync returns the attributes of the line of a sync.
func (m *Meter) Sync(r SyncRun) []slog.Attr {
	l := &metricLine{}
	l.add([]slog.Attr{slog.String("Result", r.Result)}, slog.Attr{}, count("SyncRuns", 1), milliseconds("SyncDuration", r.Took),
		count("SyncServers", float64(r.Servers)), count("SyncTools", float64(r.Tools)))
	if c := r.Catalog; c != nil {
		l.add(nil, slog.Attr{}, metricValue{"CatalogAge", "Seconds", c.Age.Seconds()}, count("ConfigStale", number(c.Stale)))
	}
	m.countMemory(l)
	return m.attrs(l)
}

// GivenUp returns the attributes of the line of notices that n targets will not get.
func (m *Meter) GivenUp(n int) []slog.Attr {
	l := &metricLine{}
	l.add(nil, slog.Attr{}, count("NoticesGivenUp", float64(n)))
	return m.attrs(l)
}

// countMemory counts the most memory that the process has used, now and then.
func (m *Meter) countMemory(l *metricLine) {
	if m == nil || l == nil {
		return
	}
	if used, ok := m.memory.due(m.now()); ok {
		l.add(nil, slog.Attr{}, metricValue{"MemoryUsed", "Megabytes", used})
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
