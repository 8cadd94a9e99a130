package notify_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify/notifytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// TestOutbox tests each promise of a [notify.Outbox].
func TestOutbox(t *testing.T) {
	for name, holds := range map[string]func(*testing.T, *notify.Outbox, *notifytest.Clock){
		"an event comes back as it was put":            roundTrip,
		"the oldest comes first":                       oldestFirst,
		"an event is put once, even after it was sent": putOnce,
		"events without an id are different events":    withoutID,
		"an id is forgotten after its time":            forgotten,
		"a notice that another sender changed":         takenNotice,
		"a removed notice":                             removedNotice,
		"many events are limited, earlier ones stay":   floodOfEvents,
		"a long event is clipped":                      longEvent,
	} {
		t.Run(name, func(t *testing.T) {
			c := new(notifytest.Clock)
			holds(t, notify.NewOutbox(&documenttest.Store{Now: c.Now, OnDocs: noReads(t)}, c.Now), c)
		})
	}
}

// noReads returns a hook that fails for reads that an outbox does not make.
func noReads(t *testing.T) func(context.Context, []document.Key) error {
	return func(_ context.Context, keys []document.Key) error {
		t.Errorf("the outbox reads %q", keys)
		return nil
	}
}

// A sender that read a notice does not change the next notice in the same slot.
func TestSlotOfAnother(t *testing.T) {
	box := notify.NewOutbox(new(documenttest.Store), nil)
	require.OK(t, box.Put(t.Context(), notifytest.Sample(1)))
	old := pending(t, box)[0]
	require.OK(t, box.Remove(t.Context(), old))
	for n := range 100 * notify.MaxOpen {
		require.OK(t, box.Put(t.Context(), notifytest.Sample(2+n)))
		next := pending(t, box)[0]
		if next.Slot != old.Slot {
			require.OK(t, box.Remove(t.Context(), next))
			continue
		}
		_, changed := box.Change(t.Context(), old)
		if removed := box.Remove(t.Context(), old); !errors.Is(changed, notify.ErrTaken) || !errors.Is(removed, notify.ErrTaken) {
			t.Errorf("Change = %v, Remove = %v; want ErrTaken", changed, removed)
		}
		if d := cmp.Diff([]notify.Notice{next}, pending(t, box)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		return
	}
	t.Error("no event gets the slot")
}

func pending(t *testing.T, box *notify.Outbox) []notify.Notice {
	t.Helper()
	list, _, err := box.Pending(t.Context())
	require.OK(t, err)
	return list
}

func ids(list []notify.Notice) (ids []string) {
	for _, n := range list {
		ids = append(ids, n.Event.ID)
	}
	return ids
}

func roundTrip(t *testing.T, box *notify.Outbox, c *notifytest.Clock) {
	e := notify.Event{
		ID: "e", Kind: notify.ServerDown, At: notifytest.Start.Add(-time.Hour), Server: "git", Items: []tool.ID{{Server: "git", Name: "doc://a/ü", Kind: tool.Resource}, {Server: "git", Name: "p", Kind: tool.Prompt}},
		More: 3, Agent: "a<b>", Request: "R-7KQ2M4XD", OneCall: true, Verdict: "declined", By: "kim", Path: "/admin", Status: "transient", Reason: "timeout", File: "config/policy.cedar", Faults: 2, Stays: true, Waiting: 4,
	}
	require.OK(t, box.Put(t.Context(), e))
	n := pending(t, box)[0]
	if d := cmp.Diff(notify.Notice{Event: e, Put: c.Now(), Due: c.Now()}, n, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Slot" || p.String() == "Rev" }, cmp.Ignore())); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	n.Done, n.Tries, n.Due = []string{"a", "b"}, 2, notifytest.Start.Add(time.Hour)
	changed, err := box.Change(t.Context(), n)
	require.OK(t, err)
	if d := cmp.Diff([]notify.Notice{changed}, pending(t, box)); d != "" || changed.Rev == n.Rev || !changed.Due.Equal(n.Due) || !changed.IsDone("b") {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func oldestFirst(t *testing.T, box *notify.Outbox, c *notifytest.Clock) {
	for _, n := range []int{3, 1, 2, 5, 4} {
		require.OK(t, box.Put(t.Context(), notifytest.Sample(n)))
		c.Pass(time.Second)
	}
	if d := cmp.Diff([]string{"event-3", "event-1", "event-2", "event-5", "event-4"}, ids(pending(t, box))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func putOnce(t *testing.T, box *notify.Outbox, c *notifytest.Clock) {
	for range 3 {
		require.OK(t, box.Put(t.Context(), notifytest.Sample(1)))
	}
	list := pending(t, box)
	if len(list) != 1 {
		t.Fatalf("Pending = %v", ids(list))
	}
	require.OK(t, box.Remove(t.Context(), list[0]))
	c.Pass(notify.Remember - time.Minute)
	require.OK(t, box.Put(t.Context(), notifytest.Sample(1)))
	if list := pending(t, box); len(list) > 0 {
		t.Errorf("the event is pending again: %v", ids(list))
	}
}

func withoutID(t *testing.T, box *notify.Outbox, _ *notifytest.Clock) {
	for range 2 {
		e := notifytest.Sample(0)
		e.ID, e.Request = "", ""
		require.OK(t, box.Put(t.Context(), e))
	}
	for range 2 {
		e := notifytest.Sample(0)
		e.ID = ""
		require.OK(t, box.Put(t.Context(), e))
	}
	list := ids(pending(t, box))
	if len(list) != 3 || list[0] == list[1] || list[0] == "" {
		t.Errorf("Pending = %q, want two different ids, and one of a request", list)
	}
}

func forgotten(t *testing.T, box *notify.Outbox, c *notifytest.Clock) {
	require.OK(t, box.Put(t.Context(), notifytest.Sample(1)))
	require.OK(t, box.Remove(t.Context(), pending(t, box)[0]))
	c.Pass(notify.Remember + time.Minute)
	require.OK(t, box.Put(t.Context(), notifytest.Sample(2)))
	require.OK(t, box.Put(t.Context(), notifytest.Sample(1)))
	if list := pending(t, box); len(list) != 2 {
		t.Errorf("Pending = %v", ids(list))
	}
}

func takenNotice(t *testing.T, box *notify.Outbox, _ *notifytest.Clock) {
	require.OK(t, box.Put(t.Context(), notifytest.Sample(1)))
	n := pending(t, box)[0]
	n.Tries = 1
	next, err := box.Change(t.Context(), n)
	require.OK(t, err)
	n.Tries = 7
	if _, err := box.Change(t.Context(), n); !errors.Is(err, notify.ErrTaken) {
		t.Errorf("Change = %v, want ErrTaken", err)
	}
	if err := box.Remove(t.Context(), n); !errors.Is(err, notify.ErrTaken) {
		t.Errorf("Remove = %v, want ErrTaken", err)
	}
	if d := cmp.Diff([]notify.Notice{next}, pending(t, box)); d != "" || next.Tries != 1 {
		t.Errorf("(-want +got):\n%s", d)
	}
	require.OK(t, box.Remove(t.Context(), next))
}

func removedNotice(t *testing.T, box *notify.Outbox, _ *notifytest.Clock) {
	require.OK(t, box.Put(t.Context(), notifytest.Sample(1)))
	n := pending(t, box)[0]
	require.OK(t, box.Remove(t.Context(), n))
	if err := box.Remove(t.Context(), n); !errors.Is(err, notify.ErrTaken) {
		t.Errorf("Remove = %v, want ErrTaken", err)
	}
	if _, err := box.Change(t.Context(), n); !errors.Is(err, notify.ErrTaken) {
		t.Errorf("Change = %v, want ErrTaken", err)
	}
	if list := pending(t, box); len(list) > 0 {
		t.Errorf("Pending = %v", ids(list))
	}
}

func floodOfEvents(t *testing.T, box *notify.Outbox, _ *notifytest.Clock) {
	const few = 100
	for n := range few {
		require.OK(t, box.Put(t.Context(), notifytest.Sample(n)))
	}
	var full atomic.Int64
	var wg sync.WaitGroup
	for from := range 8 {
		wg.Go(func() {
			for n := few + from; n < notify.MaxOpen+200; n += 8 {
				e := notifytest.Sample(n)
				switch err := box.Put(t.Context(), e); {
				case errors.Is(err, notify.ErrFull):
					full.Add(1)
				case err != nil:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	list := pending(t, box)
	if len(list) > notify.MaxOpen || len(list) < notify.MaxOpen/2 || full.Load() != int64(notify.MaxOpen+200-len(list)) {
		t.Errorf("%d notices are open, %d events were refused", len(list), full.Load())
	}
	for _, n := range list[:50] { // a removal whose answer is lost is retried, and then the notice is gone
		if err := box.Remove(t.Context(), n); err != nil && !errors.Is(err, notify.ErrTaken) {
			t.Fatal(err)
		}
	}
	if rest := pending(t, box); len(rest) != len(list)-50 || slices.ContainsFunc(rest, func(n notify.Notice) bool {
		return slices.Contains(ids(list[:50]), n.Event.ID)
	}) {
		t.Errorf("%d of %d are open after 50 removals", len(rest), len(list))
	}
	held := 0
	for n := range 50 { // the outbox does not remember refused events, so they can be put again
		err := box.Put(t.Context(), notifytest.Sample(10000+n))
		if err == nil {
			held++
		} else if !errors.Is(err, notify.ErrFull) {
			t.Error(err)
		}
	}
	if held < 5 {
		t.Errorf("of 50 events that fit now, %d are stored", held)
	}
}

func longEvent(t *testing.T, box *notify.Outbox, _ *notifytest.Clock) {
	e := notifytest.Sample(1)
	e.ID, e.Agent, e.By = strings.Repeat("i", 5000), strings.Repeat("ü", 5000), "a\nb\x00"
	for n := range 200 {
		e.Items = append(e.Items, tool.ID{Server: "git", Name: fmt.Sprintf("t%d", n)})
	}
	require.OK(t, box.Put(t.Context(), e))
	require.OK(t, box.Put(t.Context(), e))
	list := pending(t, box)
	if len(list) != 1 {
		t.Fatalf("Pending = %v", ids(list))
	}
	got := list[0].Event
	if len(got.ID) > 200 || len(got.Agent) > 500 || strings.ContainsAny(got.By, "\n\x00") || len(got.Items) != notify.MaxItems || got.More != 201-notify.MaxItems {
		t.Errorf("the stored event is %+v", got)
	}
}
