package decide

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An Error is a request that was not carried out, with what a person may read of it: what happened,
// that nothing was decided, and what to do.
type Error struct {
	Status  int    // of HTTP
	Detail  string // a sentence without a full stop
	Parts   []Cause
	Changed *Changed // since the person looked; nil: it is not about that
}

// A Cause is one of several things that kept a request from being carried out.
type Cause struct{ Where, What string }

// A Changed is an item that is not as the person saw it.
type Changed struct {
	Tool   Tool            // as it is now
	Seen   json.RawMessage // the definition that the person saw; nil: it is not known any more
	Change *Change         // from that definition to that of now; nil: that is not known
}

// Error implements error.
func (e *Error) Error() string { return e.Detail }

// Refuse returns an [Error] that says no more than why.
func Refuse(status int, detail string) error { return &Error{Status: status, Detail: detail} }

// unfit refuses a request that can be read and asks for something that there is not.
func unfit(format string, args ...any) error {
	return Refuse(http.StatusUnprocessableEntity, fmt.Sprintf(format, args...))
}

func errDenied(kind tool.Kind) error {
	return conflict("an operator's rule denies this %v, and nothing was decided: only the operator can change that, in mcp_config.json or policy.cedar", kind)
}

// errElsewhere refuses who decides about other servers.
func errElsewhere(server string, may []string) error {
	return Refuse(http.StatusForbidden, fmt.Sprintf("you decide about items of %s, and this is one of %s; nothing was decided. Somebody who decides about %s can", strings.Join(may, ", "), server, server))
}

func errNoRecord(kind tool.Kind) error {
	return conflict("the %v has no approval record yet, and nothing was decided: the next sync makes one, after which you can decide", kind)
}

// errNone says that there is no item of an address.
func errNone(kind tool.Kind) error {
	if kind == tool.Resource {
		return Refuse(http.StatusNotFound, "no resource of this address is known, which ends in the SHA-256 of its URI; the list has every one that is")
	}
	return Refuse(http.StatusNotFound, fmt.Sprintf("no %v of this name is known; the list of tools has every one that is", kind))
}

// conflict refuses what goes against how an item stands.
func conflict(format string, args ...any) error {
	return Refuse(http.StatusConflict, fmt.Sprintf(format, args...))
}

// refusal returns what a person is told of err about an item, if it is theirs to know.
func refusal(kind tool.Kind, err error) error {
	for _, known := range []struct {
		is     error
		detail string
	}{
		{approval.ErrStale, "the definition changed at this moment, and nothing was decided: read the %[1]v again, and decide about what it is now"},
		{approval.ErrConflict, "somebody else decided about the %[1]v at this moment, and nothing of yours was decided: read it again, and decide again if it is still wanted"},
		{approval.ErrSamePerson, "you approved this definition already, as the first of two people, and nothing more was decided: the %[1]v takes another one who signs in with the issuer and decides about its server"},
		{approval.ErrNotBlocked, "this definition is not blocked, and nothing was decided: read the %[1]v again, somebody may have unblocked it"},
		{approval.ErrBlocks, "50 definitions of this %[1]v are blocked, which is all that is kept, and nothing was decided: disable the %[1]v, or unblock one of them"},
		{tool.ErrNested, "this definition is nested too deeply, nobody can approve it, and nothing was decided: the %[1]v stays locked until its server lists a definition of at most 200 levels; you can disable it or block the definition"},
		{approval.ErrNoUndo, "the decision about the %[1]v cannot be undone any more, and nothing was changed: only the last one can be, for 10 minutes, unless a sync saw the definition change since; decide anew"},
	} {
		if errors.Is(err, known.is) {
			return conflict(known.detail, kind)
		}
	}
	return err
}

// errStale says that the definition is not the one that the person saw.
func (d *Service) errStale(v *state.View, r *approval.Record, dec Decision) error {
	e := &Error{Status: http.StatusConflict, Detail: "the definition changed since it was shown, and nothing was decided: read what it is now, and decide about that"}
	e.Changed = d.changed(v, r, dec)
	return e
}

// errDecided says how the record is now to a person who saw an earlier revision. A sync may have
// changed it last.
func (d *Service) errDecided(v *state.View, r *approval.Record, dec Decision) error {
	last := "nobody has decided about it"
	if r.By != "" {
		last = fmt.Sprintf("the last decision is by %s, at %s", r.By, r.At.UTC().Format(time.DateTime+" UTC"))
	}
	e := &Error{Status: http.StatusConflict, Detail: fmt.Sprintf(
		"the %v was decided about or changed since it was shown, and nothing was decided now: %s; %s; decide again if it is still wanted", r.Kind, recordState(r), last)}
	e.Changed = d.changed(v, r, dec)
	return e
}

// recordState says in words how a record stands.
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

// changed returns the item as it is now, and what changed since the person looked.
func (d *Service) changed(v *state.View, r *approval.Record, dec Decision) *Changed {
	c := &Changed{Tool: d.show(v, r.ID(), r)}
	if c.Seen = definitionOf(v, r, dec.Hash); c.Seen != nil {
		c.Change = d.Change(tool.KeptItem(r.Kind, c.Seen), tool.KeptItem(r.Kind, r.Current))
	}
	return c
}

// definitionOf returns the definition with the hash, if it is still known; nil if it is not.
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

// Explain returns what a caller may read of err, and logs what may not be read.
func (d *Service) Explain(ctx context.Context, operation string, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	d.o.Log.LogAttrs(ctx, slog.LevelError, "admin request failed", slog.String("operation", operation), slog.Any("error", err))
	switch {
	case capacity.IsDiskFull(err):
		return &Error{Status: http.StatusServiceUnavailable, Detail: "there is no space left on the disk where the gateway runs, and it could not store this: free some space, then try again"}
	case capacity.IsDescriptors(err):
		return &Error{Status: http.StatusServiceUnavailable, Detail: "the gateway can open no more files or connections at the moment: try again in a minute; health says what to do if this lasts"}
	}
	return &Error{Status: http.StatusInternalServerError, Detail: "internal error; the log says more"}
}

// WriteProblem answers with an RFC 9457 body.
func WriteProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	// The caller has gone if this fails, and there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail})
}
