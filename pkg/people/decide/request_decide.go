package decide

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Verdicts returns the verdicts that a person can give.
func Verdicts() []request.Verdict {
	return []request.Verdict{request.Approved, request.Allowed, request.Confirmed, request.Declined, request.Revoked}
}

// check refuses a decision that is incomplete or out of range.
func (dec RequestDecision) check() error {
	no := Decision{}.refused
	switch {
	case !slices.Contains(Verdicts(), dec.Verdict):
		return no(NoVerdict, "the request does not say what to decide. It takes the verdict approved, allowed, confirmed, declined or revoked")
	case !utf8.ValidString(dec.Reason) || utf8.RuneCountInString(dec.Reason) > request.MaxReason:
		return no(BadReason, fmt.Sprintf("the reason is not text of at most %d characters. Write it again", request.MaxReason))
	case dec.Verdict == request.Declined && text.Blank(dec.Reason):
		return no(BadReason, "the reason is missing. Say why, and what to do instead. The agent reads it")
	case dec.Verdict == request.Allowed && (dec.Minutes < 1 || dec.Minutes > request.MaxMinutes):
		return no(BadMinutes, fmt.Sprintf("minutes: want 1 to %d, the time for which the agent "+
			"may call it", request.MaxMinutes))
	case dec.Verdict == request.Revoked:
		return nil
	case dec.Hash == "":
		return no(NoHash, noHashSentence("request"))
	}
	return nil
}

// DecideRequest carries out a decision in the name of the request's actor, and returns the changed
// request. Approving and declining apply to all agents that request the same definition.
//
// If two people decide at the same time, one decision counts. Each of them stores their decision
// with the oldest joined request first, and only the person who succeeds carries out the decision.
func (d *Service) DecideRequest(ctx context.Context, id string, dec RequestDecision) (Request, error) {
	if err := dec.check(); err != nil {
		return Request{}, err
	}
	s, err := d.requestViewOf(ctx, id)
	if err != nil {
		return Request{}, err
	}
	if o := s.obstacle(dec); o != nil {
		return Request{}, Decision{}.refused(o.Code, o.Detail)
	}
	decide := d.grant
	if dec.Verdict == request.Approved || dec.Verdict == request.Declined {
		decide = d.decideForAll
	}
	defer d.storeOpen(nil, time.Time{})
	done, err := decide(ctx, s, dec)
	if err != nil {
		return Request{}, err
	}
	unrecorded := d.afterDecision(ctx, dec, done)
	d.states.Refresh(ctx)
	out, err := d.Request(ctx, s.one.ID)
	out.Unsettled, out.Unrecorded = done.unsettled, unrecorded
	return out, err
}

// A decisionResult says what happened to a decision.
type decisionResult struct {
	all       []agentRequest // the requests that have the decision
	unsettled []string       // ids of requests where the decision could not be stored
	first     bool           // it is the first of two approvals, and opens nothing yet
}

// grant allows or confirms what the agent requested, or revokes a grant.
func (d *Service) grant(ctx context.Context, s requestView, dec RequestDecision) (decisionResult, error) {
	if one := s.decision(ctx, s.one, dec); dec.Verdict != request.Revoked && !s.holds(one) {
		return decisionResult{}, Decision{}.refused(WouldNotHold, "a grant would not be valid "+
			"now: the approval record was lost, or a newer program wrote it. An operator looks "+
			"at /admin/health")
	}
	return decisionResult{all: []agentRequest{s.one}}, d.claim(ctx, s, s.one, dec)
}

