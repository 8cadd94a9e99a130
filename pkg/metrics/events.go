package metrics

import "time"

// A Request is one answered HTTP request of the MCP endpoint.
type Request struct {
	Method    string // JSON-RPC method; a property
	Tool      string // tool that was called, "" for none; a property
	Agent     string // a property
	RequestID string // a property
	Duration  time.Duration
	Failed    bool // a 5xx, or a JSON-RPC internal error
}

// Request records requests, errors and latency.
func (e *Emitter) Request(r Request) error {
	failed := 0.0
	if r.Failed {
		failed = 1
	}
	return e.Emit(Event{
		Metrics: []Metric{
			{"Requests", Count, 1},
			{"Errors", Count, failed},
			{"Latency", Milliseconds, float64(r.Duration.Microseconds()) / 1000},
		},
		Properties: properties("method", r.Method, "tool", r.Tool, "agent", r.Agent, "request_id", r.RequestID),
	})
}

// Discovery records one search: whether it asked for locked tools, and
// whether the answer nudged the agent towards them.
func (e *Emitter) Discovery(agent string, includeDisabled, nudged bool) error {
	var m []Metric
	if includeDisabled {
		m = append(m, Metric{"IncludeDisabled", Count, 1})
	}
	if nudged {
		m = append(m, Metric{"Nudges", Count, 1})
	}
	if m == nil {
		return nil
	}
	return e.Emit(Event{Metrics: m, Properties: properties("agent", agent)})
}

// Call records a tool call that went upstream, by tier.
func (e *Emitter) Call(agent, tool, tier string) error {
	return e.Emit(Event{
		Metrics:    []Metric{{"ToolCalls", Count, 1}},
		Dimensions: []Field{{"Tier", tier}},
		Properties: properties("agent", agent, "tool", tool),
	})
}

// Blocked records a call of a locked tool, by lock status. The tool's name is
// a property: the saved query "which locked tools do agents ask for" reads it.
func (e *Emitter) Blocked(agent, tool, status string) error {
	return e.Emit(Event{
		Metrics:    []Metric{{"BlockedCalls", Count, 1}},
		Dimensions: []Field{{"LockStatus", status}},
		Properties: properties("agent", agent, "tool", tool),
	})
}

// Upstream records how a load or a call of a server ended. An available
// server has no reason; it is counted under "none".
func (e *Emitter) Upstream(server, status, reason string, took time.Duration) error {
	if reason == "" {
		reason = "none"
	}
	return e.Emit(Event{
		Metrics: []Metric{
			{"UpstreamOutcomes", Count, 1},
			{"UpstreamDuration", Milliseconds, float64(took.Microseconds()) / 1000},
		},
		Dimensions: []Field{{"Status", status}, {"Reason", reason}},
		Properties: properties("server", server),
	})
}

// Catalog records how old the catalog in use is and whether the config in use is a
// stale one.
func (e *Emitter) Catalog(age time.Duration, configStale bool) error {
	stale := 0.0
	if configStale {
		stale = 1
	}
	return e.Emit(Event{Metrics: []Metric{
		{"CatalogAge", Seconds, age.Seconds()},
		{"ConfigStale", Count, stale},
	}})
}

// ColdStart records one start of a function's environment.
func (e *Emitter) ColdStart(took time.Duration) error {
	return e.Emit(Event{Metrics: []Metric{
		{"ColdStarts", Count, 1},
		{"InitDuration", Milliseconds, float64(took.Microseconds()) / 1000},
	}})
}

// Sync records one sync run; result is "ok", "failed" or "skipped".
func (e *Emitter) Sync(result string, servers, tools int, took time.Duration) error {
	return e.Emit(Event{
		Metrics: []Metric{
			{"SyncRuns", Count, 1},
			{"SyncDuration", Milliseconds, float64(took.Microseconds()) / 1000},
			{"SyncServers", Count, float64(servers)},
			{"SyncTools", Count, float64(tools)},
		},
		Dimensions: []Field{{"Result", result}},
	})
}

// properties pairs names with values and leaves the empty ones out.
func properties(pairs ...string) []Field {
	var out []Field
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, Field{pairs[i], pairs[i+1]})
		}
	}
	return out
}
