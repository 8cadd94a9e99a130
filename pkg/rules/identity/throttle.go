package identity

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A source may have this many failures in a burst, and then one failure in each interval.
const (
	failBurst   = 20
	failEvery   = 3 * time.Second
	maxFailures = 4096 // sources in memory
)

// A throttle slows down sources that send agent tokens that do not exist. Nobody can guess a token
// of 256 bits, but each wrong token costs a read of the store. The zero throttle is ready to use.
type throttle struct {
	mu      sync.Mutex
	sources map[netip.Prefix]*rate.Limiter
}

// wait returns how long a source has to wait; 0: not at all.
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

// makeRoom makes room for another source. If there are maxFailures sources, it removes the sources
// that may have a full burst again. If there are none, it removes an arbitrary source.
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

// sourceOf returns the source of a request. All addresses of an IPv6 /64 are one source, because
// they usually belong to one customer. All unreadable addresses are one source, too.
func sourceOf(r *http.Request, trusted int) netip.Prefix {
	addr := addressOf(r, trusted)
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, _ := addr.Prefix(bits) // the zero Prefix for the zero Addr
	return p
}

// Source returns the client address of a request, or "" if the address cannot be read. trusted is
// how many proxies are between the callers and this program; see [Options].
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

// forwarded returns the address that the outermost trusted proxy saw. It returns "" if there are no
// trusted proxies, or if the request did not pass all of them. Each proxy appends the address that
// connected to it; the sender may have written the entries to the left of these.
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

// readAddress reads an address, with a port or without; it returns the zero Addr for other text.
func readAddress(address string) netip.Addr {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		ap, _ := netip.ParseAddrPort(address)
		addr = ap.Addr()
	}
	return addr.Unmap().WithZone("")
}
