package auditevent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
)

const (
	// maxActor limits the characters of the actor that a stop stores.
	maxActor = 100

	// recordTime is the maximum time from a stop in the store to its audit line.
	recordTime = time.Minute

	// lostReason replaces the reason of a stop if the reason is invalid.
	lostReason = "stopped before the approvals were lost"
)

// stop restores the stops that people made and nobody has undone later, if the store lacks them. It
// uses only the audit, because the catalog contains no stops.
func (r *restoring) stop(ctx context.Context) error {
	if r.Stops == nil {
		return nil
	}
	due := openStops(r.others)
	var again []audit.TrailEvent
	_, err := r.Stops.Change(ctx, func(stored stop.Stops) (next stop.Stops, err error) {
		next, again = stored, nil
		for _, d := range due {
			t, _ := targetOf(d.Line)
			if _, is := stored.Find(t); is || endedSince(stored, t, d.Time) {
				continue
			}
			if next, err = next.Add(stopOf(t, d.Line)); err != nil {
				return stored, err
			}
			again = append(again, d)
		}
		return next, nil
	})
	if err != nil {
		return fmt.Errorf("restore stops: %w", err)
	}
	for _, d := range again {
		r.add(d)
	}
	return nil
}

// openStops returns the last stop of each target that was not undone. As with items, an undo counts
// only if the audit has no gap between the two lines. If both lines have the same time, the stop
// counts.
func openStops(events []audit.TrailEvent) []audit.TrailEvent {
	isStop := func(d audit.TrailEvent) bool { return d.Action == audit.ActionStop }
	var list []audit.TrailEvent
	for _, d := range events {
		if _, ok := targetOf(d.Line); ok && (isStop(d) || d.Action == audit.ActionStopUndone) {
			list = append(list, d)
		}
	}
	slices.SortStableFunc(list, func(a, b audit.TrailEvent) int {
		// At the same time, the undo comes before the stop, so the stop counts.
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(b.Action, a.Action))
	})
	var open []audit.TrailEvent
	for _, d := range list {
		i := slices.IndexFunc(open, func(s audit.TrailEvent) bool { return s.Subject == d.Subject })
		switch {
		case isStop(d) && i < 0:
			open = append(open, d)
		case isStop(d):
			open[i] = d
		case i >= 0 && d.Sure && d.Stretch == open[i].Stretch:
			open = slices.Delete(open, i, i+1)
		}
	}
	return open
}

// targetOf returns the target of a stop.
func targetOf(l audit.Line) (t stop.Target, ok bool) {
	switch kind, name := l.About(); kind {
	case audit.AboutServer:
		t.Server = name
	case audit.AboutAgent:
		t.Agent = name
	case audit.AboutAll:
		t.All = true
	}
	return t, t.Check() == nil
}

// endedSince reports whether the store has the end of a stop of t whose audit line has the time at.
// The stop itself may be up to recordTime older than its line, and so may its end.
func endedSince(stored stop.Stops, t stop.Target, at time.Time) bool {
	return slices.ContainsFunc(stored.Ended, func(e stop.Ended) bool { return e.Target == t && e.At.After(at.Add(-recordTime)) })
}

func stopOf(t stop.Target, l audit.Line) stop.Stop {
	s := stop.Stop{Target: t, Reason: l.Note, By: text.Clip(l.Actor, maxActor), At: l.Time.UTC()}
	if text.Blank(s.By) {
		s.By = "unknown"
	}
	if stop.CheckReason(s.Reason) != nil {
		s.Reason = lostReason
	}
	return s
}
