package decide

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/request"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A RequestState is what became of a request.
type RequestState string

// The states of a request.
const (
	RequestOpen      RequestState = "open"
	RequestApproved  RequestState = "approved"  // the definition is approved, for all agents
	RequestAllowed   RequestState = "allowed"   // to this agent, until Ends
	RequestConfirmed RequestState = "confirmed" // one call, until Ends
	RequestUsed      RequestState = "used"      // and that call was made
	RequestDeclined  RequestState = "declined"
	RequestRevoked   RequestState = "revoked"
	RequestOver      RequestState = "over"    // what was allowed or confirmed has ended; Ended says why
	RequestChanged   RequestState = "changed" // the tool has another definition since; nobody can decide any more
	RequestWithdrawn RequestState = "withdrawn"
	RequestExpired   RequestState = "expired"
)

// A Request is what an agent asked for, as people see it.
type Request struct {
	request.Request

	Agent   request.Agent    `json:"agent"`
	State   RequestState     `json:"state"`
	Decided request.Decision `json:"decision,omitzero"`
	UsedAt  time.Time        `json:"used_at,omitzero"`
	EndedBy string           `json:"ended_by,omitempty"` // of RequestOver: why, in words

	// Of the item now.
	Locked   lock.Status `json:"locked,omitempty"`    // why it is locked for this agent; "": it is callable
	Rule     string      `json:"rule,omitempty"`      // of disabled_by_config: what denies it, in words for an operator
	Exempt   string      `json:"exemption,omitempty"` // and a policy to paste that would let this agent call it
	TakesTwo bool        `json:"takes_two,omitempty"` // approving it takes two people, so one cannot allow it to one agent either
	Alike    []string    `json:"alike,omitempty"`     // ids of other agents' open requests for the same definition

	Arguments json.RawMessage `json:"arguments,omitempty"` // of one call, checked against Args; left out of lists
	Link      string          `json:"link"`                // of the page about it
}

// A RequestDecision is what a person decides about a request.
type RequestDecision struct {
	Verdict request.Verdict // approved: for all agents; allowed: to this one, for Minutes; confirmed; declined; revoked
	Hash    tool.Hash       // of the definition that the person saw
	Args    string          // hash of the arguments that the person saw; "": of none
	Minutes int
	Reason  string // told to the agent; of what is approved it is the note
}

// A Want is what the person of an agent asks for.
type Want struct {
	Why     string
	Minutes int // that it would do for; 0: for good
}

// An Asking is the page behind a link to a request, made or not: who may do what there.
type Asking struct {
	Request        // of a request that nobody has made yet the ID is ""
	Person    bool // who looks is the person of the agent's token, and may ask and withdraw
	Decides   bool // who looks may decide
	Callable  bool // there is nothing to ask for any more
	Elsewhere bool // the link is of another definition than the one now
}

var errNoRequests = errors.New("requests are not built in yet")

// Requests returns what agents asked for, the newest first: what is open alone, or everything that is
// kept. If there is more than is read at once, all is false.
func (d *Desk) Requests(ctx context.Context, open bool) (list []Request, all bool, err error) {
	return nil, false, errNoRequests
}

// Request returns one request.
func (d *Desk) Request(ctx context.Context, id string) (Request, error) {
	return Request{}, errNoRequests
}

// DecideRequest carries out a decision in the name of the request's actor, and returns the request as it
// is then. What is approved, and what is declined, is so for everybody who asks for the same definition.
func (d *Desk) DecideRequest(ctx context.Context, id string, dec RequestDecision) (Request, error) {
	return Request{}, errNoRequests
}

// Asking returns what is behind the code of a link: the id of a request, or a sealed one that nobody has
// made yet.
func (d *Desk) Asking(ctx context.Context, code string) (Asking, error) {
	return Asking{}, errNoRequests
}

// Ask makes the request behind a link, or adds the person's wish to one that is open. Only the person of
// the agent's token may.
func (d *Desk) Ask(ctx context.Context, code string, w Want) (Asking, error) {
	return Asking{}, errNoRequests
}

// Withdraw ends an open request. Only the person of the agent's token may.
func (d *Desk) Withdraw(ctx context.Context, id string) (Asking, error) {
	return Asking{}, errNoRequests
}
