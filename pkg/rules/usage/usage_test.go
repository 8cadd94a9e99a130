package usage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage/usagetest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestMem(t *testing.T) {
	usagetest.Run(t, func(*testing.T) usage.Store { return &usagetest.Mem{} })
}

var start = time.Date(2026, 11, 22, 11, 59, 30, 0, time.UTC)

// catalog has three tools.
func catalog(_ context.Context, id tool.ID) (tool.Tier, bool) {
	tier, ok := map[string]tool.Tier{"fs:read_file": tool.Read, "fs:write_file": tool.Write, "git:git_push": tool.Destructive}[id.String()]
	return tier, ok
}

// A bench is a counter with a clock of its own.
type bench struct {
	*usage.Counter
	t     testing.TB
	store usagetest.Mem
	now   time.Time
}

func newBench(t testing.TB) *bench {
	b := &bench{t: t, now: start}
	b.Counter = usage.NewCounter(&b.store, catalog, &usage.Options{Now: func() time.Time { return b.now }})
	return b
}

func (b *bench) write(l audit.Line) {
	b.t.Helper()
	l.V, l.Kind, l.Time = audit.Version, audit.KindCall, b.now
	require.OK(b.t, b.Write(b.t.Context(), l))
}

func (b *bench) report(name string) usage.Report {
	b.t.Helper()
	r, ok := usage.ParseRange(name)
	if !ok {
		b.t.Fatalf("no range %s", name)
	}
	out, err := b.Usage(b.t.Context(), r)
	require.OK(b.t, err)
	return out
}

func called(agent, id string) audit.Line {
	return audit.Line{Agent: agent, Tool: id, Decision: audit.Allowed, Outcome: "available", Ms: 40}
}

func TestLinesAreCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		line audit.Line
		want map[usage.Metric]int
		use  usage.Use
	}{
		"read":              {called("ci", "fs:read_file"), map[usage.Metric]int{usage.CallsRead: 1}, usage.Use{Calls: 1}},
		"write":             {called("ci", "fs:write_file"), map[usage.Metric]int{usage.CallsWrite: 1}, usage.Use{Calls: 1}},
		"destructive":       {called("ci", "git:git_push"), map[usage.Metric]int{usage.CallsDestructive: 1}, usage.Use{Calls: 1}},
		"no current tool":   {called("ci", "git:gone"), map[usage.Metric]int{usage.CallsOther: 1}, usage.Use{Calls: 1}},
		"a prompt":          {called("ci", "git:prompt:review"), map[usage.Metric]int{usage.CallsOther: 1}, usage.Use{Calls: 1}},
		"own tool":          {called("ci", "describe_tools"), nil, usage.Use{}},
		"failed":            {audit.Line{Tool: "fs:read_file", Decision: audit.Allowed, Outcome: "transient"}, map[usage.Metric]int{usage.CallsRead: 1, usage.FailedTransient: 1}, usage.Use{Calls: 1, Failed: 1}},
		"given up":          {audit.Line{Tool: "fs:read_file", Decision: audit.Allowed, Outcome: "cancelled"}, map[usage.Metric]int{usage.CallsRead: 1, usage.FailedCancelled: 1}, usage.Use{Calls: 1, Failed: 1}},
		"locked":            {audit.Line{Tool: "git:git_push", Decision: audit.Locked, Status: "pending_approval"}, map[usage.Metric]int{usage.LockedPending: 1}, usage.Use{Locked: 1}},
		"locked, no reason": {audit.Line{Tool: "git:git_push", Decision: audit.Locked}, map[usage.Metric]int{usage.LockedUnknown: 1}, usage.Use{Locked: 1}},
		"tier":              {audit.Line{Tool: "git:git_push", Decision: audit.Tier}, map[usage.Metric]int{usage.RefusedTier: 1}, usage.Use{Refused: 1}},
		"out of scope":      {audit.Line{Tool: "no:such", Decision: audit.Scope}, map[usage.Metric]int{usage.RefusedScope: 1}, usage.Use{Refused: 1}},
		"stopped":           {audit.Line{Tool: "git:git_push", Decision: audit.Stopped}, map[usage.Metric]int{usage.RefusedStopped: 1}, usage.Use{Refused: 1}},
		"faulty":            {audit.Line{Tool: "", Decision: audit.Refused}, map[usage.Metric]int{usage.RefusedFaulty: 1}, usage.Use{Refused: 1}},
		"no decision":       {audit.Line{Tool: "git:git_push"}, nil, usage.Use{}},
		"a search":          {audit.Line{Tool: "retrieve_tools", Decision: audit.Allowed, Found: &audit.Matches{Callable: 2}}, map[usage.Metric]int{usage.SearchesHit: 1}, usage.Use{Searches: 1}},
		"a barren search":   {audit.Line{Tool: "retrieve_tools", Decision: audit.Allowed, Found: &audit.Matches{}}, map[usage.Metric]int{usage.SearchesBarren: 1}, usage.Use{Searches: 1}},
		"a task's end": {
			audit.Line{Tool: "fs:read_file", Decision: audit.Allowed, Method: "tasks/get"},
			nil, usage.Use{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			tc.line.Agent = "ci"
			b.write(tc.line)
			var want usage.Counts
			for m, n := range tc.want {
				want[m] = n
			}
			r := b.report("1h")
			if d := cmp.Diff(want, r.Total.Counts); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			var all usage.Use
			for _, a := range r.Uses.Agents {
				all.Add(a.Use)
			}
			if all != tc.use {
				t.Errorf("use %+v, want %+v", all, tc.use)
			}
		})
	}
	b := newBench(t)
	b.Write(t.Context(), audit.Line{Kind: audit.KindEvent, Tool: "fs:read_file", Decision: audit.Allowed})
	if got := b.report("1h").Total; got.Counts != (usage.Counts{}) || got.P50 != 0 {
		t.Errorf("an event of a person is counted: %+v", got)
	}
}

