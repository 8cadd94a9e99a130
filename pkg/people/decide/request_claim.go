package decide

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// obstacle returns why the actor cannot decide dec about the request now; nil if they can.
func (s requestView) obstacle(dec RequestDecision) *Obstruction {
	if s.item.Actor.Agent == s.one.agent.ID {
		return obstruct(OwnRequest, "you use the credentials of the agent that made the request. "+
			"A person must decide, signed in at the page of the request or with credentials of "+
			"another name")
	}
	if not := inRights(s.item, Decision{}); not != nil {
		return not
	}
	return s.stateObstacle(dec)
}

// stateObstacle returns why nobody can decide dec about the request now.
func (s requestView) stateObstacle(dec RequestDecision) *Obstruction {
	o := s.one
	state, why := s.state()
	decision, is := o.granted.Find(o.ID)
	if dec.Verdict == request.Revoked {
		if !is || !s.grants(decision) {
			return obstruct(RequestEnded, "the request is %s%s, and there is nothing to "+
				"revoke", state, because(why))
		}
		return nil
	}
	if is {
		switch not, begun := s.unfinished(decision); {
		case begun:
			return obstruct(RequestDecided, "%s is deciding about this request now. Read "+
				"it again in a minute", decision.By)
		case !not:
			return &Obstruction{RequestDecided, claimedSentence(decision)}
		}
	}
	switch {
	case dec.Tool != "" && dec.Tool != o.Item().String():
		return obstruct(NotAsShown, "the request is not about the %v that you saw. Read it again",
			o.Kind)
	case dec.Agent != "" && dec.Agent != o.agent.Key():
		return obstruct(NotAsShown, "the request is not from the agent that you saw. Read it again")
	case dec.Hash != o.Hash || state == RequestChanged:
		return obstruct(RequestOutdated, "the definition changed since you saw it or the agent "+
			"requested it%s. Let the agent request it again", because(why))
	case dec.Args != o.Args:
		return obstruct(NotAsShown, "the arguments differ from what you saw. Read the request "+
			"again")
	case state == RequestWithdrawn:
		return obstruct(RequestEnded, "the agent's user withdrew the request. There is nothing "+
			"to decide")
	case state == RequestExpired:
		return obstruct(RequestEnded, "the request has expired. Let the agent request it again")
	case state == RequestCallable:
		return obstruct(AlreadyCallable, "the agent can call it already%s. There is nothing to "+
			"decide", because(why))
	case dec.Verdict == request.Declined:
		return nil
	case o.OneCall() != (dec.Verdict == request.Confirmed) && o.OneCall():
		return obstruct(WrongVerdict, "this is a request for one call. It takes confirmed or "+
			"declined")
	case o.OneCall() != (dec.Verdict == request.Confirmed):
		return obstruct(WrongVerdict, "this is a request for access and not for one call. It "+
			"takes approved, allowed or declined")
	}
	return s.lockObstacle(dec)
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// lockObstacle returns why dec cannot unlock the item.
func (s requestView) lockObstacle(dec RequestDecision) *Obstruction {
	kind, r := s.one.Kind, s.record
	switch s.status {
	case lock.ServerDisabled, lock.DisabledByConfig, lock.DisabledUnknown:
		return obstruct(ItemLocked, "no decision about a request can unlock this %v, which is "+
			"locked as %s: %s",
			kind, s.status, s.rule())
	case lock.None, lock.DisabledByUser, lock.PendingApproval:
	}
	switch {
	case r == nil:
		return &Obstruction{NoRecord, noRecordSentence(kind)}
	case dec.Verdict != request.Approved:
	case r.Disabled && (r.ApprovedHash != r.CurrentHash || r.IsBlocked(r.CurrentHash)):
		return obstruct(ItemLocked, "the %v is disabled and its definition is not approved, so "+
			"it needs two decisions. Make them on its page, %s", kind, pageOf(s.one.Item()))
	case r.Disabled:
		return nil
	default:
		return inApproval(s.item, Decision{Action: approval.ActionApprove, Note: dec.Reason})
	}
	stopped, is := s.m.st.Stopped(s.m.stops).Agent(s.one.agent.ID)
	switch confirms := dec.Verdict == request.Confirmed; {
	case is:
		return obstruct(AgentStopped, "the agent is %s, and could not use a grant. An operator "+
			"must first undo the stop at /admin/stop", stopped.Note())
	case confirms && s.status != lock.None:
		return obstruct(ItemLocked, "the %v itself is locked as %s, so confirming one call would "+
			"not unlock it. Approve or enable the %[1]v first", kind, s.status)
	case r.URL != "" && !approval.SameServer(r.URL, s.now.URL):
		return obstruct(ItemLocked, "the address of the server has changed since a sync read the "+
			"definition. The next sync reads the definition at the new address")
	case confirms && s.arguments == nil:
		return obstruct(ArgumentsGone, "the arguments of this call are no longer stored, so "+
			"nobody can read what they would confirm. Have the agent call again, which makes a "+
			"new request")
	case confirms:
		return nil
	case r.IsBlocked(r.CurrentHash):
		return obstruct(NotForOne, "somebody blocked this definition, so nobody can allow it to "+
			"one agent. Unblock it, or approve it for all")
	case !s.one.agent.Alone():
		return obstruct(NotForOne, "all callers of this gateway count as one agent, so nobody "+
			"can allow it to one of them. Approve it for all, or decline")
	case s.item.TakesTwo:
		return obstruct(NotForOne, "approving this %v takes two people, so one person cannot "+
			"allow it to one agent. Approve it, as the first or the second of two", kind)
	}
	return s.item.severe(dec.Reason)
}

// pageOf returns the address of the item's page, relative to the address of the gateway.
func pageOf(id tool.ID) string { return approval.Link("/", id)[len("/"):] }

// joinedRequests returns the requests to which a decision for all agents applies, oldest first. It
// refuses the decision if somebody has just declined one of the requests.
func (d *Service) joinedRequests(
	ctx context.Context,
	s requestView,
	v request.Verdict,
) ([]agentRequest, error) {
	if s.one.OneCall() {
		return []agentRequest{s.one}, nil
	}
	alike, _, err := d.sameRequests(ctx, s, true)
	if err != nil {
		return nil, err
	}
	all := []agentRequest{s.one}
	for _, o := range alike {
		switch decision, is := o.granted.Find(o.ID); {
		case !is || decision.Verdict != request.Declined:
			all = append(all, o)
		case v != request.Declined || decision.By != text.Clip(ActorOf(ctx).Name, maxActor): // the same person may decline again after an incomplete attempt
			return nil, errClaimed(o.granted, o.ID)
		}
	}
	slices.SortFunc(all, func(a, b agentRequest) int { return older(a.Request, b.Request) })
	return all, nil
}

// claim stores a decision with a request, unless somebody else has decided about it.
func (d *Service) claim(
	ctx context.Context,
	s requestView,
	o agentRequest,
	dec RequestDecision,
) error {
	one := s.decision(ctx, o, dec)
	change := func(g request.Granted) (request.Granted, error) {
		again := false
		if was, is := g.Find(o.ID); is {
			not, begun := s.unfinished(was)
			again = not && !begun
		}
		return g.Add(one, again, s.m.now)
	}
	granted, err := d.o.Requests.ChangeGranted(ctx, o.agent, change)
	if err != nil {
		return d.refusedClaim(ctx, granted, o.ID, err)
	}
	return nil
}

// decision returns the decision that is stored with a request.
func (s requestView) decision(
	ctx context.Context,
	o agentRequest,
	dec RequestDecision,
) request.Decision {
	by := text.Clip(ActorOf(ctx).Name, maxActor)
	one := request.Decide(
		o.Request,
		dec.Verdict,
		dec.Minutes,
		by,
		strings.TrimSpace(dec.Reason),
		s.m.now,
	)
	if dec.Verdict == request.Allowed || dec.Verdict == request.Confirmed {
		one.URL = s.now.URL
		if s.record != nil {
			one.Against = s.record.DecidedAt
		}
	}
	return one
}

// removeClaim removes a decision from its request, because the decision could not be carried out.
// If the removal fails, the request counts as open again after a minute.
func (d *Service) removeClaim(
	ctx context.Context,
	s requestView,
	o agentRequest,
	dec RequestDecision,
) {
	ours := s.decision(ctx, o, dec)
	_, err := d.o.Requests.ChangeGranted(
		context.WithoutCancel(ctx),
		o.agent,
		func(g request.Granted) (request.Granted, error) {
			if decision, is := g.Find(o.ID); is && decision.Verdict == ours.Verdict &&
				decision.By == ours.By &&
				decision.At.Equal(ours.At) {
				return g.Without(o.ID), nil
			}
			return g, request.ErrNotFound // nothing is written
		},
	)
	if err != nil {
		d.o.Log.LogAttrs(
			ctx,
			slog.LevelWarn,
			"decision not removed from request after failure",
			slog.String("request", o.ID),
			slog.Any("error", err),
		)
	}
}

// settleRest stores a decision with all joined requests except the first, which has it already.
func (d *Service) settleRest(
	ctx context.Context,
	s requestView,
	joined []agentRequest,
	dec RequestDecision,
) decisionResult {
	out := decisionResult{all: []agentRequest{joined[0]}}
	rest, failed := joined[1:], make([]error, len(joined)-1)
	forEach(
		len(rest),
		func(n int) { failed[n] = d.claim(context.WithoutCancel(ctx), s, rest[n], dec) },
	)
	for n, o := range rest {
		if failed[n] != nil {
			out.unsettled = append(out.unsettled, o.ID)
		} else {
			out.all = append(out.all, o)
		}
	}
	slices.Sort(out.unsettled)
	i := slices.IndexFunc(out.all, func(o agentRequest) bool { return o.ID == s.one.ID })
	if i > 0 { // notices name the first request, which must be the request that the person saw
		out.all[0], out.all[i] = out.all[i], out.all[0]
	}
	return out
}
