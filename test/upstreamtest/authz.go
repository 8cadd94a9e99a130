package upstreamtest

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Authz is an authorization service. A proxy in front of each server asks the service about each
// request, and fails closed: if the service does not answer in time, the proxy answers 403, as for
// a denied request. Many servers share one service.
type Authz struct {
	Limit    time.Duration        // for one check; 0: 200 ms
	Check    func() time.Duration // what one check takes; nil: 75 to 150 ms
	Parallel int                  // checks at the same time, other checks wait; 0: 8
	Cold     int                  // number of first checks that exceed the limit
	Deny     bool                 // deny every check that ends in time

	once  sync.Once
	slots chan struct{}

	mu                      sync.Mutex
	begun, checks, timeouts int
}

// Counts returns the number of checks, and of checks that did not end in time.
func (a *Authz) Counts() (checks, timeouts int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.checks, a.timeouts
}

// Front puts the proxy in front of a server, for the field Front of [Options].
func (a *Authz) Front(next http.Handler) http.Handler {
	a.once.Do(func() {
		n := a.Parallel
		if n == 0 {
			n = 8
		}
		a.slots = make(chan struct{}, n)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok := a.ask()
		a.mu.Lock()
		a.checks++
		if !ok {
			a.timeouts++
		}
		a.mu.Unlock()
		switch {
		case !ok:
			plain(w, "Authorization service unavailable")
		case a.Deny:
			plain(w, "RBAC: access denied")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func plain(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write([]byte(body)) // fails if the client has left
}

// ask waits for a free slot and then for the check. It returns false if the two together take
// longer than the limit.
func (a *Authz) ask() bool {
	limit := a.Limit
	if limit == 0 {
		limit = 200 * time.Millisecond
	}
	check := a.Check
	if check == nil {
		check = func() time.Duration { return 75*time.Millisecond + rand.N(75*time.Millisecond) }
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-late.C:
		return false
	}
	takes := check()
	a.mu.Lock()
	if a.begun++; a.begun <= a.Cold {
		takes += limit
	}
	a.mu.Unlock()
	done := time.NewTimer(takes)
	defer done.Stop()
	select {
	case <-done.C:
		return true
	case <-late.C:
		return false
	}
}
