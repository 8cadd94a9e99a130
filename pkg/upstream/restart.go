package upstream

import (
	"strings"
	"sync"
	"time"
)

// Restart ends the programs of a server, and its sessions, and forgets its failures. It returns the
// number of programs. The next load or call starts a new program or session. A call that runs in a
// program fails, and its answer says that the call may have taken effect. A call of a server behind
// HTTP goes on.
func (c *Client) Restart(server string) (programs int) {
	c.mu.Lock()
	for key := range c.servers {
		if strings.HasPrefix(key, server+"\x00") {
			delete(c.servers, key)
		}
	}
	c.mu.Unlock()
	if c.programs != nil {
		programs = c.programs.restart(server)
	}
	isOfServer := func(e *sessionEntry) bool { return e.key.Server == server }
	for _, e := range c.sessions.removeIf(isOfServer) {
		c.later(c.ender(e))
	}
	c.sessions.each(func(e *sessionEntry) {
		if isOfServer(e) {
			e.take() // the calls that use it have their own copy
		}
	})
	return programs
}

// restart ends the programs of a server and waits for their end. It returns their number.
func (ps *programs) restart(server string) int {
	ps.mu.Lock()
	var ending []*program
	for key, s := range ps.slots {
		if key.Server != server {
			continue
		}
		if s.running != nil {
			ending = append(ending, s.running)
		}
		s.running, s.ends, s.after, s.listing = nil, 0, time.Time{}, nil
	}
	ps.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range ending {
		wg.Go(p.stop)
	}
	wg.Wait()
	return len(ending)
}
