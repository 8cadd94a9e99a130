package decide

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A RequestState is the state of a request.
type RequestState string

// The states of a request. People can decide about open requests, and revoke what is allowed or
// confirmed.
const (
	RequestOpen      RequestState = "open"
	RequestApproved  RequestState = "approved"  // the definition is approved, for all agents
	RequestAllowed   RequestState = "allowed"   // to this agent, until Ends
	RequestConfirmed RequestState = "confirmed" // one call, until Ends
	RequestUsed      RequestState = "used"      // the confirmed call was made
	RequestDeclined  RequestState = "declined"
	RequestRevoked   RequestState = "revoked"
	RequestOver      RequestState = "over"     // the approval or grant no longer holds; EndedBy says why
	RequestChanged   RequestState = "changed"  // the item has another definition or is gone; nobody can decide any more
	RequestCallable  RequestState = "callable" // nobody decided about the request, but its lock is gone; EndedBy says why
	RequestWithdrawn RequestState = "withdrawn"
	RequestExpired   RequestState = "expired"
)

// A Request is an agent's request as people see it.
type Request struct {
	request.Request

	Agent   request.Agent    `json:"agent"`
	State   RequestState     `json:"state" enum:"open,approved,allowed,confirmed,used,declined,revoked,over,changed,callable,withdrawn,expired"`
	Decided request.Decision `json:"decision,omitzero" doc:"what a person decided"`
	UsedAt  time.Time        `json:"used_at,omitzero" doc:"when the confirmed call was made"`
	EndedBy string           `json:"ended_by,omitempty" doc:"why the decision no longer applies, or why there is nothing to decide"`
	Grants  bool             `json:"grants,omitempty" doc:"the grant is usable now, or will be when the item has its earlier state again; the verdict revoked ends it"`

	// The item now.
	Locked   lock.Status `json:"locked,omitempty" doc:"why it is locked for this agent now; absent: it is callable"`
	Unsure   bool        `json:"unsure,omitempty" doc:"a rule of policy.cedar reads claims of the agent's token, which are known only during a call; locked does not include the result of that rule"`
	Rule     string      `json:"rule,omitempty" doc:"the operator's rule or the switch of the server that no decision here can override; not in lists"`
	Exempt   string      `json:"exemption,omitempty" doc:"replacement for the denying rules of policy.cedar that lets this agent call this item and changes nothing else; not in lists"`
	TakesTwo bool        `json:"takes_two,omitempty" doc:"approving it takes two people, so one person cannot allow it to one agent"`
	Proposed string      `json:"proposed_by,omitempty" doc:"who approved it as the first of two people; not in lists"`
	Alike    []string    `json:"alike,omitempty" nullable:"false" doc:"ids of other agents' open requests for the same definition; approving and declining applies to all of them"`

	AlikeBy []request.Agent `json:"-"` // agents of the requests in Alike; not in lists

	Unread int `json:"unread,omitempty" doc:"number of agents whose requests cannot be read, so they may ask for the same; the gateway's log says why; not in lists"`

	Arguments json.RawMessage `json:"arguments,omitempty" doc:"arguments of one call, stored until somebody decides; not in lists"` // only if their hash is Args
	Link      string          `json:"link" doc:"address of the request's page"`

	// Only in the answer to a decision.
	Unsettled  []string `json:"unsettled,omitempty" nullable:"false" doc:"ids of joined requests that are still open because the decision could not be stored with them"`
	Unrecorded bool     `json:"unrecorded,omitempty" doc:"the change is made, but its line could not be written to the audit; the gateway's log has it"`

	Obstacles map[request.Verdict]*Obstruction `json:"obstacles,omitempty" doc:"why you cannot give a verdict now; you can give every verdict that is absent here; not in lists"`
}

