package state

import (
	"errors"
	"testing"
	"time"
	"unsafe"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
)

// A machine has the two clocks of one: the wall clock can be set, the monotonic one
// can stand still.
type machine struct {
	begin           time.Time
	wall, monotonic time.Duration // since begin
}

func (m *machine) wait(d time.Duration) {
	m.wall += d
	m.monotonic += d
}

// now returns the time as [time.Now] would. No function makes a time whose two readings
// differ, so the one is written over the other: seconds of the monotonic clock are the
// second word of a time that has them.
func (m *machine) now() time.Time {
	t := m.begin.Add(m.wall)
	mono := m.begin.Add(m.monotonic)
	type words struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}
	(*words)(unsafe.Pointer(&t)).ext = (*words)(unsafe.Pointer(&mono)).ext
	return t
}

func TestMachineShowsBothClocks(t *testing.T) {
	m := &machine{begin: time.Now()}
	before := m.now()
	m.wall -= time.Hour
	m.monotonic += time.Minute
	if got := m.now().Sub(before); got != time.Minute {
		t.Errorf("%v have passed by the monotonic clock, want a minute", got)
	}
	if got := wall(m.now()).Sub(wall(before)); got != -time.Hour {
		t.Errorf("%v have passed by the wall clock, want an hour back", got)
	}
}

// clocks are what can happen to the clocks of a machine while three seconds pass.
var clocks = map[string]func(m *machine){
	"both go on":              func(m *machine) { m.wait(3 * time.Second) },
	"set back an hour":        func(m *machine) { m.wait(3 * time.Second); m.wall -= time.Hour },
	"set forth an hour":       func(m *machine) { m.wait(3 * time.Second); m.wall += time.Hour },
	"frozen meanwhile":        func(m *machine) { m.wall += 3 * time.Second },
	"frozen, and set back 1s": func(m *machine) { m.wall += 2 * time.Second },
}

func TestDeadlineIsOverByEitherClock(t *testing.T) {
	for name, pass := range clocks {
		t.Run(name, func(t *testing.T) {
			m := &machine{begin: time.Now()}
			d := after(m.now(), 2*time.Second)
			if d.over(m.now()) {
				t.Error("it is over when it is set")
			}
			pass(m)
			if !d.over(m.now()) {
				t.Error("it is not over 3 s later")
			}
		})
	}
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) // without a monotonic clock
	if d := after(noon, 2*time.Second); !d.over(noon.Add(-time.Hour)) || d.over(noon.Add(time.Second)) {
		t.Error("without a monotonic clock a time before it was set is not taken for over")
	}
	if !(deadline{}).over(noon) {
		t.Error("the zero deadline is not over")
	}
}

// A decision that is made after a read is within what the next read asks for, whatever
// happened to the clocks in between: the store of a laptop has the same ones.
func TestNoDecisionIsMissedWhateverTheClocksDo(t *testing.T) {
	for name, pass := range clocks {
		for _, cold := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "", true: " before the first read"}[cold], func(t *testing.T) {
				m := &machine{begin: time.Now()}
				h := sources{}
				snap := snapshot(t, 0)
				made, err := catalog.Save(t.Context(), &objecttest.Mem{}, snap, catalog.Current{StartedAt: wall(m.now()).UTC()}, "")
				if err != nil {
					t.Fatal(err)
				}
				m.wait(time.Second)
				h.takeCatalog(made, m.now())
				if !cold {
					m.wait(time.Minute)
					h.readTo = m.now()
				}
				decided := []time.Time{wall(m.now())}
				pass(m)
				decided = append(decided, wall(m.now()))
				m.wait(time.Minute)
				since := h.since(m.now())
				for i, at := range decided {
					if at.Before(since) {
						t.Errorf("decision %d of %v is not asked for: since %v", i, at, since)
					}
				}
			})
		}
	}
}

// Nothing new stays unread because the clock was set back an hour.
func TestWhatIsNewIsReadAlthoughTheClockIsSetBack(t *testing.T) {
	for _, cfg := range []struct {
		name  string
		clock func(m *machine) time.Time
	}{
		{"with a monotonic clock", func(m *machine) time.Time { return m.now() }},
		{"without", func(m *machine) time.Time { return wall(m.now()) }},
	} {
		t.Run(cfg.name, func(t *testing.T) {
			m := &machine{begin: time.Now()}
			clock := func() time.Time { return cfg.clock(m) }
			var objects objecttest.Mem
			approvals := &approvaltest.Mem{Now: clock}
			put := func(key, data string) {
				t.Helper()
				if _, err := objects.Put(t.Context(), key, []byte(data), ""); err != nil {
					t.Fatal(err)
				}
			}
			put(config.Key, `{"mcpServers": {"s": {"url": "https://s.example.com/mcp"}}}`)
			snap := snapshot(t, 0, approval.Decision{ID: revision("a", 0, 0).ID, Rev: 1, State: approval.Approved, ApprovedHash: "h", CurrentHash: "h"})
			if _, err := catalog.Save(t.Context(), &objects, snap, catalog.Current{StartedAt: clock().UTC()}, ""); err != nil {
				t.Fatal(err)
			}
			l := New(&objects, approvals, &Options{Now: clock})
			if !l.Load(t.Context()).Ready() {
				t.Fatal("not ready")
			}
			m.wait(31 * time.Second)
			m.wall -= time.Hour
			put(policy.Key, `@id("none") forbid (principal, action, resource);`)
			r := *snap.Tool(0).Approval
			r.Rev = 0 // the store has none yet
			next, e, err := approval.Disable(r, "ada", "", clock())
			if err == nil {
				_, err = approvals.Put(t.Context(), next, &e)
			}
			if err != nil {
				t.Fatal(err)
			}
			s := l.Load(t.Context())
			if s.Health.Policy.Version == "" {
				t.Error("the new policy is not read")
			}
			if len(l.read.overlay.decisions) != 1 {
				t.Error("the decision is not read")
			}
		})
	}
}

// What is known of decisions ages although the clock is set back.
func TestDecisionsExpireAlthoughTheClockIsSetBack(t *testing.T) {
	m := &machine{begin: time.Now()}
	var h sources
	h.takeCatalog(snapshot(t, 0), m.now()) // made long after now: it counts as made now
	h.approvalsErr = errors.New("store is down")
	m.wait(59 * time.Second)
	m.wall -= time.Hour
	if h.expired(m.now(), time.Minute) {
		t.Error("expired after 59 s")
	}
	m.wait(2 * time.Second)
	if !h.expired(m.now(), time.Minute) {
		t.Error("not expired after 61 s")
	}
}
