package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/process"
)

// errAgentFull refuses a start because the agent has its maximum number of programs, and all are in
// use.
var errAgentFull = errors.New("the agent has its maximum number of programs, and all are in use")

// maxLost limits the records of sessions that lost their program.
const maxLost = 1024

// holder returns the key under which the program of k is counted. A shared program or a load's
// program counts for no agent.
func (k entryKey) holder() string {
	if k.Owner == (session.Owner{}) {
		return "\x00" + k.Server + "\x00" + k.URL
	}
	return k.Owner.QuotaKey()
}

// makeRoom makes room for the program of a slot. It returns nil if the program can start now, or
// the program that has to end first. The error is [process.ErrFull] or [errAgentFull] if no program
// can end to make room. The caller holds the lock.
//
// The programs of loads end first, because they have no caller's state.
func (ps *programs) makeRoom(s *slot, k entryKey) (*program, error) {
	if s.evicted != nil && ps.all[s.evicted] {
		return s.evicted, nil
	}
	s.evicted = nil
	holder, own := k.holder(), 0
	for p := range ps.all {
		if p.key.holder() == holder {
			own++
		}
	}
	atLimit := k.Owner != (session.Owner{}) && own >= max(1, ps.ofAgent())
	if !atLimit && len(ps.all) < ps.max {
		ps.full = time.Time{}
		return nil, nil
	}
	mayLeave := func(p *program) bool { return !atLimit || p.key.holder() == holder }
	p, idle := ps.leaver(mayLeave, holder)
	switch {
	case p == nil && atLimit:
		return nil, errAgentFull
	case p == nil:
		if !idle && ps.full.IsZero() {
			ps.full = time.Now()
		}
		return nil, process.ErrFull
	}
	p.claimed, s.evicted = true, p
	if v := ps.slots[p.key]; v != nil && v.running == p {
		v.running = nil
		ps.lose(p.key)
		p.log.LogAttrs(context.Background(), slog.LevelInfo, "idle program ended to make room",
			slog.String("agent", p.key.Owner.Agent), slog.String("for_agent", k.Owner.Agent),
			slog.String("for_server", k.Server))
		go p.stop()
	}
	return p, nil
}

// leaver returns the program that ends to make room for a program of holder. It chooses among the
// programs that match: a program that is ending, otherwise an idle program of a load, otherwise an
// idle program by [capacity.Yield]. If there is none, idle reports whether another holder has an
// idle program. The caller holds the lock.
func (ps *programs) leaver(match func(*program) bool, holder string) (found *program, idle bool) {
	var places []capacity.Place
	var programs []*program
	for p := range ps.all {
		s := ps.slots[p.key]
		switch {
		case !match(p):
		case s == nil || s.running != p:
			if !p.claimed {
				return p, true
			}
		default:
			place := capacity.Place{Holder: p.key.holder(), Size: 1, Busy: s.users > 0, Last: p.lastUse()}
			places = append(places, place)
			programs = append(programs, p)
		}
	}
	for i, p := range programs {
		if places[i].Busy {
			continue
		}
		idle = true
		if p.key.load && (found == nil || p.lastUse() < found.lastUse()) {
			found = p
		}
	}
	if i := capacity.Yield(places, holder, 1); found == nil && i >= 0 {
		found = programs[i]
	}
	return found, idle
}

// lose records that the session of a key lost its program. If there are too many records,
// [capacity.Yield] selects a record to drop. The caller holds the lock.
func (ps *programs) lose(k entryKey) {
	if k.load {
		return // a load's session has no state of a caller
	}
	if len(ps.lost) >= maxLost {
		var places []capacity.Place
		var keys []entryKey
		for other, at := range ps.lost {
			places = append(places, capacity.Place{Holder: other.holder(), Size: 1, Last: at})
			keys = append(keys, other)
		}
		if i := capacity.Yield(places, k.holder(), 1); i >= 0 {
			delete(ps.lost, keys[i])
		}
	}
	ps.lost[k] = time.Now().UnixNano()
}

// hasLost reports whether the session of a key lost its program, and no result has reported the
// loss.
func (ps *programs) hasLost(k entryKey) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.lost[k] != 0
}

// takeLost works like hasLost, but returns true only once.
func (ps *programs) takeLost(k entryKey) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	_, ok := ps.lost[k]
	delete(ps.lost, k)
	return ok
}

// fullSince returns since when all programs are in use and starts are refused. It returns zero if
// no start was refused, or a start would succeed now.
func (ps *programs) fullSince() time.Time {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !ps.full.IsZero() {
		_, idle := ps.leaver(func(*program) bool { return true }, "")
		if idle || len(ps.all) < ps.max {
			ps.full = time.Time{}
		}
	}
	return ps.full
}

// ProgramsFull returns since when calls are refused because all programs are in use, and the number
// of programs. The time is zero if no call is refused now.
func (c *Client) ProgramsFull() (since time.Time, programs int) {
	if c.programs == nil {
		return time.Time{}, 0
	}
	return c.programs.fullSince(), c.programs.max
}

// lostNote returns a note for the agent if the session of a tool call has lost its program and no
// result has reported the loss.
func (o *operation) lostNote(call Call) string {
	if call.Method != "" || o.unhold == nil || !o.c.programs.hasLost(o.key) {
		return ""
	}
	return outcome.LostNote(o.t.ID)
}

// withLost returns the result of a call with one more text block if its session has lost its
// program. A result without content, such as a question, stays unchanged, and the next result gets
// the note.
func (o *operation) withLost(call Call, result json.RawMessage) json.RawMessage {
	note := o.lostNote(call)
	if note == "" {
		return result
	}
	content := rawjson.Get(result, "content")
	if len(content) == 0 || content[0] != '[' || !o.c.programs.takeLost(o.key) {
		return result
	}
	return withText(result, note)
}

// Running returns how many sessions with servers this process keeps, and how many programs run.
func (c *Client) Running() (sessions, programs int) {
	if c.programs != nil {
		c.programs.mu.Lock()
		defer c.programs.mu.Unlock()
		programs = len(c.programs.all)
	}
	return c.sessions.len(), programs
}
