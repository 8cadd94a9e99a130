package capacity_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/test/local"
)

// A bounded is a handler behind a gate, whose requests continue until the test ends them.
type bounded struct {
	*capacity.Gate
	t     *testing.T
	h     http.Handler
	begun chan bool
	end   chan bool
	all   sync.WaitGroup
}

// newBounded returns a gate for n requests. It calls do at the beginning of each request.
func newBounded(t *testing.T, n int, do func(*http.Request) bool) *bounded {
	t.Helper()
	l := capacity.Limits{Memory: int64(n) * 80 << 10, Descriptors: 1 << 20}
	o := capacity.GateOptions{Health: []string{"/healthz"}, Agents: "/mcp"}
	b := &bounded{
		Gate: capacity.NewGate(l, &o), t: t, begun: make(chan bool), end: make(chan bool),
	}
	b.h = b.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok := do == nil || do(r)
		if !ok {
			w.WriteHeader(http.StatusTeapot)
		}
		b.begun <- ok
		<-b.end
	}))
	t.Cleanup(func() { close(b.end); b.all.Wait() })
	return b
}

// start begins a request, and reports whether do agreed to it.
func (b *bounded) start(r *http.Request) bool {
	b.t.Helper()
	b.all.Go(func() { b.h.ServeHTTP(httptest.NewRecorder(), r) })
	return <-b.begun
}

// finish ends one request.
func (b *bounded) finish() {
	b.t.Helper()
	inFlight := func() int { f := b.Facts(); return f.Requests + f.Streams }
	before := inFlight()
	b.end <- true
	local.Until(b.t, "a request ends", func() bool { return inFlight() < before })
}

func post(length int64) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody)
	r.ContentLength = length
	return r
}

// refuses checks that the gate refuses a request immediately.
func (b *bounded) refuses(r *http.Request) {
	b.t.Helper()
	w := httptest.NewRecorder()
	b.h.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		b.t.Errorf("%d %v, want it refused", w.Code, w.Header())
	}
}

func TestGateBoundsRequests(t *testing.T) {
	b := newBounded(t, 40, nil)
	for range 40 {
		b.start(post(0))
	}
	b.refuses(post(0))
	b.start(httptest.NewRequest(http.MethodGet, "/healthz", http.NoBody)) // it has its own memory
	f := b.Facts()
	if f.MaxRequests != 40 || f.Refused != 1 || !f.IsRefusing || f.IsShort {
		t.Errorf("facts %+v", f)
	}
}

// Drain waits for requests in flight, but not for health requests and streams.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBounded(t, 40, func(r *http.Request) bool {
			return r.URL.Path != "/mcp" || r.ContentLength != 1 || capacity.Hold(r.Context())
		})
		b.start(post(1))
		b.start(httptest.NewRequest(http.MethodGet, "/healthz", http.NoBody))
		if left := b.Drain(t.Context()); left != 0 {
			t.Errorf("%d requests are in flight, want 0", left)
		}
		b.start(post(0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if left := b.Drain(ctx); left != 1 || ctx.Err() == nil {
			t.Errorf("%d requests are in flight, want 1", left)
		}
		time.AfterFunc(time.Minute, func() {
			for range 3 {
				b.end <- true
			}
		})
		if left := b.Drain(t.Context()); left != 0 {
			t.Errorf("%d requests are in flight, want 0", left)
		}
	})
}

// Long bodies count with their length, whether or not a header says the length.
func TestGateBoundsBodies(t *testing.T) {
	const room = 40 * 80 << 10
	b := newBounded(t, 40, func(r *http.Request) bool {
		if r.Header.Get("Chunked") != "" {
			capacity.SetBody(r.Context(), room/3-160<<10)
		}
		return true
	})
	b.start(post(room/3 - 160<<10))
	b.start(post(0))
	b.refuses(post(room / 6))
	b.finish()
	b.finish()
	chunked := post(-1)
	chunked.Header.Set("Chunked", "yes")
	b.start(chunked)
	b.refuses(post(room / 6))
	b.finish()
	b.start(post(1 << 40)) // a single body of any length passes: its reader refuses it
}

// An open stream leaves its memory to requests. The number of streams is limited.
func TestGateHoldsStreams(t *testing.T) {
	b := newBounded(t, 40, func(r *http.Request) bool { return capacity.Hold(r.Context()) })
	for n := range 20 { // a quarter of 80 connections
		if !b.start(post(0)) {
			t.Fatalf("stream %d is refused", n)
		}
	}
	if b.start(post(0)) {
		t.Error("a stream above the limit is open")
	}
	if f := b.Facts(); f.Streams != 20 || f.Requests != 1 {
		t.Errorf("facts %+v", f)
	}
}

// Calls leave a quarter of the memory to other requests, and one owner leaves half of it to others.
// A refused request releases its share immediately.
func TestGateSharesRoom(t *testing.T) {
	b := newBounded(t, 40, func(r *http.Request) bool {
		owner := r.Header.Get("Owner")
		ok := owner == "" || capacity.Claim(r.Context(), owner) && capacity.Work(r.Context())
		if !ok {
			capacity.Leave(r.Context())
		}
		return ok
	})
	call := func(owner string) *http.Request {
		r := post(0)
		r.Header.Set("Owner", owner)
		return r
	}
	for _, owner := range strings.Fields(strings.Repeat("ann ", 20) + strings.Repeat("bob ", 10)) {
		if !b.start(call(owner)) {
			t.Fatalf("a call of %s is refused", owner)
		}
	}
	// ann has half of the memory, all owners have three quarters
	for _, owner := range []string{"ann", "bob"} {
		if b.start(call(owner)) {
			t.Errorf("a call of %s above the limit is admitted", owner)
		}
	}
	for range 10 {
		if !b.start(post(0)) {
			t.Error("another request is refused")
		}
	}
	b.refuses(post(0))
}

// Requests outside the paths of agents leave three quarters of the memory to agents.
func TestGateKeepsRoomForAgents(t *testing.T) {
	b := newBounded(t, 40, nil)
	page := httptest.NewRequest(http.MethodPost, "/admin/login", http.NoBody)
	for range 10 {
		b.start(page)
	}
	b.refuses(page)
	b.start(post(0))
}

func TestNoGate(t *testing.T) {
	var none *capacity.Gate
	h := none.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		capacity.SetBody(r.Context(), 1)
		capacity.Leave(r.Context())
		if !capacity.Hold(r.Context()) || !capacity.Claim(r.Context(), "ann") || !capacity.Work(r.Context()) {
			t.Error("a nil Gate limits something")
		}
	}))
	none.Short()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, post(0))
	if w.Code != http.StatusOK || none.Listener(nil) != nil {
		t.Error(w.Code)
	}
	if err := capacity.Probe(); err != nil {
		t.Error(err)
	}
	if capacity.IsDescriptors(context.Canceled) || capacity.IsDiskFull(errors.New("full")) {
		t.Error("another error counts as a failure of the machine")
	}
}