// decideForAll approves the definition for all agents, enables an approved one, or declines for
// every agent that requests it.
func (d *Service) decideForAll(
	ctx context.Context, s requestView, dec RequestDecision,
) (decisionResult, error) {
	one := Decision{Action: approval.ActionApprove, Hash: dec.Hash, Note: dec.Reason, Shown: dec.Shown}
	if dec.Verdict == request.Approved && s.record.Disabled {
		one.Action = approval.ActionEnable
	}
	approves := dec.Verdict == request.Approved && one.Action == approval.ActionApprove
	if approves && s.item.TakesTwo && proposedOf(s.record) == nil {
		_, err := d.decide(ctx, s.m.v, s.one.Item(), one)
		return decisionResult{all: []agentRequest{s.one}, first: true}, err
	}
	joined, err := d.joinedRequests(ctx, s, dec.Verdict)
	if err != nil {
		return decisionResult{}, err
	}
	if err := d.claim(ctx, s, joined[0], dec); err != nil {
		return decisionResult{}, err
	}
	if dec.Verdict == request.Declined {
		return d.settleRest(ctx, s, joined, dec), nil
	}
	r, err := d.decide(ctx, s.m.v, s.one.Item(), one)
	if err != nil {
		d.removeClaim(ctx, s, joined[0], dec)
		return decisionResult{}, err
	}
	if approves && r.ApprovedHash != dec.Hash { // somebody has just undone the first approval
		d.removeClaim(ctx, s, joined[0], dec)
		return decisionResult{all: []agentRequest{s.one}, first: true}, nil
	}
	return d.settleRest(ctx, s, joined, dec), nil
}

// afterDecision records the decision and notifies people. It reports whether an audit event could
// not be written.
func (d *Service) afterDecision(ctx context.Context, dec RequestDecision, done decisionResult) (unrecorded bool) {
	for _, o := range done.all {
		if d.Record(ctx, o.line(audit.ActionDecided, dec.note(done.first))) != nil {
			unrecorded = true
		}
	}
	if done.first {
		return unrecorded
	}
	for _, o := range done.all {
		if o.OneCall() {
			d.dropArguments(ctx, o)
		}
	}
	o := done.all[0]
	var also []string
	for _, other := range done.all[1:] {
		also = append(also, other.ID)
	}
	d.o.Notifier.Notify(ctx, notify.Event{
		Kind: notify.Decided, At: d.o.Now().UTC(), Server: o.Server, Items: []tool.ID{o.Item()},
		Agent: o.agent.ID, Request: o.ID, OneCall: o.OneCall(), Verdict: string(dec.Verdict),
		Also: also, By: ActorOf(ctx).Name, Waiting: len(done.all),
	})
	return unrecorded
}

// note describes the decision in one line of the audit.
func (dec RequestDecision) note(first bool) string {
	what := string(dec.Verdict)
	switch {
	case first:
		what += " by the first of two people"
	case dec.Verdict == request.Allowed:
		what += " for " + text.Minutes(dec.Minutes)
	}
	if text.Blank(dec.Reason) {
		return what
	}
	return what + ": " + strings.TrimSpace(dec.Reason)
}

// dropArguments deletes the arguments of a call that nobody needs to see any more.
func (d *Service) dropArguments(ctx context.Context, o agentRequest) {
	if err := d.o.Requests.DropArguments(context.WithoutCancel(ctx), o.agent.Key(), o.ID); err != nil {
		d.o.Log.LogAttrs(ctx, slog.LevelWarn, "arguments of a call not deleted before their request expires", slog.String("request", o.ID), slog.Any("error", err))
	}
}

// errClaimed says who decided about the request first.
func errClaimed(granted request.Granted, id string) error {
	is, _ := granted.Find(id)
	return Decision{}.refused(RequestDecided, claimedSentence(is))
}

func claimedSentence(d request.Decision) string {
	return fmt.Sprintf("%s decided about this request at %s (%s). Read it again", d.By, d.At.UTC().Format(time.DateTime+" UTC"), d.Verdict)
}

// refusedClaim returns the error that a person reads if their decision could not be stored.
func (d *Service) refusedClaim(ctx context.Context, granted request.Granted, id string, err error) error {
	switch {
	case errors.Is(err, request.ErrDecided):
		return errClaimed(granted, id)
	case errors.Is(err, request.ErrFull):
		return Decision{}.refused(TooManyDecided, request.ErrFull.Error())
	case errors.Is(err, request.ErrConflict):
		return Decision{}.refused(Conflict, conflictSentence("request"))
	}
	d.o.Log.LogAttrs(ctx, slog.LevelError, "decision about a request not written",
		slog.String("request", id), slog.Any("error", err))
	return refused(Unknown, "the store did not answer, so the decision may or may not be stored: "+
		"look at the request again, and decide again if it is open; the log says more")
}
