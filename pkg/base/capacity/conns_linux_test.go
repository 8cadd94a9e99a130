package capacity_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// serveFew serves on a gate for 64 connections until the test ends. It returns a function that
// connects.
func serveFew(t *testing.T, h http.HandlerFunc) (*capacity.Gate, func() net.Conn) {
	t.Helper()
	g := capacity.NewGate(capacity.Limits{Memory: 1 << 30, Descriptors: 128}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.OK(t, err)
	s := &http.Server{Handler: g.Handler(h), ConnContext: capacity.WithConn}
	go func() { _ = s.Serve(g.Listener(l)) }()
	t.Cleanup(func() { s.Close() })
	return g, func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		require.OK(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
}

const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// isOpen reports whether the server keeps a connection open. It sends a request on the connection.
func isOpen(c net.Conn) bool {
	if _, err := io.WriteString(c, get); err != nil {
		return false
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	return err == nil && res.StatusCode == http.StatusOK
}

// If there is one connection too many, the gate closes the connection that has been idle longest.
// It never closes a connection whose request is in flight.
func TestIdleConnectionsClose(t *testing.T) {
	hang := make(chan bool)
	g, connect := serveFew(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-hang
		}
	})
	busy := connect()
	_, err := io.WriteString(busy, "GET /hang HTTP/1.1\r\nHost: x\r\n\r\n")
	require.OK(t, err)
	local.Until(t, "the request is in flight", func() bool { return g.Facts().Requests == 1 })
	var idle []net.Conn
	for range 63 {
		idle = append(idle, connect())
	}
	local.Until(t, "all are accepted", func() bool { return g.Facts().Connections == 64 })
	for range 3 {
		if !isOpen(connect()) {
			t.Error("a request on a new connection is not answered")
		}
	}
	if n := g.Facts().Connections; n > 64 {
		t.Errorf("%d connections", n)
	}
	for i, want := range map[int]bool{0: false, 1: false, 2: false, 40: true, 62: true} {
		if got := isOpen(idle[i]); got != want {
			t.Errorf("idle connection %d is open: %t", i, got)
		}
	}
	close(hang)
	res, err := http.ReadResponse(bufio.NewReader(busy), nil)
	require.OK(t, err)
	if res.StatusCode != http.StatusOK {
		t.Errorf("the request in flight: %d", res.StatusCode)
	}
}

// When a descriptor is missing, idle connections close, and the facts say so.
func TestShort(t *testing.T) {
	g, connect := serveFew(t, func(http.ResponseWriter, *http.Request) {})
	for range 40 {
		connect()
	}
	local.Until(t, "all are accepted", func() bool { return g.Facts().Connections == 40 })
	if g.Facts().IsShort {
		t.Error("descriptors are missing")
	}
	local.Until(t, "a quarter of the idle ones are closed", func() bool { g.Short(); return g.Facts().Connections <= 30 })
	local.WithoutDescriptors(t, func() {
		if err := capacity.Probe(); !capacity.IsDescriptors(err) || !g.Facts().IsShort {
			t.Errorf("Probe = %v, facts %+v", err, g.Facts())
		}
	})
	if !isOpen(connect()) {
		t.Error("no request is answered afterwards")
	}
}