// For all counts and times, the buckets of every range add up to its total, and to the calls in
// it; the rows of tools and of agents add up to the same calls.
func TestBucketsAddUpToTheTotal(t *testing.T) {
	b, rng := newBench(t), rand.New(rand.NewPCG(1, 2))
	ids := []string{"fs:read_file", "fs:write_file", "git:git_push", "git:gone", "retrieve_tools", ""}
	decisions := []string{audit.Allowed, audit.Allowed, audit.Locked, audit.Tier, audit.Scope, audit.Stopped, audit.Refused}
	var times []time.Time
	for range 4000 {
		l := audit.Line{Agent: fmt.Sprint("agent-", rng.IntN(5)), Tool: ids[rng.IntN(len(ids))], Decision: decisions[rng.IntN(len(decisions))], Ms: rng.Float64() * 900}
		if l.Tool == "retrieve_tools" {
			l.Decision, l.Found = audit.Allowed, &audit.Matches{Callable: rng.IntN(2)}
		}
		if l.Decision == audit.Allowed && l.Tool == "" {
			continue
		}
		b.now = start.Add(-time.Duration(rng.Int64N(int64(40 * 24 * time.Hour))))
		if rng.IntN(2) == 0 {
			b.now = start.Add(-time.Duration(rng.Int64N(int64(26 * time.Hour))))
		}
		b.write(l)
		times = append(times, b.now)
		if rng.IntN(100) == 0 {
			require.OK(t, b.Flush(t.Context()))
		}
	}
	b.now = start
	for _, r := range usage.Ranges() {
		got, want := b.report(r.Name), usage.Counts{}
		from, to := r.Bounds(start)
		for i, bucket := range got.Buckets {
			want.Add(&bucket.Counts)
			if !bucket.Start.Equal(from.Add(time.Duration(i) * r.Step)) {
				t.Errorf("%s: bucket %d begins at %v", r.Name, i, bucket.Start)
			}
		}
		in, calls, tools, agents := 0, 0, 0, 0
		for _, at := range times {
			if !at.Before(from) && at.Before(to) {
				in++
			}
		}
		for m, n := range got.Total.Counts {
			calls += n
			if m >= int(usage.FailedTransient) && m <= int(usage.FailedCancelled) {
				calls -= n
			}
		}
		for _, row := range got.Uses.Agents {
			agents += row.Calls + row.Locked + row.Refused + row.Searches
		}
		for _, row := range got.Uses.Tools {
			tools += row.Calls + row.Locked + row.Refused
		}
		searches := got.Total.Counts.Sum(usage.SearchesHit, usage.SearchesBarren)
		// Allowed calls of the gateway's own tools that are no searches are in no count; this test
		// has none.
		if got.Total.Counts != want || calls != in || agents != in || tools != in-searches || len(got.Buckets) != r.Buckets || in == 0 {
			t.Errorf("%s: %d lines, counts %d, agents %d, tools %d and %d searches\n%s", r.Name, in, calls, agents, tools, searches, cmp.Diff(want, got.Total.Counts))
		}
	}
}

