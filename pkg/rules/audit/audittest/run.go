package audittest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Run checks each promise of [audit.Events] in a subtest. open returns an empty store of events.
func Run(t *testing.T, open func(t *testing.T) audit.Events) {
	for _, promise := range []struct {
		name string
		held func(*testing.T, audit.Events)
	}{
		{"an empty store has no lines", none},
		{"a line comes back as it was put", roundTrip},
		{"lines are sorted by time, newest first, and not by when they were put", newestFirst},
		{"lines with the same time are all kept", sameMoment},
		{"pages have each line once, also while new lines are written", pages},
		{"every filter selects", filters},
		{"a time range includes its start, but not its end", bounds},
		{"a rare line is found on a later page", sparse},
		{"a change is stored only if the subject's state is new", change},
		{"if processes race, one writes the change", racing},
		{"a cursor from another source is refused", foreign},
		{"a line that is not an event is refused", refused},
		{"after the end of its context, a write stores nothing", ended},
	} {
		t.Run(promise.name, func(t *testing.T) { promise.held(t, open(t)) })
	}
}

// Start is the time of sample 0.
var Start = time.Date(2026, 11, 22, 9, 30, 0, 123456789, time.UTC)

// sample returns the event whose time is n seconds after Start.
func sample(n int) audit.Line {
	return audit.Line{
		V: audit.Version, Time: Start.Add(time.Duration(n) * time.Second), Kind: audit.KindEvent,
		Actor: "kim", Action: audit.ActionTokenMade, Subject: fmt.Sprintf("token:t%d", n), Source: "192.0.2.7",
	}
}

func put(t *testing.T, s audit.Events, lines ...audit.Line) {
	t.Helper()
	for _, l := range lines {
		require.OK(t, s.PutEvent(t.Context(), l))
	}
}

// All returns every line that f selects, read in pages of limit lines.
func All(t *testing.T, s audit.Events, f audit.Filter, limit int) (all []audit.Line) {
	t.Helper()
	for after, n := audit.Cursor(""), 0; ; n++ {
		page, next, err := s.Events(t.Context(), f, after, limit)
		require.OK(t, err)
		if len(page) > limit || n > 1000 {
			t.Fatalf("page %d has %d lines, want at most %d", n, len(page), limit)
		}
		all = append(all, page...)
		if next == "" {
			return all
		}
		after = next
	}
}

// want checks which lines f selects, by subject.
func want(t *testing.T, s audit.Events, f audit.Filter, subjects ...string) {
	t.Helper()
	var got []string
	for _, l := range All(t, s, f, 3) {
		got = append(got, strings.TrimPrefix(l.Subject, "token:"))
	}
	if d := cmp.Diff(subjects, got); d != "" {
		t.Errorf("%+v (-want +got):\n%s", f, d)
	}
}

func none(t *testing.T, s audit.Events) { want(t, s, audit.Filter{}) }

func roundTrip(t *testing.T, s audit.Events) {
	l := sample(1)
	l.Tool, l.Hash, l.From, l.Note = "git:git_push", "aa", "bb", "=1+1 \"quoted\"\n<b>\u202e é \x00"
	put(t, s, l)
	all := All(t, s, audit.Filter{}, 10)
	if len(all) != 1 || all[0].Cursor == "" {
		t.Fatalf("%+v, want one line with its cursor", all)
	}
	l.Cursor = all[0].Cursor
	if d := cmp.Diff(l, all[0]); d != "" {
		t.Errorf("(-put +got):\n%s", d)
	}
}

func newestFirst(t *testing.T, s audit.Events) {
	put(t, s, sample(2), sample(3), sample(1))
	want(t, s, audit.Filter{}, "t3", "t2", "t1")
}

func sameMoment(t *testing.T, s audit.Events) {
	for n := range 7 {
		l := sample(n)
		l.Time = Start
		put(t, s, l)
	}
	seen := map[string]int{}
	for _, l := range All(t, s, audit.Filter{}, 2) {
		seen[l.Subject]++
	}
	for n := range 7 {
		if subject := sample(n).Subject; seen[subject] != 1 {
			t.Errorf("%s came %d times, want once", subject, seen[subject])
		}
	}
}

