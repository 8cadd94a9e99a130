package state

import "time"

// A change of the system clock must not delay the read of new data. Ages therefore use the
// monotonic clock, which is part of a time from [time.Now]. The monotonic clock may stop while a
// function is frozen or a laptop sleeps, so ages also use the wall clock. Data is old if it is old
// by either clock.

// A deadline is the time of the next read of some data. The zero deadline has passed.
type deadline struct {
	from, at time.Time // when it was set, and the deadline
}

func after(now time.Time, d time.Duration) deadline { return deadline{now, now.Add(d)} }

// hasPassed reports whether the deadline has passed. It also returns true if now is before the
// deadline was set, because then the elapsed time is unknown.
func (d deadline) hasPassed(now time.Time) bool {
	return !now.Before(d.at) || !wall(now).Before(wall(d.at)) || now.Before(d.from)
}

// earlier returns a deadline that is set now and passes at the earlier of d.at and the time at.
func (d deadline) earlier(now time.Time, at time.Time) deadline {
	if at.Before(d.at) {
		return deadline{now, at}
	}
	return deadline{now, d.at}
}

// wall returns the wall clock of t.
func wall(t time.Time) time.Time { return t.Round(0) }
