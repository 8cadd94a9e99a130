package upstreamtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// A Network is a network in memory, for tests with a fake clock. For synctest, waiting for a
// connection of a Network is durable blocking; waiting for a real connection is not.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*memListener
}

// Listen listens on an address such as "name:80".
func (n *Network) Listen(addr string) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners = map[string]*memListener{}
	}
	l := &memListener{addr: memAddr(addr), conns: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[addr] = l
	return l
}

// Dial connects to the listener of an address.
func (n *Network) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	if l == nil {
		return nil, refused
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type memListener struct {
	addr   memAddr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memListener) Addr() net.Addr { return l.addr }

type memAddr string

func (memAddr) Network() string  { return "memory" }
func (a memAddr) String() string { return string(a) }

// Peer listens on a free port of 127.0.0.1, passes every connection to handle and then closes the
// connection. It returns host:port.
func Peer(t TB, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				handle(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// Certificate returns a new self-signed certificate for hosts, which are names or addresses, and a
// pool with this certificate as its authority.
func Certificate(hosts ...string) (tls.Certificate, *x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	c := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "upstreamtest"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool, nil
}

// DNS starts a name server on loopback and returns a resolver that uses it. answer returns the
// addresses of a name (without the final dot) for its n-th query, from 1. If there are none, the
// name does not exist. If ok is false, the server does not answer.
func DNS(t TB, answer func(name string, n int) (addrs []netip.Addr, ok bool)) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		asked := map[string]int{}
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply, err := dnsReply(buf[:n], asked, answer); err == nil {
				_, _ = conn.WriteTo(reply, from) // clients repeat a lost query
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

var errNoReply = errors.New("no reply")

// dnsReply returns the reply to one query, with the A or AAAA records of its type.
func dnsReply(query []byte, asked map[string]int, answer func(string, int) ([]netip.Addr, bool)) ([]byte, error) {
	const header, typeA, typeAAAA = 12, 1, 28
	name, at := "", header
	for at < len(query) && query[at] != 0 {
		end := at + 1 + int(query[at])
		if end > len(query) {
			return nil, errNoReply
		}
		if name != "" {
			name += "."
		}
		name += string(query[at+1 : end])
		at = end
	}
	at += 5 // skip the root label, type and class
	if at > len(query) {
		return nil, errNoReply
	}
	kind := binary.BigEndian.Uint16(query[at-4:])
	if kind == typeA {
		asked[name]++
	}
	addrs, ok := answer(name, max(1, asked[name]))
	if !ok {
		return nil, errNoReply
	}
	reply := append([]byte(nil), query[:at]...)
	reply[2], reply[3] = 0x84, 0 // an authoritative response
	if len(addrs) == 0 {
		reply[3] = 3 // the name does not exist
	}
	copy(reply[6:header], make([]byte, 6))
	count := 0
	for _, a := range addrs {
		if (kind == typeA) != a.Is4() || kind != typeA && kind != typeAAAA {
			continue
		}
		reply = append(reply, 0xc0, header, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(a.BitLen()/8))
		reply = append(reply, a.AsSlice()...)
		count++
	}
	reply[7] = byte(count)
	return reply, nil
}