func pages(t *testing.T, s audit.Events) {
	for n := range 10 {
		put(t, s, sample(n))
	}
	var got []string
	for after, more := audit.Cursor(""), true; more; {
		page, next, err := s.Events(t.Context(), audit.Filter{}, after, 4)
		require.OK(t, err)
		for n, l := range page {
			got = append(got, l.Subject)
			rest, _, err := s.Events(t.Context(), audit.Filter{}, l.Cursor, 1)
			if require.OK(t, err); n+1 < len(page) && (len(rest) != 1 || rest[0].Subject != page[n+1].Subject) {
				t.Errorf("after %s comes %+v, want %s", l.Subject, rest, page[n+1].Subject)
			}
		}
		after, more = next, next != ""
		put(t, s, sample(100+len(got)))
	}
	var wanted []string
	for n := 9; n >= 0; n-- {
		wanted = append(wanted, sample(n).Subject)
	}
	if d := cmp.Diff(wanted, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func filters(t *testing.T, s audit.Events) {
	stop, approved, login := sample(1), sample(2), sample(3)
	stop.Actor, stop.Action, stop.Subject = "sam", audit.ActionStop, "server:git"
	approved.Action, approved.Subject, approved.Tool = "approve", "", "git:git_push"
	login.Action, login.Subject = audit.ActionLogin, "session:x"
	put(t, s, stop, approved, login)
	want(t, s, audit.Filter{Actor: "sam"}, "server:git")
	want(t, s, audit.Filter{Action: audit.ActionLogin}, "session:x")
	want(t, s, audit.Filter{Server: "git"}, "", "server:git")
	want(t, s, audit.Filter{Tool: "git:git_push"}, "")
	want(t, s, audit.Filter{Tool: "git_push"}, "")
	want(t, s, audit.Filter{Actor: "kim", Server: "git"}, "")
	want(t, s, audit.Filter{Kind: audit.KindEvent}, "session:x", "", "server:git")
	want(t, s, audit.Filter{Kind: audit.KindCall})
	want(t, s, audit.Filter{Actor: "ki"})
}

func bounds(t *testing.T, s audit.Events) {
	for n := range 6 {
		put(t, s, sample(n))
	}
	at := func(n int) time.Time { return sample(n).Time }
	want(t, s, audit.Filter{Since: at(4)}, "t5", "t4")
	want(t, s, audit.Filter{Until: at(2)}, "t1", "t0")
	want(t, s, audit.Filter{Since: at(1), Until: at(5)}, "t4", "t3", "t2", "t1")
	want(t, s, audit.Filter{Since: at(1).Add(1), Until: at(2).Add(1).In(time.FixedZone("", 3600))}, "t2")
	want(t, s, audit.Filter{Since: at(5).Add(1)})
	want(t, s, audit.Filter{Since: at(3), Until: at(3)})
	want(t, s, audit.Filter{Since: at(4), Until: at(1)})
	page, _, err := s.Events(t.Context(), audit.Filter{}, "", 2)
	require.OK(t, err)
	outside, _, err := s.Events(t.Context(), audit.Filter{Until: at(2)}, page[1].Cursor, 5)
	if err != nil || len(outside) != 2 || outside[0].Subject != "token:t1" {
		t.Errorf("with a cursor that is newer than the filter's end: %+v, %v; want t1 and t0", outside, err)
	}
}

func sparse(t *testing.T, s audit.Events) {
	for n := range 230 {
		l := sample(n)
		if n%100 == 0 {
			l.Actor = "sam"
		}
		put(t, s, l)
	}
	want(t, s, audit.Filter{Actor: "sam"}, "t200", "t100", "t0")
}

func change(t *testing.T, s audit.Events) {
	for n, step := range []struct {
		subject, state string
		due            bool
	}{
		{"file:a", "1", true}, {"file:a", "1", false}, {"file:b", "1", true}, {"file:a", "2", true}, {"file:a", "2", false},
		{"file:a", "1", true}, {"file:b", "1", false},
	} {
		l := sample(n)
		l.Subject = step.subject
		if due, err := s.PutChange(t.Context(), l, step.state); err != nil || due != step.due {
			t.Errorf("step %d: %v, %v; want %v", n, due, err, step.due)
		}
	}
	want(t, s, audit.Filter{}, "file:a", "file:a", "file:b", "file:a")
}

func racing(t *testing.T, s audit.Events) {
	const writers = 6
	var wg sync.WaitGroup
	wrote, errs := make([]bool, writers), make([]error, writers)
	for n := range writers {
		wg.Go(func() {
			l := sample(n)
			l.Subject = "file:a"
			wrote[n], errs[n] = s.PutChange(t.Context(), l, "new")
		})
	}
	wg.Wait()
	count := 0
	for n := range writers {
		require.OK(t, errs[n])
		if wrote[n] {
			count++
		}
	}
	if all := All(t, s, audit.Filter{}, 10); count != 1 || len(all) != 1 {
		t.Errorf("%d writers report a write, and %d lines are stored; want one", count, len(all))
	}
}

func foreign(t *testing.T, s audit.Events) {
	put(t, s, sample(1))
	for _, after := range []audit.Cursor{"x", "é", audit.Cursor(strings.Repeat("0", 500))} {
		if page, _, err := s.Events(t.Context(), audit.Filter{}, after, 10); !errors.Is(err, audit.ErrCursor) || page != nil {
			t.Errorf("after %q: %v, %v; want ErrCursor", after, page, err)
		}
	}
}

func refused(t *testing.T, s audit.Events) {
	call, noTime, noAction, long := sample(1), sample(1), sample(1), sample(1)
	call.Kind, noTime.Time, noAction.Action = audit.KindCall, time.Time{}, ""
	long.Note = strings.Repeat("x", audit.MaxText+1)
	for _, l := range []audit.Line{{}, call, noTime, noAction, long} {
		_, changed := s.PutChange(t.Context(), l, "x")
		if err := s.PutEvent(t.Context(), l); err == nil || changed == nil {
			t.Errorf("%.100v was stored", l)
		}
	}
	want(t, s, audit.Filter{})
}

func ended(t *testing.T, s audit.Events) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, changed := s.PutChange(ctx, sample(1), "x")
	if err := s.PutEvent(ctx, sample(1)); err == nil || changed == nil {
		t.Error("a write succeeded after the end of its context")
	}
	if _, _, err := s.Events(ctx, audit.Filter{}, "", 1); err == nil {
		t.Error("a read succeeded after the end of its context")
	}
	want(t, s, audit.Filter{})
}
