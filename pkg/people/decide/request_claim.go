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
		return obstruct(OwnRequest, "this comes with the credentials of the agent that asks. A "+
			"person decides, signed in at the page about the request or with credentials of "+
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
	held, is := o.granted.Of(o.ID)
	if dec.Verdict == request.Revoked {
		if !is || !s.grants(held) {
			return obstruct(RequestEnded, "the request is %s%s, and there is nothing that could be "+
				"ended", state, because(why))
		}
		return nil
	}
	if is {
		switch not, begun := s.unfinished(held); {
		case begun:
			return obstruct(RequestDecided, "%s is deciding about this request now. Read "+
				"it again in a minute", held.By)
		case !not:
			return &Obstruction{RequestDecided, claimedSentence(held)}
		}
	}
	switch {
	case dec.Tool != "" && dec.Tool != o.Item().String():
		return obstruct(NotAsShown, "the request is not about the %v that was shown. Read it again",
			o.Kind)
	case dec.Agent != "" && dec.Agent != o.agent.Key():
		return obstruct(NotAsShown, "the request is not from the agent that was shown. Read "+
			"it again")
	case dec.Hash != o.Hash || state == RequestChanged:
		return obstruct(RequestOutdated, "the definition changed since it was shown or asked "+
			"for%s. The requested definition is gone. The agent asks again", because(why))
	case dec.Args != o.Args:
		return obstruct(NotAsShown, "the arguments are not those that were shown. Read the "+
			"request again")
	case state == RequestWithdrawn:
		return obstruct(RequestEnded, "the agent's user withdrew the request. There is nothing "+
			"to decide")
	case state == RequestExpired:
		return obstruct(RequestEnded, "the request has expired. The agent asks again")
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

// lockObstacle returns why dec cannot open the current lock.
func (s requestView) lockObstacle(dec RequestDecision) *Obstruction {
	kind, r := s.one.Kind, s.record
	switch s.status {
	case lock.ServerDisabled, lock.DisabledByConfig, lock.DisabledUnknown:
		return obstruct(ItemLocked, "no decision here opens this %v, which is locked as %s: %s",
			kind, s.status, s.rule())
	case lock.None, lock.DisabledByUser, lock.PendingApproval:
	}
	switch {
	case r == nil:
		return &Obstruction{NoRecord, noRecordSentence(kind)}
	case dec.Verdict != request.Approved:
	case r.Disabled && (r.ApprovedHash != r.CurrentHash || r.IsBlocked(r.CurrentHash)):
		return obstruct(ItemLocked, "the %v is disabled and its definition is not approved, which "+
			"are two decisions. Make them on its page, %s", kind, pageOf(s.one.Item()))
	case r.Disabled:
		return nil
	default:
		return inApproval(s.item, Decision{Action: approval.ActionApprove, Note: dec.Reason})
	}
	stopped, is := s.m.st.Stopped(s.m.stops).Agent(s.one.agent.ID)
	switch confirms := dec.Verdict == request.Confirmed; {
	case is:
		return obstruct(AgentStopped, "the agent is %s, and could not use what it is given. "+
			"An operator undoes the stop at /admin/stop first", stopped.Note())
	case confirms && s.status != lock.None:
		return obstruct(ItemLocked, "the %v itself is locked as %s, so that confirming one call "+
			"would not open it. Approve or enable the %[1]v first", kind, s.status)
	case r.URL != "" && !approval.SameServer(r.URL, s.now.URL):
		return obstruct(ItemLocked, "the server has another address since the definition was read "+
			"from it. The next sync reads what the new one lists")
	case confirms && s.arguments == nil:
		return obstruct(ArgumentsGone, "the arguments of this call are not kept any more, and "+
			"nobody can read what would be confirmed. The agent asks again by calling again")
	case confirms:
		return nil
	case r.IsBlocked(r.CurrentHash):
		return obstruct(NotForOne, "somebody blocked this definition, and nothing can be allowed "+
			"to one agent before it is unblocked. Unblock it, or approve it for all")
	case !s.one.agent.Alone():
		return obstruct(NotForOne, "all callers of this gateway are one agent, so nothing can be "+
			"allowed to one of them. Approve it for all, or decline")
	case s.item.TakesTwo:
		return obstruct(NotForOne, "approving this %v takes two people, so one person cannot "+
			"allow it to one agent. Approve it, as the first or the second of two", kind)
	}
	return s.item.severe(dec.Reason)
}

// pageOf returns the address of the item's page, relative to the gateway's.
func pageOf(id tool.ID) string { return approval.Link("/", id)[len("/"):] }

// joinedRequests returns the requests that a decision for all counts for, oldest first. It refuses
// the decision if somebody has just declined one of the requests.
func (d *Service) joinedRequests(ctx context.Context, s requestView, v request.Verdict) ([]oneRequest, error) {
	if s.one.OneCall() {
		return []oneRequest{s.one}, nil
	}
	alike, _, err := d.sameRequests(ctx, s, true)
	if err != nil {
		return nil, err
	}
	all := []oneRequest{s.one}
	for _, o := range alike {
		switch held, is := o.granted.Of(o.ID); {
		case !is || held.Verdict != request.Declined:
			all = append(all, o)
		case v != request.Declined || held.By != text.Clip(ActorOf(ctx).Name, maxActor): // the same person may decline again after an incomplete attempt
			return nil, errClaimed(o.granted, o.ID)
		}
	}
	slices.SortFunc(all, func(a, b oneRequest) int { return older(a.Request, b.Request) })
	return all, nil
}

// claim stores a decision with a request, unless somebody else has decided about it.
func (d *Service) claim(ctx context.Context, s requestView, o oneRequest, dec RequestDecision) error {
	one := s.decision(ctx, o, dec)
	held, err := d.o.Requests.ChangeGranted(ctx, o.agent, func(g request.Granted) (request.Granted, error) {
		again := false
		if was, is := g.Of(o.ID); is {
			not, begun := s.unfinished(was)
			again = not && !begun
		}
		return g.Add(one, again, s.m.now)
	})
	if err != nil {
		return d.refusedClaim(ctx, held, o.ID, err)
	}
	return nil
}

// decision returns the decision that is stored with a request.
func (s requestView) decision(ctx context.Context, o oneRequest, dec RequestDecision) request.Decision {
	by := text.Clip(ActorOf(ctx).Name, maxActor)
	one := request.Decide(o.Request, dec.Verdict, dec.Minutes, by, strings.TrimSpace(dec.Reason), s.m.now)
	if dec.Verdict == request.Allowed || dec.Verdict == request.Confirmed {
		one.URL = s.now.URL
		if s.record != nil {
			one.Against = s.record.DecidedAt
		}
	}
	return one
}

// takeBack removes a decision that could not be carried out from its request. If the removal fails,
// the request counts as open again after a minute.
func (d *Service) takeBack(ctx context.Context, s requestView, o oneRequest, dec RequestDecision) {
	ours := s.decision(ctx, o, dec)
	_, err := d.o.Requests.ChangeGranted(context.WithoutCancel(ctx), o.agent, func(g request.Granted) (request.Granted, error) {
		if held, is := g.Of(o.ID); is && held.Verdict == ours.Verdict && held.By == ours.By && held.At.Equal(ours.At) {
			return g.Without(o.ID), nil
		}
		return g, request.ErrNotFound // nothing is written
	})
	if err != nil {
		d.o.Log.LogAttrs(ctx, slog.LevelWarn, "decision not removed from request after failure", slog.String("request", o.ID), slog.Any("error", err))
	}
}

// settleRest stores a decision with the requests after the first.
func (d *Service) settleRest(ctx context.Context, s requestView, joined []oneRequest, dec RequestDecision) decisionResult {
	out := decisionResult{all: []oneRequest{joined[0]}}
	rest, failed := joined[1:], make([]error, len(joined)-1)
	forEach(len(rest), func(n int) { failed[n] = d.claim(context.WithoutCancel(ctx), s, rest[n], dec) })
	for n, o := range rest {
		if failed[n] != nil {
			out.unsettled = append(out.unsettled, o.ID)
		} else {
			out.all = append(out.all, o)
		}
	}
	slices.Sort(out.unsettled)
	i := slices.IndexFunc(out.all, func(o oneRequest) bool { return o.ID == s.one.ID })
	if i > 0 { // people are notified about the request that the person saw
		out.all[0], out.all[i] = out.all[i], out.all[0]
	}
	return out
}
