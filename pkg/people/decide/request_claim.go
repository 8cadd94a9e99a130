package decide

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/finding"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func toolIDs(o oneRequest) []tool.ID { return []tool.ID{o.Item()} }

func severeWithout(list []finding.Finding, reason string) bool {
	return text.Blank(reason) && finding.Severe(list)
}

// refuses says why a decision cannot be made about the request as it stands; nil: it can.
func (s requestView) refuses(dec RequestDecision) error {
	o := s.one
	state, why := s.state()
	if dec.Verdict == request.Revoked {
		if held, is := o.granted.Of(o.ID); !is || !s.grants(held) {
			return conflict("nothing stands that could be ended: the request is %s%s; nothing was changed", state, because(why))
		}
		return nil
	}
	if held, is := o.granted.Of(o.ID); is {
		switch not, begun := s.unfinished(held); {
		case begun:
			return conflict("%s decides about this request at this moment, and nothing of yours was decided: read it again in a minute", held.By)
		case !not:
			return errClaimed(o.granted, o.ID)
		}
	}
	switch {
	case dec.Tool != "" && dec.Tool != o.Item().String():
		return conflict("the request is not about the %v that was shown, and nothing was decided: read it again", o.Kind)
	case dec.Agent != "" && dec.Agent != o.agent.Key():
		return conflict("the request is not the one of the agent that was shown, and nothing was decided: read it again")
	case dec.Hash != o.Hash || state == RequestChanged:
		return conflict("the definition changed since it was shown or asked for%s, and nothing was decided: what was asked for is not there any more; the agent asks anew", because(why))
	case dec.Args != o.Args:
		return conflict("the arguments are not those that were shown, and nothing was decided: read the request again")
	case state == RequestWithdrawn:
		return conflict("the request was withdrawn by who asked, and nothing was decided")
	case state == RequestExpired:
		return conflict("the request has expired, and nothing was decided: the agent asks again")
	case state == RequestCallable:
		return conflict("the agent can call it by now%s, and nothing was decided: nothing waits for a decision", because(why))
	case dec.Verdict == request.Declined:
		return nil
	case o.OneCall() != (dec.Verdict == request.Confirmed) && o.OneCall():
		return conflict("this is a request for one call, and nothing was decided: it takes confirmed or declined")
	case o.OneCall() != (dec.Verdict == request.Confirmed):
		return conflict("this is a request for access and not for one call, and nothing was decided: it takes approved, allowed or declined")
	}
	return s.locks(dec)
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// locks says why the lock as it is now cannot be opened so; nil: it can.
func (s requestView) locks(dec RequestDecision) error {
	kind := s.one.Kind
	switch s.status {
	case lock.ServerDisabled, lock.DisabledByConfig:
		return conflict("no decision here opens this %v, which is locked as %s, and nothing was decided: %s", kind, s.status, s.rule())
	case lock.DisabledUnknown:
		return conflict("no decision here opens this %v, and nothing was decided: %s", kind, s.rule())
	case lock.None, lock.DisabledByUser, lock.PendingApproval:
	}
	switch {
	case s.record == nil:
		return Decision{}.refused(inRecord(Facts{ID: s.one.Item(), Listed: true}, Decision{}))
	case dec.Verdict == request.Approved:
		return s.refusesApproval()
	}
	if stopped, is := s.m.st.Stopped(s.m.stops).Agent(s.one.agent.ID); is {
		return conflict("the agent is %s, and nothing was decided: what it is given now it could not use; an operator undoes the stop at /admin/stop first", stopped.Note())
	}
	switch {
	case dec.Verdict == request.Confirmed && s.status != lock.None:
		return conflict("the %v itself is locked as %s, so that confirming one call would not open it, and nothing was decided: approve or enable the %v first", kind, s.status, kind)
	case dec.Verdict == request.Confirmed:
		return nil
	case s.record.IsBlocked(s.record.CurrentHash):
		return conflict("somebody blocked this definition, and nothing was decided: nothing can be allowed to one agent before it is unblocked or approved for all")
	case !s.one.agent.Alone():
		return conflict("all callers of this gateway are one agent, so nothing can be allowed to one of them, and nothing was decided: approve it for all, or decline")
	case s.needsFourEyes():
		return conflict("approving this %v takes two people, so one person cannot allow it to one agent, and nothing was decided: approve it, as the first or the second of two", kind)
	}
	return nil
}

// refusesApproval says why the item cannot be approved for all, or enabled, by one decision.
func (s requestView) refusesApproval() error {
	r, id := s.record, s.one.Item()
	switch {
	case !r.Disabled:
		return nil
	case r.ApprovedHash != r.CurrentHash || r.IsBlocked(r.CurrentHash):
		return conflict("the %v is disabled and its definition is not approved, which are two decisions, and nothing was decided: make them on its page, %s", id.Kind, pageOf(id))
	}
	return nil
}

// sameServer refuses to grant what was listed at another address than the server has now.
func (s requestView) sameServer() error {
	if r := s.record; r != nil && r.URL != "" && !approval.SameServer(r.URL, s.now.URL) {
		return conflict("the server has another address since the definition was read from it, and nothing was decided: the next sync reads what the new one lists")
	}
	return nil
}

// pageOf returns the address of the page about an item, below that of the gateway.
func pageOf(id tool.ID) string { return approval.Link("/", id)[len("/"):] }

// joined returns the requests for which a decision for all counts, the oldest first. If one of them was
// declined at this moment, so are the others, and it is refused.
func (d *Service) joined(ctx context.Context, s requestView, v request.Verdict) ([]oneRequest, error) {
	if s.one.OneCall() {
		return []oneRequest{s.one}, nil
	}
	alike, _, err := d.alike(ctx, s, true)
	if err != nil {
		return nil, err
	}
	all := []oneRequest{s.one}
	for _, o := range alike {
		switch held, is := o.granted.Of(o.ID); {
		case !is || held.Verdict != request.Declined:
			all = append(all, o)
		case v != request.Declined || held.By != text.Clip(ActorOf(ctx).Name, maxActor): // who could not note it here says it again
			return nil, errClaimed(o.granted, o.ID)
		}
	}
	slices.SortFunc(all, func(a, b oneRequest) int { return older(a.Request, b.Request) })
	return all, nil
}

// claim notes a decision with a request, unless somebody else has.
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

// decision returns what is noted with a request.
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

// takeBack takes back a claim that could not be carried out. If that fails it counts as open a minute
// later, since it came to nothing.
func (d *Service) takeBack(ctx context.Context, s requestView, o oneRequest, dec RequestDecision) {
	ours := s.decision(ctx, o, dec)
	_, err := d.o.Requests.ChangeGranted(context.WithoutCancel(ctx), o.agent, func(g request.Granted) (request.Granted, error) {
		if held, is := g.Of(o.ID); is && held.Verdict == ours.Verdict && held.By == ours.By && held.At.Equal(ours.At) {
			return g.Without(o.ID), nil
		}
		return g, request.ErrNotFound // and nothing is written
	})
	if err != nil {
		d.o.Log.LogAttrs(ctx, slog.LevelWarn, "a decision that was not carried out is still noted with its request", slog.String("request", o.ID), slog.Any("error", err))
	}
}

// settleRest notes a decision with the requests after the first.
func (d *Service) settleRest(ctx context.Context, s requestView, joined []oneRequest, dec RequestDecision) decided {
	out := decided{all: []oneRequest{joined[0]}}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(maxWriters)
	for _, o := range joined[1:] {
		g.Go(func() error {
			err := d.claim(context.WithoutCancel(ctx), s, o, dec)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				out.unsettled = append(out.unsettled, o.ID)
			} else {
				out.all = append(out.all, o)
			}
			return nil
		})
	}
	_ = g.Wait() // each is on one of the two lists
	slices.Sort(out.unsettled)
	i := slices.IndexFunc(out.all, func(o oneRequest) bool { return o.ID == s.one.ID })
	if i > 0 { // what people are told is about the request that the person saw
		out.all[0], out.all[i] = out.all[i], out.all[0]
	}
	return out
}
