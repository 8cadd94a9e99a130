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

// Verdicts returns what a person can decide about a request.
func Verdicts() []request.Verdict {
	return []request.Verdict{request.Approved, request.Allowed, request.Confirmed, request.Declined, request.Revoked}
}

// check refuses a decision that nothing of the kind can be decided by.
func (dec RequestDecision) check() error {
	no := Decision{}.refused
	switch {
	case !slices.Contains(Verdicts(), dec.Verdict):
		return no(NoVerdict, "the request does not say what to decide. It takes the verdict approved, allowed, confirmed, declined or revoked")
	case !utf8.ValidString(dec.Reason) || utf8.RuneCountInString(dec.Reason) > request.MaxReason:
		return no(BadReason, fmt.Sprintf("the reason is not text of at most %d characters. Write it again", request.MaxReason))
	case dec.Verdict == request.Declined && text.Blank(dec.Reason):
		return no(BadReason, "the reason is missing. Say why, and what to do instead. The agent is told it")
	case dec.Verdict == request.Allowed && (dec.Minutes < 1 || dec.Minutes > request.MaxMinutes):
		return no(BadMinutes, fmt.Sprintf("minutes: want 1 to %d, which is how long the agent may", request.MaxMinutes))
	case dec.Verdict == request.Revoked:
		return nil
	case dec.Hash == "":
		return no(NoHash, noHashSentence("request"))
	}
	return nil
}

// DecideRequest carries out a decision in the name of the request's actor, and returns the request as it
// is then. What is approved, and what is declined, is so for everybody who asks for the same definition.
//
// Of two people who decide at one moment one does: the decision is noted with the oldest of the joined
// requests first, and carried out by whoever noted it.
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

// A decided is what became of a decision.
type decided struct {
	all       []oneRequest // that it was noted with
	unsettled []string     // ids of those with which it could not be
	first     bool         // it is the first of two people's, and decides nothing yet
}

// grant lets the agent do what it asked for, or ends that.
func (d *Service) grant(ctx context.Context, s requestView, dec RequestDecision) (decided, error) {
	if one := s.decision(ctx, s.one, dec); dec.Verdict != request.Revoked && !s.holds(one) {
		return decided{}, Decision{}.refused(WouldNotHold, "what would be given now would not hold: the approval record was lost, "+
			"or a newer program wrote it. An operator looks at /admin/health")
	}
	return decided{all: []oneRequest{s.one}}, d.claim(ctx, s, s.one, dec)
}

// decideForAll approves the definition for all agents, or enables what is approved, or says no to
// everybody who asks for the same.
func (d *Service) decideForAll(
	ctx context.Context, s requestView, dec RequestDecision,
) (decided, error) {
	one := Decision{Action: approval.ActionApprove, Hash: dec.Hash, Note: dec.Reason, Shown: dec.Shown}
	if dec.Verdict == request.Approved && s.record.Disabled {
		one.Action = approval.ActionEnable
	}
	approves := dec.Verdict == request.Approved && one.Action == approval.ActionApprove
	if approves && s.item.TakesTwo && proposedOf(s.record) == nil {
		_, err := d.decide(ctx, s.m.v, s.one.Item(), one)
		return decided{all: []oneRequest{s.one}, first: true}, err
	}
	joined, err := d.joined(ctx, s, dec.Verdict)
	if err != nil {
		return decided{}, err
	}
	if err := d.claim(ctx, s, joined[0], dec); err != nil {
		return decided{}, err
	}
	if dec.Verdict == request.Declined {
		return d.settleRest(ctx, s, joined, dec), nil
	}
	r, err := d.decide(ctx, s.m.v, s.one.Item(), one)
	if err != nil {
		d.takeBack(ctx, s, joined[0], dec)
		return decided{}, err
	}
	if approves && r.ApprovedHash != dec.Hash { // the first approval was undone at this moment
		d.takeBack(ctx, s, joined[0], dec)
		return decided{all: []oneRequest{s.one}, first: true}, nil
	}
	return d.settleRest(ctx, s, joined, dec), nil
}

// afterDecision records what was decided and tells people. It reports whether a line could not be written.
func (d *Service) afterDecision(ctx context.Context, dec RequestDecision, done decided) (unrecorded bool) {
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
	d.o.Notifier.Notify(ctx, notify.Event{
		Kind: notify.Decided, At: d.o.Now().UTC(), Server: o.Server, Items: []tool.ID{o.Item()},
		Agent: o.agent.ID, Request: o.ID, OneCall: o.OneCall(), Verdict: string(dec.Verdict),
		By: ActorOf(ctx).Name, Waiting: len(done.all),
	})
	return unrecorded
}

// note says in one line what was decided, for the audit.
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

// dropArguments removes the arguments of a call that nobody has to look at any more.
func (d *Service) dropArguments(ctx context.Context, o oneRequest) {
	if err := d.o.Requests.DropArguments(context.WithoutCancel(ctx), o.agent.Key(), o.ID); err != nil {
		d.o.Log.LogAttrs(ctx, slog.LevelWarn, "arguments of a call are kept until their request expires", slog.String("request", o.ID), slog.Any("error", err))
	}
}

// errClaimed says who decided about a request.
func errClaimed(held request.Granted, id string) error {
	is, _ := held.Of(id)
	return Decision{}.refused(RequestDecided, claimedSentence(is))
}

func claimedSentence(d request.Decision) string {
	return fmt.Sprintf("%s decided about this request at %s (%s). Read it again", d.By, d.At.UTC().Format(time.DateTime+" UTC"), d.Verdict)
}

// refusedClaim returns what a person is told of a decision that could not be noted.
func (d *Service) refusedClaim(ctx context.Context, held request.Granted, id string, err error) error {
	switch {
	case errors.Is(err, request.ErrDecided):
		return errClaimed(held, id)
	case errors.Is(err, request.ErrFull):
		return Decision{}.refused(TooManyDecided, request.ErrFull.Error())
	case errors.Is(err, request.ErrConflict):
		return Decision{}.refused(Conflict, conflictSentence("request"))
	}
	d.o.Log.LogAttrs(ctx, slog.LevelError, "what was decided about a request cannot be written",
		slog.String("request", id), slog.Any("error", err))
	return refused(Unknown, "the store did not answer, and whether this was decided is not known: "+
		"look at the request again, and decide again if it is open; the log says more")
}
