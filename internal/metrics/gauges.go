package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Store counts the operations that failed because it does not work.
type Store interface {
	Failures() int64
}

// A reading has the facts about a gateway at one moment.
type reading struct {
	state              *state.State
	stores             map[string]Store
	capacity           capacity.Facts
	sessions, programs int
}

// A gauge is a metric that is read when Prometheus asks. read passes each value with its label to
// out.
type gauge struct {
	name, help string
	label      string // "": none
	read       func(r reading, out func(value float64, label ...string))
}

// gauges are all gauges. A metric whose name ends in _total is a counter that the gateway keeps.
var gauges = []gauge{
	{
		"portcullis_health",
		"1 for the condition of the gateway: ok, degraded or failing.",
		"condition",
		readHealth,
	},
	{
		"portcullis_catalog_age_seconds",
		"Time since a sync confirmed the catalog; absent without a catalog.",
		"",
		readAge,
	},
	{
		"portcullis_config_stale",
		"1 if the stored config or policy is not in use.",
		"",
		func(r reading, out func(float64, ...string)) {
			out(number(r.state.Health.Config.Stale || r.state.Health.Policy.Stale))
		},
	},
	{
		"portcullis_tools",
		"Tools by status, for an agent that may use all servers and has no grant.",
		"status",
		readTools,
	},
	{
		"portcullis_servers",
		"Configured servers by the outcome of the last load.",
		"outcome",
		readServers,
	},
	{
		"portcullis_upstream_sessions",
		"Sessions with servers.",
		"",
		func(r reading, out func(float64, ...string)) { out(float64(r.sessions)) },
	},
	{
		"portcullis_programs",
		"Processes of servers that are programs.",
		"",
		func(r reading, out func(float64, ...string)) { out(float64(r.programs)) },
	},
	{
		"portcullis_requests_in_flight",
		"Requests in flight, except streams.",
		"",
		func(r reading, out func(float64, ...string)) { out(float64(r.capacity.Requests)) },
	},
	{
		"portcullis_connections",
		"Connections of clients.",
		"",
		func(r reading, out func(float64, ...string)) { out(float64(r.capacity.Connections)) },
	},
	{
		"portcullis_streams",
		"Streams that clients hold open.",
		"",
		func(r reading, out func(float64, ...string)) { out(float64(r.capacity.Streams)) },
	},
	{
		"portcullis_overload_refusals_total",
		"Requests that were refused because too many were in flight.",
		"",
		func(r reading, out func(float64, ...string)) { out(float64(r.capacity.Refused)) },
	},
	{
		"portcullis_store_errors_total",
		"Operations that failed because a store does not work.",
		"store",
		readStores,
	},
}

// everything is the agent whose tools the gauges count.
var everything = identity.Agent{
	ID:      "metrics",
	Servers: []string{"*"},
	Tiers:   []tool.Tier{tool.Read, tool.Write, tool.Destructive},
}

func readHealth(r reading, out func(float64, ...string)) {
	now := r.state.Health.Condition()
	for _, c := range []state.Condition{state.OK, state.Degraded, state.Failing} {
		out(number(c == now), string(c))
	}
}

func readAge(r reading, out func(float64, ...string)) {
	if at := r.state.Health.Sync.At; !at.IsZero() {
		out(time.Since(at).Seconds())
	}
}

func readTools(r reading, out func(float64, ...string)) {
	v, counts := r.state.View(everything), map[lock.Status]int{}
	for i := range v.Tools().All() {
		counts[v.Status(i)]++
	}
	out(float64(counts[lock.None]), "callable")
	for _, s := range lock.Statuses() {
		out(float64(counts[s]), string(s))
	}
}

func readServers(r reading, out func(float64, ...string)) {
	counts := map[string]int{}
	for _, s := range r.state.Servers() {
		switch {
		case !s.Config.Enabled:
			counts["disabled"]++
		case s.Outcome.Status == "":
			counts["unknown"]++
		default:
			counts[string(s.Outcome.Status)]++
		}
	}
	for _, s := range []outcome.Status{
		outcome.Available, outcome.Transient, outcome.Permanent, outcome.Denied,
		"unknown", "disabled",
	} {
		out(float64(counts[string(s)]), string(s))
	}
}

func readStores(r reading, out func(float64, ...string)) {
	for name, s := range r.stores {
		out(float64(s.Failures()), name)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// A collector reads the gauges of a program.
type collector struct {
	program *boot.Program
	stores  map[string]Store
	about   []*prometheus.Desc // of gauges
}

// Watch adds the gauges of a program, and of its stores by name.
func (x *Exporter) Watch(p *boot.Program, stores map[string]Store) {
	c := collector{program: p, stores: stores}
	for _, g := range gauges {
		var labels []string
		if g.label != "" {
			labels = []string{g.label}
		}
		c.about = append(c.about, prometheus.NewDesc(g.name, g.help, labels, nil))
	}
	x.registry.MustRegister(c)
}

// Describe implements [prometheus.Collector].
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.about {
		out <- d
	}
}

// Collect implements [prometheus.Collector]. It uses the state that the gateway has; see
// [Exporter.Handler].
func (c collector) Collect(out chan<- prometheus.Metric) {
	r := reading{
		state:    c.program.States.Current(),
		stores:   c.stores,
		capacity: c.program.Gate.Facts(),
	}
	r.sessions, r.programs = c.program.Upstream.Running()
	for i, g := range gauges {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(g.name, total) {
			kind = prometheus.CounterValue
		}
		g.read(r, func(value float64, label ...string) {
			out <- prometheus.MustNewConstMetric(c.about[i], kind, value, label...)
		})
	}
}
