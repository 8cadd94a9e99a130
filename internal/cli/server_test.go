package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// A pipeListener accepts connections within the process, so that a test can control time.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// serving runs the server of newServer with h until the test ends, and returns a function that
// connects to it.
func serving(t *testing.T, h http.HandlerFunc) func() net.Conn {
	t.Helper()
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := newServer(context.Background(), h, slog.New(slog.DiscardHandler))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve = %v", err)
		}
	})
	return func() net.Conn {
		ours, theirs := net.Pipe()
		l.conns <- theirs
		t.Cleanup(func() { ours.Close() })
		return ours
	}
}

func TestServerUnfinishedBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan error, 1)
		c := serving(t, func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			read <- err
		})()
		start := time.Now()
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		if err := <-read; err == nil {
			t.Error("an incomplete body was read without an error")
		}
		if took := time.Since(start); took > 60*time.Second {
			t.Errorf("it was held for %v", took)
		}
	})
}

func TestServerLongRequest(t *testing.T) {
	for name, request := range map[string]string{
		"with a body":    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"in chunks":      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"without a body": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := serving(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.ReadAll(r.Body)
					select {
					case <-r.Context().Done():
						w.WriteHeader(http.StatusTeapot)
					case <-time.After(5 * time.Minute):
					}
				})()
				if _, err := io.WriteString(c, request); err != nil {
					t.Fatal(err)
				}
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				require.OK(t, err)
				res.Body.Close()
				if res.StatusCode != http.StatusOK {
					t.Error("the request was canceled as if its client had left")
				}
			})
		})
	}
}

func TestServerIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serving(t, func(http.ResponseWriter, *http.Request) {})()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 5*time.Minute {
			t.Errorf("it was held for %v", took)
		}
	})
}