func TestHistogramError(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var h usage.Histogram
		var all []float64
		for range 1 + rng.IntN(300) {
			ms := math.Exp(rng.Float64() * math.Log(120_000))
			h.Observe(ms)
			all = append(all, ms)
		}
		slices.Sort(all)
		for _, p := range []float64{.5, .95, 1} {
			want := all[max(int(math.Ceil(p*float64(len(all)))), 1)-1]
			if got := h.Percentile(p); math.Abs(got-want)/want > usage.LatencyError {
				t.Fatalf("p%v of %d = %v, is %v: off by %v", p*100, len(all), got, want, math.Abs(got-want)/want)
			}
		}
	}
	var h usage.Histogram
	if h.Percentile(.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	for _, ms := range []float64{math.NaN(), math.Inf(1), -1, 0, 1e300} {
		h.Observe(ms)
	}
	if p := h.Percentile(1); math.IsNaN(p) || p <= 100_000 {
		t.Errorf("the longest is %v", p)
	}
}

// A hostile agent may call any name: none of its invented names is stored, and the agent displaces
// no other agent.
func TestHostileNames(t *testing.T) {
	b := newBench(t)
	for n := range 20_000 {
		b.write(audit.Line{Agent: "eve", Tool: fmt.Sprintf("made:up_%d", n), Decision: audit.Scope})
		b.write(audit.Line{Agent: "eve", Tool: strings.Repeat("x", n%4000), Decision: audit.Refused})
		b.write(audit.Line{Agent: "eve", Tool: "retrieve_tools", Decision: audit.Allowed, Found: &audit.Matches{Shown: []string{fmt.Sprintf("made:up_%d", n), "git:git_push"}}})
	}
	b.write(audit.Line{Agent: strings.Repeat("\u202e<", 4000), Tool: "git:git_push", Decision: audit.Locked, Status: "pending_approval"})
	r := b.report("1h")
	want := []usage.Row{{Name: "", Beside: 1, Use: usage.Use{Refused: 40_000}}, {Name: "git:git_push", Beside: 1, Use: usage.Use{Locked: 1, Found: 20_000}}}
	if d := cmp.Diff(want, r.Uses.Tools); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	for _, a := range r.Uses.Agents {
		if len(a.Name) > 600 || strings.Contains(a.Name, "\u202e") {
			t.Errorf("an agent is stored as %.100q…, %d bytes", a.Name, len(a.Name))
		}
	}
}

// The data of a minute is bounded for any number of agents and known tools. An agent that calls all
// tools does not displace the rows of other agents.
func TestTallyIsBounded(t *testing.T) {
	var all usage.Tally
	for n := range 10_000 {
		all.Use(usage.Pair{Agent: "eve", Tool: fmt.Sprint("s:", n)}).Calls++
	}
	all.Use(usage.Pair{Agent: "kim", Tool: "fs:read_file"}).Calls++
	rows := usage.UsesOf(all.Uses())
	if len(rows.Tools) != 130 || rows.Agents[0].Calls != 10_000 || all.Uses()[usage.Pair{Agent: "kim", Tool: "fs:read_file"}].Calls != 1 {
		t.Errorf("%d tools, %+v", len(rows.Tools), rows.Agents)
	}
	calls := 10_001
	for n := range 100_000 {
		all.Use(usage.Pair{Agent: fmt.Sprint("agent-", n%20_000), Tool: fmt.Sprint("s:", n)}).Calls++
		calls++
	}
	got := 0
	for _, u := range all.Uses() {
		got += u.Calls
	}
	data, err := all.AppendBinary(nil)
	require.OK(t, err)
	if n := len(all.Uses()); n > 2100 || got != calls || len(data) > 100_000 {
		t.Errorf("%d pairs with %d calls of %d, %d bytes", n, got, calls, len(data))
	}
}

