package identity

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// From one source this many failures are looked at at once, and then one every so often.
const (
	failBurst   = 20
	failEvery   = 3 * time.Second
	maxFailures = 4096 // sources that are remembered
)

// A throttle slows down sources that send agent tokens that do not exist. A token of 256 bits is
// not guessed; what is saved is the store reads that guesses would cost.
// The zero throttle is ready to use.
type throttle struct {
	mu      sync.Mutex
	sources map[netip.Prefix]*rate.Limiter
}

// wait returns how long a source has to wait, 0 if it may go on.
func (t *throttle) wait(source netip.Prefix, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.sources[source]
	if !ok {
		return 0
	}
	missing := 1 - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return max(time.Duration(missing*float64(failEvery)), time.Millisecond)
}

// failed notes a failure.
func (t *throttle) failed(source netip.Prefix, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.sources[source]
	if !ok {
		t.makeRoom(now)
		l = rate.NewLimiter(rate.Every(failEvery), failBurst)
		t.sources[source] = l
	}
	l.AllowN(now, 1)
}

// makeRoom forgets who has waited long enough, or else any one.
func (t *throttle) makeRoom(now time.Time) {
	if t.sources == nil {
		t.sources = map[netip.Prefix]*rate.Limiter{}
	}
	if len(t.sources) < maxFailures {
		return
	}
	for source, l := range t.sources {
		if l.TokensAt(now) >= failBurst {
			delete(t.sources, source)
		}
	}
	for source := range t.sources {
		if len(t.sources) < maxFailures {
			return
		}
		delete(t.sources, source)
	}
}

// sourceOf returns where a request comes from. An IPv6 customer has a whole /64, so that is
// one source. Addresses that cannot be read are one source as well.
func sourceOf(r *http.Request, trusted int) netip.Prefix {
	addr := addressOf(r, trusted)
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits) // the zero Prefix for the zero Addr
	return p
}

// Source returns the address that a request comes from, "" if it cannot be read. Trusted is how many
// proxies stand between the callers and this program; see [Options].
func Source(r *http.Request, trusted int) string {
	if addr := addressOf(r, trusted); addr.IsValid() {
		return addr.String()
	}
	return ""
}

func addressOf(r *http.Request, trusted int) netip.Addr {
	if addr := readAddress(forwarded(r.Header, trusted)); addr.IsValid() {
		return addr
	}
	return readAddress(r.RemoteAddr)
}

// forwarded returns the address that the outermost of the trusted proxies saw, "" if there
// are none or the request did not pass all of them. Each adds the address that connected to
// it at the right end; what stands further left, the sender may have written himself.
func forwarded(h http.Header, trusted int) string {
	list := strings.Join(h.Values("X-Forwarded-For"), ",")
	for range trusted - 1 {
		list = list[:max(strings.LastIndexByte(list, ','), 0)]
	}
	if trusted == 0 {
		return ""
	}
	return strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
}

// readAddress reads an address, with a port or without; the zero Addr if it is none.
func readAddress(address string) netip.Addr {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		ap, _ := netip.ParseAddrPort(address)
		addr = ap.Addr()
	}
	return addr.Unmap().WithZone("")
}
