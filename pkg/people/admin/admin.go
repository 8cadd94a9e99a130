// Package admin is the JSON API under /admin: it lists tools, prompts and resources with their
// locks, carries out people's decisions, runs syncs, manages agent tokens and reads the audit.
//
// Another handler authenticates the caller first: see decide.WithActor. Requests that change
// something must be JSON, because another site could make a browser send a form.
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

// An api holds the dependencies of all handlers.
type api struct {
	service *decide.Service
	tokens  *token.Registry // nil: the API has no operations for agent tokens
	gate    *connect.Gateway

	sessions *signin.Sessions // nil: people cannot sign in to this gateway
}

// New returns the handler of the API. If tokens is nil, the gateway has no agent tokens. If
// sessions is nil, people cannot sign in. gate has the address that clients connect to; nil means
// unknown.
func New(service *decide.Service, tokens *token.Registry, gate *connect.Gateway, sessions *signin.Sessions) http.Handler {
	if gate == nil {
		gate = &connect.Gateway{}
	}
	a := &api{service, tokens, gate, sessions}
	routes := sync.OnceValue(a.routes)
	return readBody(requireJSON(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { routes().ServeHTTP(w, r) })))
}

// routes returns the handler of all operations. The first API request builds it, because this takes
// milliseconds, and agents and console pages should not wait for it.
func (a *api) routes() http.Handler {
	mux := http.NewServeMux()
	a.register(mux)
	return mux
}

const (
	maxBody  = 1 << 20 // bytes of a request body
	bodyTime = 5 * time.Second
)

// readBody reads the body before the handler answers, even if the operation takes none. If the
// server closed a connection with unread data, the client would get a reset instead of the answer.
func readBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline := http.NewResponseController(w)
		_ = deadline.SetReadDeadline(time.Now().Add(bodyTime)) // functions on AWS have the whole body already
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		_ = deadline.SetReadDeadline(time.Time{})
		if err != nil {
			decide.WriteProblem(w, http.StatusRequestTimeout, "the request body did not arrive in time; nothing was done")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// requireJSON refuses a body that another site's form could send.
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