// If the clock jumps, no call is lost or counted twice.
func TestClockJumps(t *testing.T) {
	b := newBench(t)
	b.write(called("ci", "fs:read_file"))
	b.now = start.Add(10 * 365 * 24 * time.Hour) // ahead
	b.write(called("ci", "fs:read_file"))
	require.OK(t, b.Flush(t.Context()))
	b.now = start.Add(time.Minute) // and back
	b.write(called("ci", "fs:read_file"))
	b.now = start.Add(-time.Hour)
	b.write(called("ci", "fs:read_file"))
	b.now = start.Add(time.Minute)
	for name, want := range map[string]int{"1h": 2, "24h": 3, "7d": 3, "30d": 3} {
		if got := b.report(name).Total.Counts[usage.CallsRead]; got != want {
			t.Errorf("%s: %d calls, want %d", name, got, want)
		}
	}
}

// At midnight and at the full hour each call is in one bucket of every range.
func TestBucketsRoll(t *testing.T) {
	b := newBench(t)
	midnight := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for _, at := range []time.Duration{-1, 0, 1} {
		b.now = midnight.Add(at)
		b.write(called("ci", "fs:read_file"))
	}
	b.now = midnight.Add(time.Minute)
	for _, r := range usage.Ranges() {
		got := b.report(r.Name).Buckets[r.Buckets-2:]
		if got[0].Counts[usage.CallsRead] != 1 || got[1].Counts[usage.CallsRead] != 2 || !got[1].Start.Equal(midnight) {
			t.Errorf("%s: %d before %v, %d after", r.Name, got[0].Counts[usage.CallsRead], got[1].Start, got[1].Counts[usage.CallsRead])
		}
	}
}

// If counts cannot be written, they are kept and written later. A report says what it lacks.
func TestFlushFails(t *testing.T) {
	b := newBench(t)
	b.write(called("ci", "fs:read_file"))
	adds := 0
	b.store.Fail = func() error {
		if adds++; adds%2 == 1 { // reads work
			return errors.New("disk full")
		}
		return nil
	}
	r := b.report("1h")
	if len(r.Says) != 1 || !strings.Contains(r.Says[0], "missing here") || r.Total.Counts[usage.CallsRead] != 0 {
		t.Errorf("%+v", r)
	}
	b.write(called("ci", "fs:read_file"))
	b.store.Fail = func() error { return errors.New("disk full") }
	for range 100 { // and what is kept must not grow without limit
		b.now = b.now.Add(time.Minute)
		b.write(called("ci", "fs:read_file"))
		if b.Flush(t.Context()) == nil {
			t.Fatal("no error")
		}
	}
	if _, err := b.Usage(t.Context(), usage.Ranges()[0]); err == nil {
		t.Error("a store that cannot be read is no error")
	}
	b.store.Fail = nil
	if r := b.report("24h"); len(r.Says) != 0 || r.Total.Counts[usage.CallsRead] != 60 {
		t.Errorf("%d calls, want those of the last 60 minutes; %v", r.Total.Counts[usage.CallsRead], r.Says)
	}
}

// A killed process loses only the counts since its last flush.
func TestRunFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store usagetest.Mem
		c := usage.NewCounter(&store, catalog, nil)
		ctx, cancel := context.WithCancel(t.Context())
		end := c.Start(ctx)
		cancel() // the program should end, but still runs
		kept := func() (n int) {
			require.OK(t, store.Each(t.Context(), usage.Hour, time.Time{}, time.Now().AddDate(1, 0, 0), func(_ time.Time, t *usage.Tally) { n += t.Counts[usage.CallsRead] }))
			return n
		}
		line := called("ci", "fs:read_file")
		line.Kind = audit.KindCall
		for n := range 3 {
			require.OK(t, c.Write(t.Context(), line))
			time.Sleep(usage.FlushEvery + time.Millisecond)
			if got := kept(); got != n+1 {
				t.Errorf("after %v: %d kept, want %d", usage.FlushEvery, got, n+1)
			}
		}
		require.OK(t, c.Write(t.Context(), line))
		end()
		if got := kept(); got != 4 {
			t.Errorf("after the end: %d kept, want 4", got)
		}
	})
}

