package state

import "time"

// A clock that is set, back or forth, must not keep what is new from being read. So ages
// go by the monotonic clock, which times of [time.Now] carry; and since that one may stand
// still while a function is frozen or a laptop sleeps, by the wall clock as well: what
// either of them calls old is old.

// A deadline is when something has to be looked at again. The zero deadline is over.
type deadline struct {
	from, at time.Time // when it was set, and for when
}

func after(now time.Time, d time.Duration) deadline { return deadline{now, now.Add(d)} }

// over reports whether the deadline has passed. It has, too, if now is before it was set:
// then nothing can be told of what has passed.
func (d deadline) over(now time.Time) bool {
	return !now.Before(d.at) || !wall(now).Before(wall(d.at)) || now.Before(d.from)
}

// earlier returns the one of two deadlines that ends first, as of now.
func (d deadline) earlier(now time.Time, at time.Time) deadline {
	if at.Before(d.at) {
		return deadline{now, at}
	}
	return deadline{now, d.at}
}

// wall returns what the wall clock showed at t.
func wall(t time.Time) time.Time { return t.Round(0) }