// A RequestDecision is a person's decision about a request.
type RequestDecision struct {
	Verdict request.Verdict // approved: for all agents; allowed: for this agent, for Minutes; confirmed; declined; revoked
	Hash    tool.Hash       // of the definition that the person saw; revoking needs none
	Args    string          // hash of the arguments that the person saw; "": there are none
	Tool    string          // id of the item that the person saw; "": not compared
	Agent   string          // key of the agent that the person saw; "": not compared
	Minutes int
	Reason  string // the agent reads it; for an approval it is the note
	Shown   ViewMethod
}

// A Want is the reason and the time that the agent's user gives for a request.
type Want struct {
	Why     string
	Minutes int // how long the agent needs it; 0: permanently
}

// An Asking is the page behind a link to a request, with what the actor may do there. A person
// without a role who is not the agent's user sees the item and the state, but no text.
type Asking struct {
	Request        // the ID is "" if nobody has made the request yet
	Person    bool `json:"person" doc:"you are the agent's user, and may ask and withdraw"`
	Decides   bool `json:"decides" doc:"you may decide"`
	Callable  bool `json:"callable" doc:"the agent can call it already, so there is nothing to request"`
	Elsewhere bool `json:"elsewhere" doc:"the item's definition has changed since the link was made, or the item is gone"`
}

// maxRequests limits the requests in a list, and the agents whose requests it reads.
const maxRequests = 500

// Requests returns the requests of agents, newest first: the open ones, or all that are stored. all
// is false if the list is incomplete. Records come from the state of this process.
func (d *Service) Requests(ctx context.Context, open bool) (list []Request, all bool, err error) {
	kept, all, err := d.everyRequest(ctx, open)
	if err != nil {
		return nil, false, err
	}
	m, err := d.instant(ctx)
	if err != nil {
		return nil, false, err
	}
	if slices.ContainsFunc(kept, m.unseen) {
		m.renew(ctx)
	}
	for _, o := range kept {
		s := d.viewRequest(ctx, m, o, m.recordOf(o.Item()))
		if r := s.request(); !open || r.State == RequestOpen {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Request) int { return -older(a.Request, b.Request) })
	if len(list) > maxRequests {
		list, all = list[:maxRequests], false
	}
	joinAlike(list)
	if open {
		d.storeOpen(list, d.o.Now())
	}
	return list, all, nil
}

// joinAlike adds to each open request for access the requests for the same definition.
func joinAlike(list []Request) {
	type same struct {
		id   tool.ID
		hash tool.Hash
	}
	ids := map[same][]string{}
	joins := func(r Request) bool { return r.State == RequestOpen && !r.OneCall() }
	for _, r := range list {
		if joins(r) {
			ids[same{r.Item(), r.Hash}] = append(ids[same{r.Item(), r.Hash}], r.ID)
		}
	}
	for i, r := range list {
		if joins(r) {
			list[i].Alike = slices.DeleteFunc(slices.Clone(ids[same{r.Item(), r.Hash}]), func(id string) bool { return id == r.ID })
		}
	}
}

// Request returns one request.
func (d *Service) Request(ctx context.Context, id string) (Request, error) {
	s, err := d.requestViewOf(ctx, id)
	if err != nil {
		return Request{}, err
	}
	return d.showRequest(ctx, s)
}

// showRequest returns a request with the details that lists leave out.
func (d *Service) showRequest(ctx context.Context, s requestView) (r Request, err error) {
	r = s.request()
	r.Rule, r.Exempt, r.Arguments = s.rule(), s.exemption(), s.arguments
	r.Obstacles = map[request.Verdict]*Obstruction{}
	for _, v := range Verdicts() {
		if o := s.obstacle(RequestDecision{Verdict: v, Hash: r.Hash, Args: r.Args}); o != nil {
			r.Obstacles[v] = o
		}
	}
	if r.State != RequestOpen || r.OneCall() {
		return r, nil
	}
	alike, unread, err := d.sameRequests(ctx, s, false)
	r.Unread = unread
	for _, o := range alike {
		r.Alike, r.AlikeBy = append(r.Alike, o.ID), append(r.AlikeBy, o.agent)
	}
	return r, err
}
