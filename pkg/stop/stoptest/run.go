package stoptest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/request"
	"github.com/portcullis-mcp/portcullis/pkg/stop"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Run checks each promise that [stop.Store] makes, one subtest a promise. open returns an
// empty store.
func Run(t *testing.T, open func(t *testing.T) stop.Store) {
	for _, promise := range []struct {
		name string
		held func(*testing.T, stop.Store)
	}{
		{"nothing is stopped at first", empty},
		{"stops come back as they were put", roundTrip},
		{"a write of an old rev is a conflict and stores nothing", staleRev},
		{"a first write of stops that exist is a conflict", secondFirst},
		{"racing changes all stand", racing},
		{"as many as there may be are kept", full},
		{"what is not valid is refused", invalid},
		{"an ended context stores nothing", endedContext},
	} {
		t.Run(promise.name, func(t *testing.T) { promise.held(t, open(t)) })
	}
}

// RunLost checks that a write which was kept counts although its answer was lost. open returns an
// empty store, and a function after which the answer to the next request is lost once.
func RunLost(t *testing.T, open func(t *testing.T) (s stop.Store, lose func())) {
	s, lose := open(t)
	first := put(t, s, stop.Stops{List: []stop.Stop{Server("a")}})
	lose()
	want(t, s, put(t, s, stop.Stops{List: []stop.Stop{Server("a"), Server("b")}, Rev: first.Rev}))
}

// Server returns a stop of a server, by kim.
func Server(name string) stop.Stop {
	return stop.Stop{Target: stop.Target{Server: name}, Reason: "key leaked", By: "kim", At: time.Date(2026, 11, 20, 12, 0, 0, 1, time.UTC)}
}

// Agent returns a stop of an agent, by kim.
func Agent(id string) stop.Stop {
	s := Server("")
	s.Agent = id
	return s
}

// All returns a stop of everything, by kim.
func All() stop.Stop {
	s := Server("")
	s.All = true
	return s
}

// Put stops what is named, and nothing else.
func Put(t testing.TB, s stop.Store, stops ...stop.Stop) {
	t.Helper()
	_, err := stop.Change(t.Context(), s, func(held stop.Stops) (stop.Stops, error) {
		held.List = stops
		return held, nil
	})
	require.OK(t, err)
}

func put(t *testing.T, store stop.Store, s stop.Stops) stop.Stops {
	t.Helper()
	next, err := store.PutStops(t.Context(), s)
	if err != nil || next.Rev != s.Rev+1 {
		t.Fatalf("PutStops at rev %d = rev %d, %v", s.Rev, next.Rev, err)
	}
	return next
}

func want(t *testing.T, store stop.Store, s stop.Stops) {
	t.Helper()
	got, err := store.Stops(t.Context())
	require.OK(t, err)
	if d := cmp.Diff(s, got); d != "" {
		t.Errorf("Stops (-want +got):\n%s", d)
	}
}

func empty(t *testing.T, s stop.Store) { want(t, s, stop.Stops{}) }

func roundTrip(t *testing.T, s stop.Store) {
	odd := Agent(`token:"ci" <b> 日本 ` + "\u202e")
	odd.Reason, odd.By = `a "reason" & <more>`, "kim@example.com"
	all := put(t, s, stop.Stops{List: []stop.Stop{All(), Server("git hub"), odd}})
	want(t, s, all)
	all.List = all.List[1:]
	all = put(t, s, all)
	want(t, s, all)
	want(t, s, put(t, s, stop.Stops{List: []stop.Stop{}, Rev: all.Rev}))
}

func staleRev(t *testing.T, s stop.Store) {
	first := put(t, s, stop.Stops{List: []stop.Stop{Server("a")}})
	second := put(t, s, stop.Stops{List: []stop.Stop{Server("b")}, Rev: first.Rev})
	if _, err := s.PutStops(t.Context(), first); !errors.Is(err, stop.ErrConflict) {
		t.Errorf("PutStops of an old rev = %v, want ErrConflict", err)
	}
	want(t, s, second)
}

func secondFirst(t *testing.T, s stop.Store) {
	first := put(t, s, stop.Stops{List: []stop.Stop{Server("a")}})
	if _, err := s.PutStops(t.Context(), stop.Stops{List: []stop.Stop{Server("b")}}); !errors.Is(err, stop.ErrConflict) {
		t.Errorf("a second first PutStops = %v, want ErrConflict", err)
	}
	want(t, s, first)
}

