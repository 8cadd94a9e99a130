package stop_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop/stoptest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Each promise of a [stop.Store].
func TestStore(t *testing.T) {
	for name, holds := range map[string]func(*testing.T, *stop.Store){
		"stops come back as they were put":                       roundTrip,
		"the time of a stop stays known after its undo":          endedStops,
		"a write of an old rev is a conflict and stores nothing": staleRev,
		"racing changes are all stored":                          racing,
		"the maximum number of stops is stored":                  fullStops,
		"invalid stops are refused":                              invalid,
	} {
		t.Run(name, func(t *testing.T) { holds(t, stop.NewStore(new(documenttest.Store))) })
	}
}

func put(t *testing.T, store *stop.Store, s stop.Stops) stop.Stops {
	t.Helper()
	next, err := store.PutStops(t.Context(), s)
	if err != nil || next.Rev != s.Rev+1 {
		t.Fatalf("PutStops at rev %d = rev %d, %v", s.Rev, next.Rev, err)
	}
	return next
}

func want(t *testing.T, store *stop.Store, s stop.Stops) {
	t.Helper()
	got, err := store.Stops(t.Context())
	require.OK(t, err)
	if d := cmp.Diff(s, got); d != "" {
		t.Errorf("Stops (-want +got):\n%s", d)
	}
}

func roundTrip(t *testing.T, s *stop.Store) {
	odd := stoptest.Agent(`token:"ci" <b> 日本 ` + "\u202e")
	odd.Reason, odd.By = `a "reason" & <more>`, "kim@example.com"
	all := put(t, s, stop.Stops{List: []stop.Stop{stoptest.All(), stoptest.Server("git hub"), odd}})
	want(t, s, all)
	all.List = all.List[1:]
	all = put(t, s, all)
	want(t, s, all)
	want(t, s, put(t, s, stop.Stops{List: []stop.Stop{}, Rev: all.Rev}))
}

func endedStops(t *testing.T, s *stop.Store) {
	held := put(t, s, stop.Stops{List: []stop.Stop{stoptest.Server("a"), stoptest.Agent("token:ci"), stoptest.All()}})
	for _, target := range []stop.Target{{Server: "a"}, {Agent: "token:ci"}, {All: true}} {
		next, err := held.Undo(target)
		require.OK(t, err)
		held = put(t, s, next)
		want(t, s, held)
	}
	if last := held.Last("any", "any"); !last.Equal(stoptest.All().At) || len(held.Ended) != 3 {
		t.Errorf("the last stop of everything is %v, want the stop's time; %+v ended, want 3", last, held.Ended)
	}
}

func staleRev(t *testing.T, s *stop.Store) {
	first := put(t, s, stop.Stops{List: []stop.Stop{stoptest.Server("a")}})
	second := put(t, s, stop.Stops{List: []stop.Stop{stoptest.Server("b")}, Rev: first.Rev})
	if _, err := s.PutStops(t.Context(), first); !errors.Is(err, stop.ErrConflict) {
		t.Errorf("PutStops of an old rev = %v, want ErrConflict", err)
	}
	want(t, s, second)
}

func racing(t *testing.T, s *stop.Store) {
	const writers = 6
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			_, err := s.Change(t.Context(), func(held stop.Stops) (stop.Stops, error) {
				return held.Add(stoptest.Server(fmt.Sprint("server", i)))
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

func fullStops(t *testing.T, s *stop.Store) {
	var all stop.Stops
	for i := range stop.MaxStops {
		one := stoptest.Agent(fmt.Sprintf("%0*d", stop.MaxName, i))
		one.Reason, one.By = strings.Repeat("r", stop.MaxReason), strings.Repeat("b", stop.MaxName)
		all.List = append(all.List, one)
	}
	all = put(t, s, all)
	want(t, s, all)
	more := all
	more.List = append(more.List[:stop.MaxStops:stop.MaxStops], stoptest.Server("x"))
	if _, err := s.PutStops(t.Context(), more); !errors.Is(err, stop.ErrFull) {
		t.Errorf("a further stop = %v, want ErrFull", err)
	}
	all.List = append(all.List[:stop.MaxStops:stop.MaxStops], stoptest.All())
	want(t, s, put(t, s, all))
}

func invalid(t *testing.T, s *stop.Store) {
	noReason := stoptest.Server("a")
	noReason.Reason = " "
	nobody := stoptest.Server("a")
	nobody.By = ""
	for _, list := range [][]stop.Stop{{{}}, {noReason}, {nobody}, {stoptest.Server("a"), stoptest.Server("a")}, {stoptest.Agent("a\nb")}} {
		if _, err := s.PutStops(t.Context(), stop.Stops{List: list}); err == nil {
			t.Errorf("%+v was stored", list)
		}
	}
	want(t, s, stop.Stops{})
}
