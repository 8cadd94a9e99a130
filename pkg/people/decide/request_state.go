package decide

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// An instant holds the state for evaluating requests, and the current stops from the store.
type instant struct {
	d     *Service
	st    *state.State
	v     *state.View // a view of everything
	stops stop.Stops  // stops by people
	now   time.Time
	known map[string]identity.Agent // agents with tokens by id; nil: not read yet
}

func (d *Service) instant(ctx context.Context) (*instant, error) {
	st := d.states.Load(ctx)
	m := &instant{d: d, st: st, v: st.View(d.o.Agent), now: d.o.Now()}
	if d.o.Stops == nil {
		return m, nil
	}
	var err error
	m.stops, err = d.o.Stops.Stops(ctx)
	return m, err
}

// renew reads the state again.
func (m *instant) renew(ctx context.Context) {
	m.st = m.d.states.Refresh(ctx)
	m.v = m.st.View(m.d.o.Agent)
}

// lists reports whether the catalog has the requested definition.
func (m *instant) lists(r request.Request) bool {
	i, ok := m.v.Find(r.Item())
	return ok && m.v.Tool(i).Definition.Hash == r.Hash
}

// seenFor is the age of a request after which this process must have loaded the catalog in which
// the agent found the item.
const seenFor = 5 * time.Minute

// unseen reports whether this process may not have seen the request's definition yet.
func (m *instant) unseen(o agentRequest) bool {
	return m.now.Sub(o.Opened) < seenFor && !o.granted.Decided(o.ID) && !m.lists(o.Request)
}

// recordOf returns an item's record in the state.
func (m *instant) recordOf(id tool.ID) *approval.Record {
	if i, ok := m.v.Find(id); ok {
		return m.v.Record(i)
	}
	return nil
}

// agentOf returns the agent as policies see it. whole is false if policies see more when the agent
// calls, such as the claims of a JWT.
func (m *instant) agentOf(ctx context.Context, a request.Agent) (agent identity.Agent, whole bool) {
	names := m.d.o.Agents
	switch a.Way {
	case identity.WayNone:
		return identity.Anonymous(), true
	case identity.WayIAM:
		if agent, err := names.Signer(a.ID); err == nil {
			return agent, true
		}
	case identity.WayToken:
		if m.known == nil {
			m.known = map[string]identity.Agent{}
			all, err := names.List(ctx, m.now)
			if err != nil {
				m.d.o.Log.LogAttrs(ctx, slog.LevelWarn, "agents of tokens not read", slog.Any("error", err))
			}
			for _, one := range all {
				m.known[one.ID] = one
			}
		}
		if agent, ok := m.known[a.ID]; ok {
			return agent, true
		}
	}
	return identity.Agent{ID: a.ID, Human: a.Human, Subject: a.Subject, Way: a.Way}, false
}

// A requestView is a request with its item and the permissions of its agent at one instant.
type requestView struct {
	m      *instant
	one    agentRequest
	record *approval.Record // nil: there is none
	i      int
	listed bool // item i of the catalog is the request's item
	now    request.Now
	item   Facts // the facts for a decision about the item

	arguments json.RawMessage // of one call, if they are stored and were read

	facts   lock.Facts
	status  lock.Status
	verdict policy.Verdict
	called  policy.Tool
	agent   identity.Agent
	unsure  bool // a rule that reads unknown claims of the agent may deny the item
}

// viewRequest combines a request and the item's record r, which may be nil.
func (d *Service) viewRequest(ctx context.Context, m *instant, o agentRequest, r *approval.Record) requestView {
	s := requestView{m: m, one: o, record: r, item: d.factsOf(ctx, m.v, o.Item(), r)}
	if s.i, s.listed = m.v.Find(o.Item()); !s.listed {
		return s
	}
	var whole bool
	s.agent, whole = m.agentOf(ctx, o.agent)
	s.called = policy.Tool{ID: o.Item(), Annotations: m.v.Hints(s.i), Tier: m.v.Tier(s.i)}
	if whole {
		s.verdict = m.st.Policy.Verdicts(m.st.Config, s.agent, []policy.Tool{s.called})[0]
	} else {
		s.verdict, s.unsure = m.st.Policy.VerdictWithoutClaims(m.st.Config, s.agent, s.called)
	}
	s.now = m.v.NowAt(s.i, r, m.stops, m.now)
	s.now.Agent = o.agent.ID
	s.facts = m.v.FactsNow(s.i, r, m.stops, request.Granted{}, m.now)
	_, granted := o.granted.Allows(s.now)
	s.facts.Denied, s.facts.Granted = s.verdict.Denied, lock.FactOf(granted)
	if s.unsure && s.facts.Denied == lock.No && o.Status == lock.DisabledByConfig {
		s.facts.Denied = lock.Yes // as when the agent made the request
	}
	s.status = lock.Classify(s.facts)
	return s
}

// requestViewOf reads a request and its item from the store.
func (d *Service) requestViewOf(ctx context.Context, id string) (requestView, error) {
	o, err := d.findRequest(ctx, id)
	if err != nil {
		return requestView{}, err
	}
	return d.viewStored(ctx, o)
}

// viewStored returns viewRequest with the record from the store.
func (d *Service) viewStored(ctx context.Context, o agentRequest) (requestView, error) {
	m, err := d.instant(ctx)
	if err != nil {
		return requestView{}, err
	}
	if !m.lists(o.Request) { // another process may have seen the definition first
		m.renew(ctx)
	}
	r, err := d.record(ctx, o.Item())
	if err != nil {
		return requestView{}, err
	}
	s := d.viewRequest(ctx, m, o, r)
	if o.OneCall() {
		s.arguments, err = d.argumentsOf(ctx, o)
	}
	return s, err
}

