package usage

import (
	"sync"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Metric is a kind of event that usage counts. Stores keep counts by the metric's number, so add
// a new metric at the end.
type Metric int

// The metrics.
const (
	CallsRead Metric = iota // calls that the gateway sent to a server, by tier
	CallsWrite
	CallsDestructive
	CallsOther // for prompts and resources, and for tools that the catalog no longer has
	LockedServerDisabled
	LockedByConfig
	LockedByUser
	LockedPending
	LockedUnknown
	RefusedTier
	RefusedScope
	RefusedStopped
	RefusedFaulty
	FailedTransient // calls that the gateway sent and that failed, by outcome
	FailedPermanent
	FailedDenied
	FailedCancelled
	SearchesHit    // searches that found something callable
	SearchesBarren // searches that found nothing callable
	metricCount
)

// Counts has the count of each metric.
type Counts [metricCount]int

// Add adds other to c.
func (c *Counts) Add(other *Counts) {
	for m, n := range other {
		c[m] += n
	}
}

// Sum returns the sum of some metrics.
func (c *Counts) Sum(metrics ...Metric) (n int) {
	for _, m := range metrics {
		n += c[m]
	}
	return n
}

// A group is a set of metrics that pages show together. No event counts in two metrics of a group,
// so their counts can be added.
type group struct {
	name, title string
	metrics     []named
}

type named struct {
	Metric
	name, words string
}

// groups returns the metrics with their names.
func groups() []group {
	return []group{
		{"calls", "Calls by tier", []named{
			{CallsRead, tool.Read.String(), "read"}, {CallsWrite, tool.Write.String(), "write"}, {CallsDestructive, tool.Destructive.String(), "destructive"},
			{CallsOther, "other", "other"},
		}},
		{"locked", "Calls of locked tools, by reason", []named{
			{LockedPending, string(lock.PendingApproval), "pending approval"}, {LockedByUser, string(lock.DisabledByUser), "disabled by user"},
			{LockedByConfig, string(lock.DisabledByConfig), "disabled by config"}, {LockedServerDisabled, string(lock.ServerDisabled), "server disabled"},
			{LockedUnknown, string(lock.DisabledUnknown), "disabled unknown"},
		}},
		{"refused", "Other refusals", []named{
			{RefusedTier, audit.Tier, "tier"}, {RefusedScope, audit.Scope, "not in scope"}, {RefusedStopped, audit.Stopped, "stopped"}, {RefusedFaulty, audit.Refused, "faulty request"},
		}},
		{"errors", "Calls that failed, by outcome", []named{
			{FailedTransient, string(outcome.Transient), "transient"}, {FailedPermanent, string(outcome.Permanent), "permanent"},
			{FailedDenied, string(outcome.Denied), "denied"}, {FailedCancelled, audit.Cancelled, "cancelled"},
		}},
		{"searches", "Searches", []named{
			{SearchesHit, "hit", "found something callable"}, {SearchesBarren, "barren", "found nothing callable"},
		}},
	}
}

// metricOf returns the metric with a name in a group.
func metricOf(in, name string) (Metric, bool) {
	m, ok := byName()[[2]string{in, name}]
	return m, ok
}

var byName = sync.OnceValue(func() map[[2]string]Metric {
	out := map[[2]string]Metric{}
	for _, g := range groups() {
		for _, m := range g.metrics {
			out[[2]string{g.name, m.name}] = m.Metric
		}
	}
	return out
})
