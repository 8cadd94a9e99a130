package upstreamtest

import (
	"fmt"
	"net/http"
)

// ToolsChanged is the notification that the list of tools has changed.
const ToolsChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

// stream answers with a notification stream.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	_ = out.Flush() // fails if the client has left, and then ctx ends
	s.o.Stream(r.Context(), func(message string) {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", message)
		_ = out.Flush()
	})
}
