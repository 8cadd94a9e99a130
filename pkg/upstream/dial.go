package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

const (
	// Name resolution and connect, and then the TLS handshake, end before the attempt
	// does: their own timeouts say more than its.
	dialTimeout = 3 * time.Second

	// Node closes idle connections after 5 s, and is the first to do so. A
	// request that meets such a close half-way can not be told from one that was
	// processed, so connections are left alone before that.
	idleTimeout = 4 * time.Second
)

// A dialer opens connections to servers, to allowed addresses only.
type dialer struct {
	net   net.Dialer // its Timeout bounds the handshake as well
	rule  dialRule
	roots *x509.CertPool // nil: the system's
}

// dialPlain and dialTLS serve http and https URLs. The address is checked by
// the hook that runs between name resolution and connect, so no second answer of
// a name server comes between the check and the use.

func (d *dialer) dialPlain(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, addr, "http")
	if err != nil {
		return nil, err
	}
	return &sniffed{Conn: conn}, nil
}

func (d *dialer) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &configError{"the URL has no host and port", err}
	}
	conn, err := d.dial(ctx, network, addr, "https")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.net.Timeout)
	defer cancel()
	secure := tls.Client(conn, &tls.Config{ServerName: host, RootCAs: d.roots, MinVersion: tls.VersionTLS12})
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake's error says more
		return nil, &handshakeError{err}
	}
	return &sniffed{Conn: secure}, nil
}

func (d *dialer) dial(ctx context.Context, network, addr, scheme string) (net.Conn, error) {
	nd := d.net
	nd.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return &configError{"the address cannot be checked", err}
		}
		return d.rule.check(scheme, ap)
	}
	return nd.DialContext(ctx, network, addr)
}

// newTransport returns a transport that dials with d. It takes no proxy from the
// environment, and speaks HTTP/1.1 alone: there one connection carries one call, so
// that closing it cancels that call, and a reset loses no other.
func newTransport(d *dialer) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Protocols:              protocols,
		DialContext:            d.dialPlain,
		DialTLSContext:         d.dialTLS,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// A handshakeError is a TLS handshake that failed.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return fmt.Sprintf("tls handshake: %v", e.err) }
func (e *handshakeError) Unwrap() error { return e.err }

// A sniffed connection remembers how the peer's answer began and how the
// connection broke: the transport reports both as text only.
type sniffed struct {
	net.Conn

	mu   sync.Mutex
	head []byte // the first bytes since restart
	err  error  // the first error: the connection is over then
}

// httpHead is how every HTTP/1 response begins.
const httpHead = "HTTP/"

// restart begins a new exchange. It returns false if the peer has closed the
// connection already, so that no request on it is delivered.
func (s *sniffed) restart() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head = s.head[:0]
	return s.err == nil
}

// story returns whether bytes came, whether they were something else than
// HTTP, and the error that ended the connection.
func (s *sniffed) story() (answered, garbled bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.head) > 0, !bytes.HasPrefix([]byte(httpHead), s.head), s.err
}

func (s *sniffed) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.note(p[:n], err)
	return n, err
}

func (s *sniffed) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	s.note(nil, err)
	return n, err
}

func (s *sniffed) note(p []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if room := len(httpHead) - len(s.head); room > 0 {
		s.head = append(s.head, p[:min(room, len(p))]...)
	}
	if s.err == nil {
		s.err = err
	}
}
