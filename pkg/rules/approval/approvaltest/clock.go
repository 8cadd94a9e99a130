package approvaltest

import (
	"time"
	"unsafe"
)

// A Clock has the two clocks of a machine: the wall clock can be set, the monotonic one can stop.
type Clock struct {
	Begin           time.Time     // as [time.Now] returned it
	Wall, Monotonic time.Duration // since Begin
}

// Wait lets time pass on both clocks.
func (c *Clock) Wait(d time.Duration) {
	c.Wall += d
	c.Monotonic += d
}

// Now returns the time as [time.Now] would. The time package cannot make a time.Time whose wall and
// monotonic readings disagree. So Now overwrites the monotonic reading, which is the second word of
// a time that has one.
func (c *Clock) Now() time.Time {
	t, mono := c.Begin.Add(c.Wall), c.Begin.Add(c.Monotonic)
	type words struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}
	(*words)(unsafe.Pointer(&t)).ext = (*words)(unsafe.Pointer(&mono)).ext
	return t
}

// ThreeSeconds has the changes of the clocks that are possible while three seconds pass.
var ThreeSeconds = map[string]func(c *Clock){
	"both go on":              func(c *Clock) { c.Wait(3 * time.Second) },
	"set back an hour":        func(c *Clock) { c.Wait(3 * time.Second); c.Wall -= time.Hour },
	"set forth an hour":       func(c *Clock) { c.Wait(3 * time.Second); c.Wall += time.Hour },
	"frozen meanwhile":        func(c *Clock) { c.Wall += 3 * time.Second },
	"frozen, and set back 1s": func(c *Clock) { c.Wall += 2 * time.Second },
}
