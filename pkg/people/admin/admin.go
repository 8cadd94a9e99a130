// Package admin is the JSON API under /admin: it shows every tool, prompt and resource with its lock,
// carries out what people decide about it, runs syncs, keeps agent tokens, and says who did what.
//
// What stands before it says who sends a request: see decide.WithActor. A browser could be made to
// send requests by another site: what changes something must come as JSON, which no form sends.
package admin

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// An api has what the handlers share.
type api struct {
	service *decide.Service
	tokens  *token.Registry // nil: agent tokens are not served here
	gate    *connect.Gateway

	sessions *signin.Sessions // nil: nobody signs in here
}

// New returns the handler of the API. If tokens is nil it keeps no agent tokens, and if sessions is nil
// nobody signs in; gate is what clients
// are told of, nil if it is not known where that is.
func New(service *decide.Service, tokens *token.Registry, gate *connect.Gateway, sessions *signin.Sessions) http.Handler {
	if gate == nil {
		gate = &connect.Gateway{}
	}
	a := &api{service, tokens, gate, sessions}
	routes := sync.OnceValue(a.routes)
	return readBody(requireJSON(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { routes().ServeHTTP(w, r) })))
}

// routes returns the handler of every operation. To describe them all takes milliseconds, for which neither
// agents nor the pages of the console have to wait: the first request of the API does.
func (a *api) routes() http.Handler {
	mux := http.NewServeMux()
	a.register(mux)
	return mux
}

const (
	maxBody  = 1 << 20 // bytes that an operation takes
	bodyTime = 5 * time.Second
)

// readBody reads the body before the handler answers, even if the operation takes none. A
// connection that is closed while a part of the body is still on its way is reset, and the client
// loses the answer.
func readBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline := http.NewResponseController(w)
		_ = deadline.SetReadDeadline(time.Now().Add(bodyTime)) // a function of AWS has the body already
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		_ = deadline.SetReadDeadline(time.Time{})
		if err != nil {
			decide.WriteProblem(w, http.StatusRequestTimeout, "the body of the request did not come; nothing was done")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// requireJSON refuses a body that a form of another site could send.
func requireJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			if mt, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || mt != "application/json" {
				decide.WriteProblem(w, http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
