// Package egress decides which addresses the gateway may dial, and dials them.
//
// It checks an address between name resolution and connect. A check of the URL before name
// resolution would not suffice, because the name server may answer the second query with another
// address.
package egress

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
)

const (
	// Name resolution, connect and the TLS handshake time out before the attempt, because their
	// timeouts give a more precise reason.
	dialTimeout = 3 * time.Second

	// Node closes idle connections after 5 s. If a server closes a connection during a request, the
	// gateway cannot know whether the server processed the request. The gateway therefore closes
	// idle connections earlier.
	idleTimeout = 4 * time.Second
)

// A Dialer opens connections to the addresses that its rule allows.
type Dialer struct {
	Rule     Rule
	Roots    *x509.CertPool // the CAs of certificates; nil: the system's
	Resolver *net.Resolver  // nil: the system's
	Timeout  time.Duration  // of resolution and connect, then of the TLS handshake; 0: 3 s
}

func (d *Dialer) dialPlain(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, addr, "http")
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: conn}, nil
}

func (d *Dialer) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, blocked("the URL has no host and port: %v", err)
	}
	conn, err := d.dial(ctx, network, addr, "https")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(d.Timeout, dialTimeout))
	defer cancel()
	secure := tls.Client(conn, &tls.Config{ServerName: host, RootCAs: d.Roots, MinVersion: tls.VersionTLS12})
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake's error is more precise
		return nil, &TLSError{Err: err}
	}
	return &Conn{Conn: secure}, nil
}

func (d *Dialer) dial(ctx context.Context, network, addr, scheme string) (net.Conn, error) {
	nd := net.Dialer{Timeout: cmp.Or(d.Timeout, dialTimeout), Resolver: d.Resolver, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return blocked("the address cannot be checked: %v", err)
		}
		return d.Rule.Check(scheme, ap)
	}}
	conn, err := nd.DialContext(ctx, network, addr)
	if _, isDNS := errors.AsType[*net.DNSError](err); isDNS {
		// A resolver without a free descriptor reports this only in the text of its error.
		if short := capacity.Probe(); capacity.IsDescriptors(short) {
			return nil, fmt.Errorf("%w (%w)", short, err)
		}
	}
	return conn, err
}

// Transport returns a transport that dials with d. Its connections are of type [*Conn]. It uses no
// proxy from the environment, and only HTTP/1.1, because each connection then has only one call.
// The end of a connection cancels only this call, and a reset loses no other call.
func (d *Dialer) Transport() *http.Transport {
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

// A TLSError is a TLS handshake that failed.
type TLSError struct{ Err error }

func (e *TLSError) Error() string { return fmt.Sprintf("tls handshake: %v", e.Err) }
func (e *TLSError) Unwrap() error { return e.Err }

// A Conn records how the peer's answer began and how the connection broke, because the transport
// reports both only as text.
type Conn struct {
	net.Conn

	mu   sync.Mutex
	head []byte // the first bytes since Restart
	err  error  // the first error, which ends the connection
}

// httpHead is how every HTTP/1 response begins.
const httpHead = "HTTP/"

// Restart begins a new exchange. It returns false if the peer has already closed the connection, so
// that no request on it can arrive.
func (c *Conn) Restart() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head = c.head[:0]
	return c.err == nil
}

// State returns whether bytes have arrived since [Conn.Restart], whether they were not HTTP, and
// the error that ended the connection.
func (c *Conn) State() (answered, garbled bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.head) > 0, !bytes.HasPrefix([]byte(httpHead), c.head), c.err
}

func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.note(p[:n], err)
	return n, err
}

func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.note(nil, err)
	return n, err
}

func (c *Conn) note(p []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if room := len(httpHead) - len(c.head); room > 0 {
		c.head = append(c.head, p[:min(room, len(p))]...)
	}
	if c.err == nil {
		c.err = err
	}
}
