package mcphttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// refuse returns a refusal of the HTTP exchange. Its code is the HTTP status, because JSON-RPC
// reserves the codes from -32768 to -32000.
func refuse(status int, msg string) *mcp.Error {
	return &mcp.Error{Code: status, Message: msg, Status: status}
}

// tooBusy returns the refusal of a request for which there is no room now.
func tooBusy() *mcp.Error {
	e := refuse(http.StatusServiceUnavailable, "the gateway has too many requests in flight, and did nothing with this one: send it again")
	e.RetryAfter, e.Err = time.Second, errBusy
	return e
}

var errBusy = errors.New("too many requests are in flight")

// endingRetry is how long a client waits before it sends a request to the gateway's next process.
const endingRetry = 5 * time.Second

// ending returns the refusal of a request that came after the program began to end.
func ending() *mcp.Error {
	e := refuse(http.StatusServiceUnavailable, "the gateway is shutting down, and did nothing "+
		"with this request: send it again in a few seconds")
	e.RetryAfter, e.Err = endingRetry, errEnding
	return e
}

var errEnding = errors.New("the program is ending")

// RefuseBusy answers a request with 503 because too many requests are in flight. Call it before you
// read the body of the request.
func RefuseBusy(w http.ResponseWriter, r *http.Request) {
	e := tooBusy()
	if _, ok := endpoint(r.URL.Path); !ok {
		w.Header().Set("Retry-After", "1")
		http.Error(w, e.Message, e.Status)
		return
	}
	// A write error means that the client is gone.
	_ = writeError(w, peekID(w, r), e, e.Status)
}

func badRequest(code int, msg string) *mcp.Error {
	return &mcp.Error{Code: code, Message: msg, Status: http.StatusBadRequest}
}

// internal returns an error that hides its cause from the caller.
func internal(err error) *mcp.Error {
	return &mcp.Error{Code: mcp.CodeInternal, Message: "internal error", Err: err}
}

// panicked returns an internal error for a recovered panic. The caller calls it before the stack
// unwinds.
func panicked(p any) *mcp.Error {
	return internal(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
}

// visible returns the part of err that a caller may read.
func visible(err error) *mcp.Error {
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return e
	}
	return internal(err)
}

// status returns the HTTP status of a JSON-RPC error. In the stateless protocol some codes have
// their own status; the handshake protocol uses 200.
func status(e *mcp.Error, modern bool) int {
	switch {
	case e.Status != 0:
		return e.Status
	case !modern:
		return http.StatusOK
	}
	switch e.Code {
	case mcp.CodeMethodNotFound:
		return http.StatusNotFound
	case mcp.CodeInvalidParams, mcp.CodeVersion, mcp.CodeMissingCapability, mcp.CodeHeaderMismatch:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// wireError is the error member of an answer.
type wireError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// writeError is the only function that turns refusals into answers. Even a 401 has a JSON-RPC body
// with the request's id, because some clients end their whole session at a 401
// without such a body.
func writeError(w http.ResponseWriter, id json.RawMessage, e *mcp.Error, status int) error {
	if e.RetryAfter > 0 {
		seconds := (e.RetryAfter + time.Second - 1) / time.Second
		w.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	return writeJSON(w, status, errorParts(id, e)...)
}

// errorParts returns the answer for a refusal, in parts. id may be nil.
func errorParts(id json.RawMessage, e *mcp.Error) [][]byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	text, err := rawjson.Encode(wireError{e.Code, e.Message, e.Data})
	if err != nil { // Data is not JSON
		text, _ = rawjson.Encode(wireError{Code: e.Code, Message: e.Message}) // strings cannot fail
	}
	return [][]byte{envelope(id, "error"), text, closing}
}

// envelope returns the text before a raw result or error; closing is the text after it.
func envelope(id json.RawMessage, member string) []byte {
	b := make([]byte, 0, len(id)+40)
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	return append(append(append(b, `,"`...), member...), `":`...)
}

var closing = []byte("}")

// writeJSON writes a body in parts, so that a long result is not copied. A deadline limits how
// long a slow client keeps a long result in memory. An error means that the client is gone.
func writeJSON(w http.ResponseWriter, status int, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	w.Header()["Content-Type"] = isJSON
	w.Header().Set("Content-Length", strconv.Itoa(n))
	w.WriteHeader(status)
	if n > writeChunk {
		out := eventWriter{w: w, rc: http.NewResponseController(w)}
		for _, p := range parts {
			out.write(p)
		}
		return out.err
	}
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

// challenge turns a failed authentication into a refusal, and sets WWW-Authenticate.
func (h *handler) challenge(w http.ResponseWriter, path string, err error) *mcp.Error {
	refused, ok := errors.AsType[*identity.Error](err)
	if !ok {
		refused = &identity.Error{}
	}
	var e *mcp.Error
	switch refused.Kind {
	case identity.Unavailable:
		e = refuse(http.StatusServiceUnavailable, "the credentials cannot be checked at the moment")
		e.RetryAfter = max(refused.RetryAfter, time.Second)
	case identity.Throttled:
		e = refuse(http.StatusTooManyRequests, "too many failed attempts")
		e.RetryAfter = max(refused.RetryAfter, time.Second)
	case identity.Missing:
		e = refuse(http.StatusUnauthorized, "authentication required")
	case identity.Scope:
		e = refuse(http.StatusForbidden, "insufficient scope")
	default:
		e = refuse(http.StatusUnauthorized, "invalid credentials")
	}
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
		h.setChallenge(w, path, refused)
	}
	e.Err = err
	return e
}

// setChallenge sets the header that tells an OAuth client which token it needs and where to get the
// token.
func (h *handler) setChallenge(w http.ResponseWriter, path string, refused *identity.Error) {
	prefix, metadata := "", ""
	if h.opts.Resource != nil {
		prefix = h.opts.Resource.ScopePrefix
	}
	if h.opts.Resource != nil && h.opts.BaseURL != "" {
		metadata = MetadataURL(h.opts.BaseURL, endpointPrefix+path)
	}
	w.Header().Set("WWW-Authenticate", refused.Challenge("", prefix, metadata))
}
