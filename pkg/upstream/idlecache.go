package upstream

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// The gateway ends a program that nobody calls. A sync does not start the program again each minute
// only to get the same listing, because the listing hardly changes while the program does not run.

// idleListing returns the last listing of the server's program. It returns false if the program has
// not ended since that listing, or if another program of the server has started since.
func (ps *programs) idleListing(k entryKey, c *Command) (outcome.Outcome, bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	s := ps.slots[k]
	if s == nil || s.running != nil || s.ends > 0 || s.listing == nil || !reflect.DeepEqual(s.listing, c) || time.Since(s.listed.CheckedAt) > maxSleep {
		return outcome.Outcome{}, false
	}
	for other, o := range ps.slots {
		if other.Server == k.Server && other.URL == k.URL && o.begun.After(s.listed.CheckedAt) {
			return outcome.Outcome{}, false
		}
	}
	return s.listed, true
}

// noteListing stores the outcome of a load.
func (ps *programs) noteListing(k entryKey, c *Command, out outcome.Outcome) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if s := ps.slots[k]; s != nil && out.Status == outcome.Available {
		s.listed, s.listing = out, c
	}
}

// noteListChange passes on that a program of the server reports a changed list. The next load asks
// a program again, even if the program of loads does not run.
func (ps *programs) noteListChange(server string) {
	ps.mu.Lock()
	for k, s := range ps.slots {
		if k.Server == server {
			s.listing = nil
		}
	}
	ps.mu.Unlock()
	ps.changed(server)
}

// keep ends the programs of servers that are no longer among the targets.
func (ps *programs) keep(targets []Target) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for k, s := range ps.slots {
		if slices.ContainsFunc(targets, func(t Target) bool { return t.Command != nil && t.ID == k.Server && t.URL == k.URL }) {
			continue
		}
		if p := s.running; p != nil {
			s.running = nil
			go p.stop()
		}
		delete(ps.slots, k)
	}
}

// end ends all programs, and prevents new starts.
func (ps *programs) end(ctx context.Context) {
	ps.mu.Lock()
	for _, s := range ps.slots {
		s.running = nil // the program will end
	}
	ps.mu.Unlock()
	ps.host.Close(ctx, exitPatience)
}
