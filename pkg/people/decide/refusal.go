package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An Error is a request that was not carried out. A person may read what happened, that nothing was
// decided, and what to do.
type Error struct {
	Status int    // HTTP status
	Code   Code   // why a decision was not carried out; "": it is about no decision
	Detail string // a sentence without a full stop
	Parts  []Cause
	Seen   json.RawMessage // definition that the person saw, if it has changed since and is known
}

// A Cause is one of several reasons for an [Error].
type Cause struct{ Where, What string }

// Error implements error.
func (e *Error) Error() string { return e.Detail }

// Refuse returns an [Error] without a code.
func Refuse(status int, detail string) error { return &Error{Status: status, Detail: detail} }

// invalid refuses a request that is well-formed but has an invalid value.
func invalid(format string, args ...any) error {
	return Refuse(http.StatusUnprocessableEntity, fmt.Sprintf(format, args...))
}

// refused returns the error of a decision that was not carried out, with its code.
func refused(code Code, detail string) *Error {
	return &Error{Status: code.status(), Code: code, Detail: detail}
}

// RefuseRole refuses a person who lacks the role that an action takes.
func RefuseRole(a Actor, need identity.Role) *Error {
	return refused(NoRole, "nothing was done: "+roleSentence(a, need))
}

// errNoItem says that no item has the address.
func errNoItem(kind tool.Kind) error { return refused(UnknownItem, unknownSentence(kind)) }

// conflict refuses a request that does not fit the current state.
func conflict(format string, args ...any) error {
	return Refuse(http.StatusConflict, fmt.Sprintf(format, args...))
}

// recordState describes the state of a record.
func recordState(r *approval.Record) string {
	switch {
	case r.Disabled:
		return "it is disabled"
	case r.State == approval.Blocked:
		return "its definition is blocked"
	case r.State == approval.Approved:
		return "its definition is approved"
	case proposedOf(r) != nil:
		return "its definition is approved by the first of two people and waits for the second"
	}
	return "its definition waits for approval"
}

// definitionOf returns the definition with the hash; nil if it is no longer known.
func definitionOf(v *state.View, r *approval.Record, hash tool.Hash) json.RawMessage {
	i, listed := v.Find(r.ID())
	switch {
	case hash == "":
		return nil
	case hash == r.CurrentHash:
		return r.Current
	case hash == r.ApprovedHash:
		return r.Approved
	case r.Undo != nil && hash == r.Undo.ApprovedHash && !r.Undo.Same:
		return r.Undo.Approved
	case !listed:
		return nil
	}
	t := v.Tool(i)
	switch {
	case hash == t.Definition.Hash:
		return t.Definition.Raw
	case t.Approval != nil && hash == t.Approval.ApprovedHash:
		return t.ApprovedRaw
	}
	return nil
}

// Explain returns what a caller may read of err, and logs the rest.
func (d *Service) Explain(ctx context.Context, operation string, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	d.o.Log.LogAttrs(ctx, slog.LevelError, "admin request failed", slog.String("operation", operation), slog.Any("error", err))
	switch {
	case capacity.IsDiskFull(err):
		return refused(DiskFull, "there is no space left on the disk where the gateway runs, and it could not store this: free some space, then try again")
	case capacity.IsDescriptors(err):
		return refused(NoFiles, "the gateway can open no more files or connections at the moment: try again in a minute; health says what to do if this lasts")
	}
	return refused(Internal, "internal error; the log says more")
}

// WriteProblem answers with an RFC 9457 body.
func WriteProblem(w http.ResponseWriter, status int, detail string) {
	(&Error{Status: status, Detail: detail}).Write(w)
}

// Write answers with the error as an RFC 9457 body.
func (e *Error) Write(w http.ResponseWriter) {
	body := map[string]any{"title": http.StatusText(e.Status), "status": e.Status, "detail": e.Detail}
	if e.Code != "" {
		body["code"] = e.Code
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(body) // this fails only if the caller has gone
}
