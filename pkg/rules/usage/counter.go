package usage

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Unit is the length of the time that one tally of a [Store] covers.
type Unit time.Duration

// The units.
const (
	Minute = Unit(time.Minute)
	Hour   = Unit(time.Hour)
)

// How many of the newest minutes and hours a [Store] keeps: two hours of minutes, of which the last
// hour is read, and a month of hours. The limit is a number, not an age. So a store keeps its
// tallies if a clock jumps ahead.
const (
	KeepMinutes = 2 * 60
	KeepHours   = 31 * 24
)

// A Store keeps tallies. Every implementation passes usagetest.Run.
type Store interface {
	// Add adds the tallies of minutes, by start time, to the stored tallies of these minutes and of
	// their hours: all of them or, with an error, none. It removes the oldest tallies beyond
	// [KeepMinutes] and [KeepHours].
	Add(ctx context.Context, minutes map[time.Time]*Tally) error

	// Each calls the function do for each stored minute or hour that begins in [from, to), the
	// oldest first. The tally is valid only during the call.
	Each(ctx context.Context, u Unit, from, to time.Time, do func(start time.Time, t *Tally)) error
}

const (
	// FlushEvery is how often [Counter.Run] writes: a killed process loses the counts since the
	// last write.
	FlushEvery = 5 * time.Second

	// maxPending is how many minutes stay in memory while the store cannot be written.
	maxPending = 60

	// maxName is the longest name of an agent, in characters.
	maxName = 128
)

// A Counter counts audit lines, and is the [Source] of these counts. It is safe for concurrent
// use.
type Counter struct {
	store Store
	known func(context.Context, tool.ID) (tool.Tier, bool)
	now   func() time.Time
	log   *slog.Logger

	mu      sync.Mutex
	pending map[time.Time]*Tally // by minute
	last    *Tally               // of the last counted minute
	minute  time.Time

	flushing sync.Mutex
}

var (
	_ Source     = (*Counter)(nil)
	_ ToolSource = (*Counter)(nil)

	_ AgentSource = (*Counter)(nil)
)

// Options are the options of a [Counter].
type Options struct {
	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: none
}

// NewCounter returns a counter that keeps its tallies in store. known returns the tier of a tool,
// and reports whether the catalog has the tool. The counter does not store other names, because
// agents can send any text as a name.
func NewCounter(store Store, known func(context.Context, tool.ID) (tool.Tier, bool), o *Options) *Counter {
	c := &Counter{store: store, known: known, now: time.Now, log: slog.New(slog.DiscardHandler), pending: map[time.Time]*Tally{}}
	if o != nil && o.Now != nil {
		c.now = o.Now
	}
	if o != nil && o.Log != nil {
		c.log = o.Log
	}
	return c
}

