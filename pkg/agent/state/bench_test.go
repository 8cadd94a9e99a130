package state_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// withMany returns a fixture with n tools on ten servers, every third of them denied.
func withMany(b *testing.B, n int) *fixture {
	h := newFixture(b)
	tools, servers := listing{}, []string(nil)
	for s := range 10 {
		name := fmt.Sprintf("s%d", s)
		servers = append(servers, name+` ,"approval":"off","disabled_tools":["*_0"]`)
		tools[name] = map[string]string{}
		for i := range n / 10 {
			tools[name][fmt.Sprintf("tool_%d_%d", i, i%3)] = "Do something with a document."
		}
	}
	h.configure(servers...)
	h.publish(tools)
	h.observe("s0:tool_1_1", "Do something with a document.", false)
	return h
}

func (h *fixture) load() { h.States.Load(h.T.Context()) }

// classify loads the state and computes the status of every tool.
func (h *fixture) classify() { h.States.Load(h.T.Context()).View(anyone()).Callable() }

// decide makes a decision that changes no status.
func (h *fixture) decide(int) { h.Decide("s0:tool_1_1", "enable") }

// stop stops one of two servers in turn.
func (h *fixture) stop(n int) {
	_, err := stop.NewStore(h.Approvals).Change(h.T.Context(), func(held stop.Stops) (stop.Stops, error) {
		held.List = []stop.Stop{stoptest.Server(fmt.Sprintf("s%d", n%2))}
		return held, nil
	})
	require.OK(h.T, err)
}

func nothing(*fixture) {}

// benchmarkChange measures a step after a change of n tools. The step before is not measured.
func benchmarkChange(b *testing.B, n int, change func(*fixture, int), before, measured func(*fixture)) {
	h := withMany(b, n)
	h.classify()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		change(h, i)
		h.Clock.Wait(2 * time.Second)
		before(h)
		b.StartTimer()
		measured(h)
	}
}

// BenchmarkClassify1000 classifies every tool again after a decision, but reuses the verdicts.
func BenchmarkClassify1000(b *testing.B) {
	benchmarkChange(b, 1000, (*fixture).decide, (*fixture).load, (*fixture).classify)
}

func BenchmarkClassify10000(b *testing.B) {
	benchmarkChange(b, 10_000, (*fixture).decide, (*fixture).load, (*fixture).classify)
}

// BenchmarkRefresh10000 reads a decision from the feed.
func BenchmarkRefresh10000(b *testing.B) {
	benchmarkChange(b, 10_000, (*fixture).decide, nothing, (*fixture).load)
}

// BenchmarkDecided10000 reads a decision, and classifies every tool again.
func BenchmarkDecided10000(b *testing.B) {
	benchmarkChange(b, 10_000, (*fixture).decide, nothing, (*fixture).classify)
}

// BenchmarkStopped10000 reads a changed stop, and classifies every tool again.
func BenchmarkStopped10000(b *testing.B) {
	benchmarkChange(b, 10_000, (*fixture).stop, nothing, (*fixture).classify)
}