func racing(t *testing.T, s stop.Store) {
	const writers = 6
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			_, err := stop.Change(t.Context(), s, func(held stop.Stops) (stop.Stops, error) {
				return held.Add(Server(fmt.Sprint("server", i)))
			})
			if err != nil {
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	held, err := s.Stops(t.Context())
	if err != nil || len(held.List) != writers || held.Rev != writers {
		t.Errorf("%d stops at rev %d, %v; want %d of each", len(held.List), held.Rev, err, writers)
	}
}

func full(t *testing.T, s stop.Store) {
	var all stop.Stops
	for i := range stop.MaxStops {
		one := Agent(fmt.Sprintf("%0*d", stop.MaxName, i))
		one.Reason, one.By = strings.Repeat("r", stop.MaxReason), strings.Repeat("b", stop.MaxName)
		all.List = append(all.List, one)
	}
	all = put(t, s, all)
	want(t, s, all)
	more := all
	more.List = append(more.List[:stop.MaxStops:stop.MaxStops], Server("x"))
	if _, err := s.PutStops(t.Context(), more); !errors.Is(err, stop.ErrFull) {
		t.Errorf("one more = %v, want ErrFull", err)
	}
	all.List = append(all.List[:stop.MaxStops:stop.MaxStops], All())
	want(t, s, put(t, s, all))
}

func invalid(t *testing.T, s stop.Store) {
	noReason := Server("a")
	noReason.Reason = " "
	nobody := Server("a")
	nobody.By = ""
	for _, list := range [][]stop.Stop{{{}}, {noReason}, {nobody}, {Server("a"), Server("a")}, {Agent("a\nb")}} {
		if _, err := s.PutStops(t.Context(), stop.Stops{List: list}); err == nil {
			t.Errorf("%+v was stored", list)
		}
	}
	want(t, s, stop.Stops{})
}

func endedContext(t *testing.T, s stop.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.PutStops(ctx, stop.Stops{List: []stop.Stop{Server("a")}}); !errors.Is(err, context.Canceled) {
		t.Errorf("PutStops = %v, want Canceled", err)
	}
	if _, err := s.Stops(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Stops = %v, want Canceled", err)
	}
	want(t, s, stop.Stops{})
}

// A Standing is a store that returns a record and the stops together.
type Standing interface {
	approval.Store
	stop.Store
	Standing(ctx context.Context, id tool.ID, agent string) (approval.Record, stop.Stops, request.Granted, error)
}

// RunStanding checks what a read of a record together with the stops returns. open returns an empty
// store.
func RunStanding(t *testing.T, open func(t *testing.T) Standing) {
	s, id := open(t), tool.ID{Server: "fs", Name: "read"}
	check := func(step string, rev int64, stops stop.Stops) {
		t.Helper()
		r, got, _, err := s.Standing(t.Context(), id, "")
		if missing := errors.Is(err, approval.ErrNotFound); missing != (rev == 0) || !missing && err != nil || r.Rev != rev {
			t.Errorf("%s: the record is at rev %d, %v; want %d", step, r.Rev, err, rev)
		}
		if d := cmp.Diff(stops, got); d != "" {
			t.Errorf("%s: stops (-want +got):\n%s", step, d)
		}
	}
	check("nothing stored", 0, stop.Stops{})
	stops := put(t, s, stop.Stops{List: []stop.Stop{Server("fs")}})
	check("a stop alone", 0, stops)
	r, err := s.Put(t.Context(), approval.Record{Server: id.Server, Tool: id.Name, State: approval.Pending}, nil)
	require.OK(t, err)
	check("both", r.Rev, stops)
	stops = put(t, s, stop.Stops{List: []stop.Stop{}, Rev: stops.Rev})
	check("undone", r.Rev, stops)
	res := tool.ID{Server: "fs", Name: "file:///a b", Kind: tool.Resource}
	_, err = s.Put(t.Context(), approval.Record{Server: res.Server, Tool: res.Name, Kind: res.Kind, State: approval.Pending}, nil)
	require.OK(t, err)
	if r, _, _, err := s.Standing(t.Context(), res, ""); err != nil || r.ID() != res {
		t.Errorf("Standing of a resource = %v, %v", r.ID(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, _, err := s.Standing(ctx, id, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("Standing = %v, want Canceled", err)
	}
}
