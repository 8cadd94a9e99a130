package state_test

import (
	"fmt"
	"testing"
	"time"
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

// decide makes a decision that changes no status, and waits until the loader reads it.
func (h *fixture) decide() {
	h.Decide("s0:tool_1_1", "enable")
	h.Clock.Wait(2 * time.Second)
}

// classify counts the callable tools.
func classify(b *testing.B, h *fixture) int {
	v := h.States.Load(b.Context()).View(anyone())
	return v.Callable().Len()
}

// benchmarkClassify measures a new state after a decision. The state classifies every tool again,
// but reuses the verdicts.
func benchmarkClassify(b *testing.B, n int) {
	h := withMany(b, n)
	want := classify(b, h)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		h.decide()
		h.States.Load(b.Context())
		b.StartTimer()
		if got := classify(b, h); got != want {
			b.Fatalf("%d tools are callable, want %d", got, want)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/tool")
}

func BenchmarkClassify1000(b *testing.B)  { benchmarkClassify(b, 1000) }
func BenchmarkClassify10000(b *testing.B) { benchmarkClassify(b, 10000) }

// BenchmarkRefresh10000 reads a decision from the feed, and computes the decision about every tool
// again.
func BenchmarkRefresh10000(b *testing.B) {
	h := withMany(b, 10000)
	h.States.Load(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		h.decide()
		b.StartTimer()
		h.States.Load(b.Context())
	}
}

// BenchmarkColdLoad10000 reads config, policy and catalog for the first time, from memory.
func BenchmarkColdLoad10000(b *testing.B) {
	h := withMany(b, 10000)
	b.ReportAllocs()
	for b.Loop() {
		h.Restart()
		classify(b, h)
	}
}