// Write counts the line of a call. It implements [audit.Sink], and never fails: a count must not
// make a call fail.
func (c *Counter) Write(ctx context.Context, l audit.Line) error {
	if l.Kind != audit.KindCall || l.IsAboutTask() {
		return nil
	}
	id, err := tool.ParseID(l.Tool)
	tier, known := tool.Destructive, false
	if err == nil {
		tier, known = c.known(ctx, id)
	}
	p := Pair{Agent: text.Clip(l.Agent, maxName)}
	if known || err != nil && l.Found != nil { // a search is the gateway's own tool
		p.Tool = l.Tool
	}
	var named []string
	if l.Found != nil {
		for _, name := range l.Found.Shown {
			if id, err := tool.ParseID(name); err == nil {
				if _, ok := c.known(ctx, id); ok {
					named = append(named, name)
				}
			}
		}
	}
	at := l.Time
	if at.IsZero() {
		at = c.now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tally(at.UTC().Truncate(time.Minute))
	t.Latency.Observe(l.Ms)
	m, u := measure(l, err == nil, known && id.Kind == tool.Tool, tier)
	for _, m := range m {
		t.Counts[m]++
	}
	if u != (Use{}) {
		t.Use(p).Add(u)
	}
	for _, name := range named {
		t.Use(Pair{p.Agent, name}).Found++
	}
	return nil
}

// measure returns the metrics that a line adds one to, and the use that it counts as. item says
// that the line is about an item of a server. isTool says that the item is a tool in the catalog.
func measure(l audit.Line, item, isTool bool, tier tool.Tier) (m []Metric, u Use) {
	if l.Found != nil {
		u.Searches = 1
		if l.Found.Callable > 0 {
			return append(m, SearchesHit), u
		}
		return append(m, SearchesBarren), u
	}
	switch l.Decision {
	case audit.Locked:
		u.Locked = 1
		reason, ok := metricOf("locked", l.Status)
		if !ok {
			reason = LockedUnknown
		}
		return append(m, reason), u
	case audit.Allowed:
		if !item { // the gateway's own tools
			return nil, u
		}
		u.Calls = 1
		m = append(m, callOf(isTool, tier))
		if failed, ok := metricOf("errors", l.Outcome); ok {
			u.Failed = 1
			m = append(m, failed)
		}
		return m, u
	}
	if refused, ok := metricOf("refused", l.Decision); ok {
		u.Refused = 1
		m = append(m, refused)
	}
	return m, u
}

// callOf returns the metric of a sent call.
func callOf(isTool bool, tier tool.Tier) Metric {
	switch {
	case !isTool:
		return CallsOther
	case tier == tool.Read:
		return CallsRead
	case tier == tool.Write:
		return CallsWrite
	}
	return CallsDestructive
}

// tally returns the tally to which the lines of a minute are added. The caller holds the lock.
func (c *Counter) tally(minute time.Time) *Tally {
	if c.last == nil || !c.minute.Equal(minute) {
		t := c.pending[minute]
		if t == nil {
			t = &Tally{}
			c.pending[minute] = t
		}
		c.last, c.minute = t, minute
	}
	return c.last
}

// Start starts [Counter.Run]. The returned function stops Run, and returns after Run has written
// all counts.
func (c *Counter) Start(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // only end stops Run
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// Run writes what is counted every [FlushEvery], and once more when ctx ends.
func (c *Counter) Run(ctx context.Context) {
	tick := time.NewTicker(FlushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.flushed(ctx)
		case <-ctx.Done():
			c.flushed(context.WithoutCancel(ctx))
			return
		}
	}
}

// flushed calls Flush and logs its error.
func (c *Counter) flushed(ctx context.Context) {
	if err := c.Flush(ctx); err != nil {
		c.log.LogAttrs(ctx, slog.LevelWarn, "usage not kept; it will be tried again", slog.Any("error", err))
	}
}

// Flush writes the counts since the last write, in one transaction. If it fails, the counter keeps
// the counts of the newest 60 minutes for the next attempt.
func (c *Counter) Flush(ctx context.Context) error {
	c.flushing.Lock()
	defer c.flushing.Unlock()
	c.mu.Lock()
	taken := c.pending
	c.pending, c.last = map[time.Time]*Tally{}, nil
	c.mu.Unlock()
	if len(taken) == 0 {
		return nil
	}
	err := c.store.Add(ctx, taken)
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for minute, t := range c.pending {
		if taken[minute] == nil {
			taken[minute] = t
			continue
		}
		taken[minute].Add(t)
	}
	if minutes := slices.SortedFunc(maps.Keys(taken), time.Time.Compare); len(minutes) > maxPending {
		for _, minute := range minutes[:len(minutes)-maxPending] {
			delete(taken, minute)
		}
	}
	c.pending, c.last = taken, nil
	return err
}

// Usage implements [Source].
func (c *Counter) Usage(ctx context.Context, r Range) (Report, error) {
	now := c.now()
	out := NewReport(r, now)
	if err := c.Flush(ctx); err != nil {
		c.log.LogAttrs(ctx, slog.LevelWarn, "usage not kept; it will be tried again", slog.Any("error", err))
		out.Says = append(out.Says, "The newest counts could not be written and are missing here. The gateway keeps them in memory, and tries to write them every few seconds. The log has the reason.")
	}
	unit := Minute
	if r.Step >= time.Hour {
		unit = Hour
	}
	from, to := r.Bounds(now)
	took, whole, uses := make([]Histogram, r.Buckets), Histogram{}, map[Pair]*Use{}
	err := c.store.Each(ctx, unit, from, to, func(start time.Time, t *Tally) {
		at := int(start.Sub(from) / r.Step)
		out.Buckets[at].Counts.Add(&t.Counts)
		took[at].Add(&t.Latency)
		addUses(uses, t)
	})
	if err != nil {
		return Report{}, err
	}
	for i := range out.Buckets {
		out.Buckets[i].P50, out.Buckets[i].P95 = took[i].Percentile(.5), took[i].Percentile(.95)
		whole.Add(&took[i])
	}
	out.Sum()
	out.Total.P50, out.Total.P95 = whole.Percentile(.5), whole.Percentile(.95)
	out.Uses = UsesOf(uses)
	return out, nil
}

// addUses adds a tally's uses by agent and tool. The store limits their number.
func addUses(to map[Pair]*Use, t *Tally) {
	for p, u := range t.uses {
		if to[p] == nil {
			to[p] = &Use{}
		}
		to[p].Add(*u)
	}
}

// UsageOf implements [ToolSource]. It reads the hours up to the last flush.
func (c *Counter) UsageOf(ctx context.Context, id string) (w Week, err error) {
	to := c.now().UTC().Truncate(time.Hour).Add(time.Hour)
	from, agents := to.Add(-time.Duration(len(w.Days))*day), map[string]bool{}
	err = c.store.Each(ctx, Hour, from, to, func(start time.Time, t *Tally) {
		for p, u := range t.uses {
			if p.Tool != id || strings.TrimSpace(id) == "" {
				continue
			}
			w.Days[int(start.Sub(from)/day)] += u.Calls
			w.Calls += u.Calls
			w.Locked += u.Locked
			if u.Calls+u.Locked+u.Refused > 0 {
				agents[p.Agent] = true
			}
		}
	})
	w.Agents = len(agents)
	return w, err
}

// Agents implements [AgentSource].
func (c *Counter) Agents(ctx context.Context) ([]AgentUse, error) {
	uses, last := map[Pair]*Use{}, map[string]time.Time{}
	err := c.month(ctx, func(start time.Time, t *Tally) {
		addUses(uses, t)
		for p := range t.uses {
			last[p.Agent] = start
		}
	})
	if err == nil {
		now := c.now().UTC()
		err = c.store.Each(ctx, Minute, now.Add(-KeepMinutes*time.Minute), now.Add(time.Minute), func(start time.Time, t *Tally) {
			for p := range t.uses {
				if start.After(last[p.Agent]) {
					last[p.Agent] = start
				}
			}
		})
	}
	var out []AgentUse
	for _, r := range UsesOf(uses).Agents {
		if r.Name != "" { // "" counts the agents that have no count of their own
			out = append(out, AgentUse{r, last[r.Name]})
		}
	}
	return out, err
}

// ToolsOf implements [AgentSource].
func (c *Counter) ToolsOf(ctx context.Context, agent string) ([]Row, error) {
	uses := map[Pair]*Use{}
	err := c.month(ctx, func(_ time.Time, t *Tally) {
		for p, u := range t.uses {
			if p.Agent == agent {
				if uses[p] == nil {
					uses[p] = &Use{}
				}
				uses[p].Add(*u)
			}
		}
	})
	return UsesOf(uses).Tools, err
}

// month calls do for each hour of the last month, the oldest first.
func (c *Counter) month(ctx context.Context, do func(start time.Time, t *Tally)) error {
	if err := c.Flush(ctx); err != nil { // unwritten counts would be missing
		c.log.LogAttrs(ctx, slog.LevelWarn, "usage not kept; it will be tried again", slog.Any("error", err))
	}
	to := c.now().UTC().Add(time.Hour)
	return c.store.Each(ctx, Hour, to.Add(-KeepHours*time.Hour), to, do)
}
