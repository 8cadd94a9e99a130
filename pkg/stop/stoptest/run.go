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

	"github.com/portcullis-mcp/portcullis/pkg/stop"
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
		{"when something was stopped stays known once it is undone", ended},
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

func ended(t *testing.T, s stop.Store) {
	held := put(t, s, stop.Stops{List: []stop.Stop{Server("a"), Agent("token:ci"), All()}})
	for _, target := range []stop.Target{{Server: "a"}, {Agent: "token:ci"}, {All: true}} {
		next, err := held.Undo(target)
		require.OK(t, err)
		held = put(t, s, next)
		want(t, s, held)
	}
	if last := held.Last("any", "any"); !last.Equal(All().At) || len(held.Ended) != 3 {
		t.Errorf("everything was stopped last at %v, of %+v", last, held.Ended)
	}
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
