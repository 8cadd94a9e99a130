package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// requestAccess is the tool that requests access to locked items from a person.
const requestAccess = "request_access"

// requestAccessDefinition is in the list of tools if agents may request access.
const requestAccessDefinition = `{"name":"request_access","description":"Ask a person to unlock locked tools.",` +
	`"inputSchema":{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"}},` +
	`"note":{"type":"string","description":"Why, for that person"}},` +
	`"required":["names"],"additionalProperties":false},` +
	`"annotations":{"destructiveHint":false},"_meta":{"anthropic/alwaysLoad":true}}`

// An accessResult is the result of the access request for one item.
type accessResult struct {
	Name    string `json:"name"`
	State   string `json:"state"` // open, declined, callable, confirm, refused
	Request string `json:"request,omitempty"`
	Message string `json:"message"`
}

// The states of an [accessResult].
const (
	accessOpen     = "open"
	accessDeclined = "declined"
	accessCallable = "callable"
	accessRefused  = "refused" // no request was made
)

// callRequestAccess answers request_access.
func (s *Session) callRequestAccess(ctx context.Context, r mcp.Request) (json.RawMessage, error) {
	a := readArguments(r, "names", "note")
	names := a.names("names", maxNames)
	note := ""
	if _, hasNote := a.values["note"]; hasNote {
		if note = a.text("note", false, "why you need it, for the person who decides"); utf8.RuneCountInString(note) > request.MaxNote {
			a.faultf("note has %d characters, at most %d are taken", utf8.RuneCountInString(note), request.MaxNote)
		}
	}
	if fault := a.fault(); fault != "" {
		return s.refuse(fault)
	}
	s.loadGrants(ctx)
	out := struct {
		Requests []accessResult `json:"requests"`
		NotFound []string       `json:"not_found,omitempty"`
	}{Requests: []accessResult{}}
	var ids []string
	for _, name := range names {
		i, ok := s.findItem(name)
		if !ok {
			out.NotFound = append(out.NotFound, text.Clip(name, maxEcho))
			continue
		}
		w, err := s.requestItem(ctx, i, note)
		if err != nil {
			return nil, err
		}
		out.Requests = append(out.Requests, w)
		if w.Request != "" {
			ids = append(ids, w.Request)
		}
	}
	if len(out.Requests) == 0 {
		s.event.Decide(audit.Scope, "")
	}
	s.event.Request = strings.Join(ids, ",")
	return s.answer(out)
}

// findItem returns an item that exists for this request, by its id or, in direct mode, by a tool's
// name there.
func (s *Session) findItem(name string) (int, bool) {
	if id, err := tool.ParseID(name); err == nil {
		i, ok := s.view.Find(id)
		if ok && (s.nameable.Has(i) || s.sel.Prompts.Has(i) || s.sel.Resources.Has(i)) {
			return i, true
		}
	}
	if s.direct {
		return s.findDirect(tool.Tool, name)
	}
	return 0, false
}

// requestItem requests access to item i, if it is locked and can be requested.
func (s *Session) requestItem(ctx context.Context, i int, note string) (accessResult, error) {
	w := accessResult{Name: s.view.ID(i).String(), State: accessRefused}
	now, need := s.lockState(ctx, i), s.lacks(i)
	switch {
	case now.refuse != nil:
		return w, now.refuse
	case ctx.Err() != nil:
		return w, ctx.Err()
	case now.status != lock.None && !askable(now.status, s.view.Tool(i).Definition.Hash):
		s.incident(ctx, i)
		w.Message = undeterminedText
		return w, nil
	case need != "":
		s.noteLackOf(ctx, s.newRequest(i, now.status), now, need)
		w.Message = lacksText(need) + unhelpfulText
		return w, nil
	case now.status == lock.None && s.view.Confirmed().Has(i):
		w.State, w.Message = accessCallable, "The tool is callable, and a person must confirm each call. Call it with its arguments to request that call."
		return w, nil
	case now.status == lock.None:
		w.State, w.Message = accessCallable, "The tool is callable. Call it."
		return w, nil
	}
	r := s.newRequest(i, now.status)
	r.Note = note
	open, added, err := s.open(ctx, r, nil)
	w.Request = open.ID
	switch {
	case err == nil && added:
		w.State = accessOpen
		w.Message = recordedText + s.g.statusLink(open.ID)
		if now.status == lock.DisabledByConfig || now.status == lock.ServerDisabled {
			w.Message = cannotHelpText + s.g.statusLink(open.ID)
		}
	case err == nil:
		s.noteLack(ctx, open, "")
		w.State, w.Message = accessOpen, s.openText(open)
	case errors.Is(err, errDeclined):
		h, err := s.history(ctx, r, now)
		if err != nil || h.declined.Request == "" {
			return s.notWritten(ctx, w, cmp.Or(err, errDeclined)), nil
		}
		w.State, w.Request, w.Message = accessDeclined, h.declined.Request, s.declinedText(h.declined)+" No new request was recorded."
	case errors.Is(err, request.ErrTooMany):
		w.Message = tooManyText
	default:
		return s.notWritten(ctx, w, err), nil
	}
	return w, nil
}

// Texts about a request for access, with the request's state and the agent's next step.
const (
	recordedText   = "Request recorded. " + retryText
	cannotHelpText = "Request recorded, but approval alone cannot unlock this tool: an operator must " +
		"change the config or policy. Tell your user and continue without it."
	undeterminedText = "The reason for this lock is undetermined. Nothing was requested. " +
		"Tell your user that an operator must check the gateway's log, and continue without it."
)

// tooManyText is the refusal for an agent that has the maximum number of requests.
var tooManyText = "Nothing was requested: this agent has " + strconv.Itoa(request.MaxOpen) +
	" requests that are open or were withdrawn within the last hour. That is the limit. " +
	"Tell your user that a person must decide about some of them first."

// unwrittenText says that the store may not have the request.
const unwrittenText = "The gateway could not store the request, or does not know whether it did. " +
	"Try again in a moment; the gateway stores no request twice."

// notWritten returns the result of a request after a failed write.
func (s *Session) notWritten(ctx context.Context, w accessResult, err error) accessResult {
	s.logUnread(ctx, "a request cannot be written", err)
	w.Message = unwrittenText
	return w
}

// askable reports whether access to an item with this lock can be requested.
func askable(status lock.Status, hash tool.Hash) bool {
	return hash != "" && slices.Contains([]lock.Status{lock.PendingApproval, lock.DisabledByUser, lock.DisabledByConfig, lock.ServerDisabled}, status)
}

// incident logs that an item is locked for an undetermined reason: no decision of a person can
// change that.
func (s *Session) incident(ctx context.Context, i int) {
	s.g.o.Log.LogAttrs(ctx, slog.LevelError, "access requested to an item that is locked for an undetermined reason",
		slog.String("agent", s.caller.Agent.ID), slog.String("tool", text.Clip(s.view.ID(i).String(), maxLogged)))
}
