package upstreamtest

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

// A Fault is a wrong way to answer a request. It answers r itself, or calls serve for the right
// answer.
type Fault func(s *Server, w http.ResponseWriter, r *http.Request, serve http.Handler)

// plannedFault is a fault of later requests.
type plannedFault struct {
	method string // JSON-RPC method of the requests that fail; "": any
	left   int    // number of requests that still fail; below 0: all
	fault  Fault
}

// Fail makes every later request fail.
func (s *Server) Fail(f Fault) { s.FailOn("", -1, f) }

// FailTimes makes the next n requests fail. Then the server is healthy.
func (s *Server) FailTimes(n int, f Fault) { s.FailOn("", n, f) }

// FailOn makes the next n requests with a JSON-RPC method fail. If n is below 0, all of them fail.
// If several faults match a request, the server uses the earliest fault.
func (s *Server) FailOn(method string, n int, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &plannedFault{method, n, f})
}

// failing returns a handler that answers a request with the first fault that is planned for it.
func (s *Server) failing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, _ := r.Context().Value(requestKey{}).(*Request)
		if f := s.strike(req); f != nil {
			f(s, w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) strike(req *Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.faults {
		if p.left == 0 || p.method != "" && (req == nil || p.method != req.Method) {
			continue
		}
		if p.left > 0 {
			p.left--
		}
		return p.fault
	}
	return nil
}

// Status answers with a status code, a body and headers given as name, value, ….
func Status(code int, body string, headers ...string) Fault {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// Redirect answers 307 to another URL.
func Redirect(to string) Fault { return Status(http.StatusTemporaryRedirect, "", "Location", to) }

// HTML answers 200 with a web page.
func HTML() Fault {
	return Status(http.StatusOK, "<!doctype html><title>Welcome</title>", "Content-Type", "text/html; charset=utf-8")
}

// Body answers 200 with any text, and says that the text is JSON.
func Body(body string) Fault { return Status(http.StatusOK, body, "Content-Type", "application/json") }

// BadJSON answers 200 with a whole body that is not JSON.
func BadJSON() Fault { return Body(`{"jsonrpc":"2.0","id":1,"result":{"tools":[}}`) }

// WrongType answers 200 with a body of a type that MCP does not use.
func WrongType() Fault { return Status(http.StatusOK, "id,name\n1,x\n", "Content-Type", "text/csv") }

// RPC answers the request with a JSON-RPC error, in HTTP 200.
func RPC(code int, message string) Fault {
	return func(_ *Server, w http.ResponseWriter, r *http.Request, _ http.Handler) {
		if req, ok := r.Context().Value(requestKey{}).(*Request); ok {
			writeError(w, http.StatusOK, req.ID, &RPCError{Code: code, Message: message})
		}
	}
}

// Result answers the request with a result of any text.
func Result(result string) Fault {
	return func(s *Server, w http.ResponseWriter, r *http.Request, _ http.Handler) {
		if req, ok := r.Context().Value(requestKey{}).(*Request); ok {
			s.result(w, req, []byte(result))
		}
	}
}

// Hang answers nothing until the client leaves or the server closes.
func Hang() Fault {
	return func(s *Server, w http.ResponseWriter, r *http.Request, _ http.Handler) { s.wait(r, nil) }
}

// Slow gives the right answer after a delay.
func Slow(d time.Duration) Fault {
	return func(s *Server, w http.ResponseWriter, r *http.Request, serve http.Handler) {
		t := time.NewTimer(d)
		defer t.Stop()
		if s.wait(r, t.C) {
			serve.ServeHTTP(w, r)
		}
	}
}

// wait waits for c. It returns false if the client leaves or the server closes first.
func (s *Server) wait(r *http.Request, c <-chan time.Time) bool {
	select {
	case <-c:
		return true
	case <-s.closed:
	case <-r.Context().Done():
		s.mu.Lock()
		s.cancelled++
		s.mu.Unlock()
	}
	return false
}

// Reset resets the connection without an answer.
func Reset() Fault { return raw("", true) }

// EOF closes the connection without an answer.
func EOF() Fault { return raw("", false) }

// Truncated ends the connection in the middle of a JSON body.
func Truncated() Fault {
	return raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"jsonrpc\":", false)
}

// TruncatedStream ends an event stream without an error, but before the reply.
func TruncatedStream() Fault {
	return Status(http.StatusOK, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n", "Content-Type", "text/event-stream")
}

// raw writes bytes and closes the connection. If reset is true, it resets the connection.
func raw(bytes string, reset bool) Fault {
	return func(_ *Server, w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return // only with HTTP/2, which this server does not support
		}
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0) // then Close sends a reset
		}
		_, _ = conn.Write([]byte(bytes))
		_ = conn.Close()
	}
}
