package mcphttp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/mcp"
)

// A recorder holds what the SDK answers until it is known what of it the client may
// read: the SDK knows neither the client's id nor the backend's bytes, and answers
// some faults in plain text.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

// Flush lets the SDK write events; there is nothing to hurry.
func (r *recorder) Flush() {}

// sdkPrefix is how each JSON answer of the SDK begins.
const sdkPrefix = `{"jsonrpc":"2.0","id":` + sdkID + `,`

// result returns the members of a JSON answer that follow the id.
func (r *recorder) result() ([]byte, bool) {
	return bytes.CutPrefix(r.body.Bytes(), []byte(sdkPrefix))
}

// refusal returns the SDK's error, nil if it answered with a result. Its text goes
// through where it is about the protocol; what it says of its own types does not.
func (r *recorder) refusal() *mcp.Error {
	if !strings.HasPrefix(r.header.Get("Content-Type"), "application/json") {
		if r.status < 400 {
			return nil
		}
		e := refuse(r.status, strings.TrimSpace(r.body.String()))
		if r.status == http.StatusBadRequest {
			e.Code = mcp.CodeInvalidRequest
		}
		return e
	}
	if r.body.Len() == 0 { // its session ended first; what that means depends on the request
		return nil
	}
	var answer struct {
		Error *wireError `json:"error"`
	}
	if err := json.Unmarshal(r.body.Bytes(), &answer); err != nil {
		return internal(err)
	}
	e := answer.Error
	if e == nil {
		return nil
	}
	if e.Code == 0 || strings.Contains(e.Message, "unmarshaling") {
		e = &wireError{Code: mcp.CodeInvalidParams, Message: "invalid params"}
	}
	out := &mcp.Error{Code: e.Code, Message: e.Message, Data: e.Data}
	if r.status != http.StatusOK {
		out.Status = r.status
	}
	return out
}
