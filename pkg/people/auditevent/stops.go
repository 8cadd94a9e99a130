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
	// maxStopper is how many characters a stop stores of its actor.
	maxStopper = 100

	// recordTime is how much later than a stop its line may be.
	recordTime = time.Minute

	// lostReason replaces the reason of a stop if that is not valid text.
	lostReason = "stopped before the approvals were lost"
)

// stop restores the stops that people made and nobody has undone since, if the store lacks them.
// The catalog has no stops.
func (r *restoring) stop(ctx context.Context) error {
	if r.Stops == nil {
		return nil
	}
	due := openStops(r.others)
	var again []audit.TrailEvent
	_, err := r.Stops.Change(ctx, func(held stop.Stops) (next stop.Stops, err error) {
		next, again = held, nil
		for _, d := range due {
			t, _ := targetOf(d.Line)
			if _, is := held.Find(t); is || endedSince(held, t, d.Time) {
				continue
			}
			if next, err = next.Add(stopOf(t, d.Line)); err != nil {
				return held, err
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

// openStops returns the last stop of each target that was not undone. As with items, only a line
// without a gap in between undoes a stop. If both lines have the same time, the stop counts.
func openStops(events []audit.TrailEvent) []audit.TrailEvent {
	isStop := func(d audit.TrailEvent) bool { return d.Action == audit.ActionStop }
	var list []audit.TrailEvent
	for _, d := range events {
		if _, ok := targetOf(d.Line); ok && (isStop(d) || d.Action == audit.ActionStopUndone) {
			list = append(list, d)
		}
	}
	slices.SortStableFunc(list, func(a, b audit.TrailEvent) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(b.Action, a.Action)) // stop_undone before stop
	})
	var stands []audit.TrailEvent
	for _, d := range list {
		i := slices.IndexFunc(stands, func(s audit.TrailEvent) bool { return s.Subject == d.Subject })
		switch {
		case isStop(d) && i < 0:
			stands = append(stands, d)
		case isStop(d):
			stands[i] = d
		case i >= 0 && d.Sure && d.Stretch == stands[i].Stretch:
			stands = slices.Delete(stands, i, i+1)
		}
	}
	return stands
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

// endedSince reports whether the store knows that the stop with a line of this time was undone.
func endedSince(held stop.Stops, t stop.Target, at time.Time) bool {
	return slices.ContainsFunc(held.Ended, func(e stop.Ended) bool { return e.Target == t && e.At.After(at.Add(-recordTime)) })
}

func stopOf(t stop.Target, l audit.Line) stop.Stop {
	s := stop.Stop{Target: t, Reason: l.Note, By: text.Clip(l.Actor, maxStopper), At: l.Time.UTC()}
	if text.Blank(s.By) {
		s.By = "unknown"
	}
	if stop.CheckReason(s.Reason) != nil {
		s.Reason = lostReason
	}
	return s
}