func TestUsageOf(t *testing.T) {
	b := newBench(t)
	for d, calls := range []int{5, 0, 1, 2, 3, 0, 4, 6} { // the first is more than a week ago
		b.now = start.Add(time.Duration(d-7) * 24 * time.Hour)
		for n := range calls {
			b.write(called(fmt.Sprint("agent-", n), "git:git_push"))
		}
		b.write(called("ci", "fs:read_file"))
	}
	b.write(audit.Line{Agent: "ro", Tool: "git:git_push", Decision: audit.Locked, Status: "pending_approval"})
	require.OK(t, b.Flush(t.Context()))
	got, err := b.UsageOf(t.Context(), "git:git_push")
	require.OK(t, err)
	if d := cmp.Diff(usage.Week{Days: [7]int{0, 1, 2, 3, 0, 4, 6}, Calls: 16, Locked: 1, Agents: 7}, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// A report has the agents of the last month, from their first line on.
func TestAgents(t *testing.T) {
	b := newBench(t)
	b.write(called("gone", "git:git_push"))
	b.now = start.Add(40 * 24 * time.Hour)
	b.write(called("ci", "git:git_push"))
	b.now = b.now.Add(3*time.Hour + 7*time.Minute + 8*time.Second)
	hour, minute := b.now.Truncate(time.Hour), b.now.Truncate(time.Minute)
	b.write(called("ci", "fs:read_file"))
	b.write(called("ci", "git:git_push"))
	b.write(audit.Line{Agent: "kim", Tool: "git:git_push", Decision: audit.Locked})
	b.now = b.now.Add(3 * time.Hour)
	got, err := b.Agents(t.Context())
	require.OK(t, err)
	want := []usage.AgentUse{
		{Row: usage.Row{Name: "ci", Beside: 2, Use: usage.Use{Calls: 3}}, Last: hour},
		{Row: usage.Row{Name: "kim", Beside: 1, Use: usage.Use{Locked: 1}}, Last: hour},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	b.now = b.now.Add(-time.Hour - 59*time.Minute)
	if got, err = b.Agents(t.Context()); err != nil || !got[0].Last.Equal(minute) {
		t.Errorf("last call of ci: %v, %v", got, err)
	}
	tools, err := b.ToolsOf(t.Context(), "ci")
	require.OK(t, err)
	if d := cmp.Diff([]usage.Row{{Name: "fs:read_file", Beside: 1, Use: usage.Use{Calls: 1}}, {Name: "git:git_push", Beside: 1, Use: usage.Use{Calls: 2}}}, tools); d != "" {
		t.Errorf("tools (-want +got)\n%s", d)
	}
}

func FuzzTally(f *testing.F) {
	var full usage.Tally
	full.Counts[usage.LockedPending] = 300
	full.Latency.Observe(12)
	full.Use(usage.Pair{Agent: "ci", Tool: "fs:read_file"}).Calls = 7
	data, _ := full.AppendBinary(nil)
	f.Add(data)
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var a, b usage.Tally
		if a.UnmarshalBinary(data) != nil {
			return
		}
		once, err := a.AppendBinary(nil)
		require.OK(t, err)
		require.OK(t, b.UnmarshalBinary(once))
		twice, err := b.AppendBinary(nil)
		require.OK(t, err)
		if !bytes.Equal(once, twice) {
			t.Errorf("%x\n%x", once, twice)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	c := newBench(b)
	l := called("token:ci", "fs:read_file")
	l.Kind, l.Time = audit.KindCall, start
	b.ReportAllocs()
	for b.Loop() {
		_ = c.Write(b.Context(), l)
	}
}
