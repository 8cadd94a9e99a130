package upstreamtest

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
)

// Ask makes a server of the handshake protocol send its client a request on the event stream of a
// call, and then answer the call with result. %s in result is replaced by the client's answer, as a
// JSON string. The server waits for the client's answer until the client closes the call.
func Ask(method, result string) Fault {
	return func(s *Server, w http.ResponseWriter, r *http.Request, _ http.Handler) {
		req, ok := r.Context().Value(requestKey{}).(*Request)
		if !ok {
			return
		}
		s.mu.Lock()
		s.nextID++
		id := fmt.Sprintf(`"ask-%d"`, s.nextID)
		came := make(chan []byte, 1)
		s.asked[id] = came
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":%q,\"params\":{}}\n\n", id, method)
		_ = http.NewResponseController(w).Flush() // fails if the client has left
		select {
		case answer := <-came:
			if n := len(answer); n > 0 {
				result := fmt.Sprintf(result, rawjson.Quote(string(answer)))
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", req.ID, result)
			}
		case <-s.closed:
		case <-r.Context().Done():
		}
	}
}

// Says makes a server answer a call with an event stream of the messages and then the result. If
// result is "", no result follows. In a message, %token% is replaced by the progress token of the
// request, and %id% by its id.
func Says(result string, messages ...string) Fault {
	return func(s *Server, w http.ResponseWriter, r *http.Request, _ http.Handler) {
		req, ok := r.Context().Value(requestKey{}).(*Request)
		if !ok {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fill := strings.NewReplacer("%token%", cmp.Or(string(req.meta.Get("progressToken")), "0"), "%id%", string(req.ID))
		for _, m := range messages {
			fmt.Fprintf(w, "data: %s\n\n", fill.Replace(m))
		}
		if result != "" {
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", req.ID, result)
			return
		}
		_ = http.NewResponseController(w).Flush() // fails if the client has left
		s.wait(r, nil)
	}
}

// takeAnswer passes a client's answer to the server's waiting request, and reports whether the body
// was an answer.
func (s *Server) takeAnswer(body []byte) bool {
	id := string(rawjson.Get(body, "id"))
	s.mu.Lock()
	defer s.mu.Unlock()
	came := s.asked[id]
	if came != nil {
		delete(s.asked, id)
		came <- body
	}
	return came != nil
}