// current reports whether the catalog and the record have the requested definition.
func (s requestView) current() bool {
	return s.listed && s.now.Hash == s.one.Hash && (s.record == nil || s.record.CurrentHash == s.one.Hash)
}

// approvedBy reports whether the decision led to an approval, even if the approval is no longer
// valid.
func (s requestView) approvedBy(d request.Decision) bool {
	r := s.record
	if r == nil || r.DecidedAt.Before(d.At) {
		return false
	}
	return r.ApprovedHash == d.Hash || slices.ContainsFunc(r.ApprovedBefore, func(m approval.Remembered) bool {
		return m.Hash == d.Hash && !m.At.Before(d.At)
	})
}

// claimTime limits the time between storing a person's decision and carrying it out.
const claimTime = time.Minute

// unfinished reports whether an approval has not been carried out. begun says that this may still
// happen.
func (s requestView) unfinished(d request.Decision) (is, begun bool) {
	is = d.Verdict == request.Approved && !s.approvedBy(d)
	return is, is && s.m.now.Sub(d.At) < claimTime
}

// state returns the state of the request, and why a decision is no longer valid.
func (s requestView) state() (state RequestState, why string) {
	if d, is := s.one.granted.Find(s.one.ID); is {
		if not, _ := s.unfinished(d); !not {
			return s.stateAfter(d)
		}
	}
	switch o := s.one; {
	case !o.Ended.IsZero():
		return RequestWithdrawn, ""
	case !s.m.now.Before(o.Expires):
		return RequestExpired, ""
	case !s.listed:
		return RequestChanged, "its server no longer lists it"
	case !s.current():
		return RequestChanged, "its definition has changed"
	case !o.OneCall() && s.unlocked():
		return RequestCallable, s.unlockedBy()
	case o.OneCall() && s.status == lock.None && !s.m.v.Confirmed().Has(s.i):
		return RequestCallable, "its calls no longer need a confirmation"
	}
	return RequestOpen, ""
}

// unlocked reports whether the agent has nothing left to request.
func (s requestView) unlocked() bool {
	people := s.facts.UserDisabled == lock.No && s.facts.Approved == lock.Yes || s.facts.Granted == lock.Yes
	return s.status == lock.None || s.unsure && people && s.one.Status.UserCanLift()
}

func (s requestView) unlockedBy() string {
	if r := s.record; r != nil && r.By != "" && r.DecidedAt.After(s.one.Opened) {
		return r.By + " decided about it without this request"
	}
	return "it is no longer locked, and nobody decided about this request"
}

// stateAfter returns the state of a request after a decision.
func (s requestView) stateAfter(d request.Decision) (state RequestState, why string) {
	switch d.Verdict {
	case request.Declined:
		return RequestDeclined, ""
	case request.Revoked:
		return RequestRevoked, ""
	case request.Approved:
		if s.current() && s.facts.UserDisabled == lock.No && s.facts.Approved == lock.Yes {
			return RequestApproved, ""
		}
	case request.Allowed:
		if s.holds(d) {
			return RequestAllowed, ""
		}
	case request.Confirmed:
		if !s.one.used.IsZero() {
			return RequestUsed, ""
		}
		if s.holds(d) {
			return RequestConfirmed, ""
		}
	}
	return RequestOver, s.whyOver(d)
}

// holds reports whether the grant of a decision is valid now.
func (s requestView) holds(d request.Decision) bool {
	alone := request.Granted{Agent: s.one.agent, List: []request.Decision{d}}
	_, allows := alone.Allows(s.now)
	return s.listed && (allows || len(alone.Confirms(s.now, d.Args)) > 0)
}

// whyOver says why a grant or approval is no longer valid.
func (s requestView) whyOver(d request.Decision) string {
	r, last := s.record, s.m.stops.Last(d.Server, s.one.agent.ID)
	switch {
	case d.Verdict != request.Approved && !s.m.now.Before(d.Ends):
		return "its time has ended"
	case !s.listed:
		return "its server no longer lists it"
	case !s.current():
		return "its definition has changed"
	case d.Verdict == request.Allowed && s.now.Two:
		return "approving it now takes two people, and one person gave the grant"
	case d.Verdict != request.Approved && !d.At.After(last):
		return "a person has since stopped the agent, the item's server or everything"
	case r != nil && !r.DecidedAt.Equal(d.Against):
		return fmt.Sprintf("%s has decided about it since", cmp.Or(r.By, "somebody"))
	}
	return "the address of the server or the record has changed"
}

// request returns the request as lists show it.
func (s requestView) request() Request {
	o := s.one
	r := Request{Request: o.Request, Agent: o.agent, UsedAt: o.used}
	r.Link = s.m.d.o.BaseURL + "/admin/requests/" + o.ID
	r.State, r.EndedBy = s.state()
	if decided, is := o.granted.Find(o.ID); is && r.State != RequestOpen {
		r.Decided, r.Grants = decided, s.grants(decided)
		r.Decided.URL = "" // people who read requests may not see the server's address
	}
	if !s.listed {
		return r
	}
	r.Locked, r.Unsure = s.status, s.unsure
	r.TakesTwo = s.item.TakesTwo
	if s.record != nil {
		if p := proposedOf(s.record); p != nil {
			r.Proposed = p.By
		}
	}
	return r
}
