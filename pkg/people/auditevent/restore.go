package auditevent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/request"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Restorer restores what a store lost: approval records from the tool catalog, and actions of
// people that locked or revoked something after the catalog was made, from the audit files. Only
// Approvals and Now are required.
type Restorer struct {
	Audit     audit.Folder
	Approvals approval.Store
	Stops     *stop.Store
	Tokens    *token.Store
	Requests  *request.Store
	Now       func() time.Time
}

// Restored says what a [Restorer] did.
type Restored struct {
	Settled []approval.Record // by id
	Closing []Action          // actions that locked or revoked something and apply again
	Opening []Action          // actions that unlocked something, which needs a new decision
	Unknown []Action          // actions that locked unknown items
	Faults  []string          // the first 20 skipped or untrusted places of the audit
	Count   int               // number of such places
}

// An Action is an action of a person in the audit.
type Action struct {
	About  string    `json:"about" doc:"id of the item, or server:NAME, agent:ID, all, token:NAME"`
	Action string    `json:"action"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

// Restore settles every record that the store lost, from the catalog and from later locking actions
// of people. Then it repeats other actions that locked or revoked something after the last write to
// the store: items, stops, agent tokens and grants. It unlocks nothing that is locked in the store
// and in the catalog. settle, which may be nil, changes how a record is settled.
//
// Restore reads the audit before it writes anything. After an interruption, another call continues,
// because each record is settled and locked in one write.
func (p *Restorer) Restore(ctx context.Context, snap *catalog.Snapshot, actor string,
	settle func(catalog.Reconciler) catalog.Reconciler) (out Restored, err error) {
	r := restoring{Restorer: p, actor: actor, past: map[string][]approval.Past{}, known: map[string]bool{}, out: &out}
	if err := r.read(ctx); err != nil {
		return out, fmt.Errorf("nothing was restored: %w", err)
	}
	how := catalog.Reconciler(r.reconcile)
	if settle != nil {
		how = settle(how)
	}
	if out.Settled, err = catalog.Reconcile(ctx, p.Approvals, snap, how, actor, p.Now); err != nil {
		return out, err
	}
	for _, step := range []func(context.Context) error{r.closeItems, r.stop, r.revokeTokens, r.endGrants} {
		if err := step(ctx); err != nil {
			return out, err
		}
	}
	r.report()
	return out, nil
}

// A restoring is one run of [Restorer.Restore].
type restoring struct {
	*Restorer
	actor  string
	past   map[string][]approval.Past // decisions about items, by the item's id in the audit
	others []audit.TrailEvent         // events about anything else

	mu    sync.Mutex
	known map[string]bool // ids that have a record
	out   *Restored
}

// itemActions are the decisions about items that [approval.Replay] supports.
var itemActions = []string{
	approval.ActionApprove, approval.ActionBlock, approval.ActionUnblock, approval.ActionDisable, approval.ActionEnable,
	approval.ActionUndo, approval.ActionPropose, approval.ActionAcceptStore,
}

// otherActions are the actions that are not about items.
var otherActions = []string{audit.ActionStop, audit.ActionStopUndone, audit.ActionTokenRevoked, audit.ActionDecided}

// read reads the audit.
func (r *restoring) read(ctx context.Context) error {
	if r.Audit == "" {
		return nil
	}
	trail, err := r.Audit.Trail(ctx, func(l audit.Line) bool {
		return l.Actor != approval.Sync && (slices.Contains(itemActions, l.Action) || slices.Contains(otherActions, l.Action))
	})
	if err != nil {
		return fmt.Errorf("%w; move that folder away to restore without it", err)
	}
	r.out.Faults, r.out.Count = trail.Faults, trail.Count
	for _, d := range trail.Events {
		if slices.Contains(otherActions, d.Action) {
			r.others = append(r.others, d)
			continue
		}
		r.past[d.Tool] = append(r.past[d.Tool], pastOf(d))
	}
	return nil
}

// pastOf returns an event as a decision. A malformed hash means that the line is damaged.
func pastOf(d audit.TrailEvent) approval.Past {
	p := approval.Past{Action: d.Action, Hash: d.Hash, By: d.Actor, Note: d.Note, At: d.Time, Stretch: d.Stretch, Sure: d.Sure}
	if _, ok := p.Hash.Sum(); !ok {
		p.Hash, p.Sure = "", false
	}
	return p
}

// reconcile settles a record that the store lost.
func (r *restoring) reconcile(lost approval.Record, actor string, now time.Time) (approval.Record, approval.Entry, error) {
	next, entry, re, err := approval.KeepReplayed(lost, r.pastOf(lost.ID()), actor, now)
	if err == nil {
		r.note(lost.ID(), re)
	}
	return next, entry, err
}

// pastOf returns the decisions about an item.
func (r *restoring) pastOf(id tool.ID) []approval.Past { return r.past[audit.Name(id.String())] }

// note records what was replayed for an item. It ignores a second call for the same item: after a
// conflict, the record is settled again.
func (r *restoring) note(id tool.ID, re approval.Replayed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[id.String()] {
		return
	}
	r.known[id.String()] = true
	for to, all := range map[*[]Action][]approval.Past{&r.out.Closing: re.Closing, &r.out.Opening: re.Opening} {
		for _, p := range all {
			*to = append(*to, Action{id.String(), p.Action, p.By, p.At})
		}
	}
}

// closeItems locks items whose records are older than decisions in the audit. The catalog does not
// report these records as lost.
func (r *restoring) closeItems(ctx context.Context) error {
	servers := map[string]bool{}
	for name := range r.past {
		server, _, _ := strings.Cut(name, ":")
		servers[server] = true
	}
	for _, server := range slices.Sorted(maps.Keys(servers)) {
		records, err := r.Approvals.Records(ctx, server)
		if err != nil {
			return err
		}
		for _, record := range records {
			if err := r.closeItem(ctx, &record); err != nil {
				return fmt.Errorf("close %q again: %w", record.ID(), err)
			}
		}
	}
	return nil
}

func (r *restoring) closeItem(ctx context.Context, record *approval.Record) error {
	id := record.ID()
	past := r.pastOf(id)
	if len(past) == 0 {
		return nil
	}
	var re approval.Replayed
	_, err := approval.Update(ctx, r.Approvals, id, record, func(stored *approval.Record) (*approval.Record, *approval.Entry, error) {
		if re = (approval.Replayed{}); stored == nil || stored.Loss != nil {
			return nil, nil, nil // not settled, because the catalog does not have its server
		}
		next, entry, replayed, err := approval.KeepReplayed(*stored, past, r.actor, r.Now())
		if re = replayed; err != nil || !re.Changed {
			return nil, nil, err
		}
		return &next, &entry, nil
	})
	if err == nil {
		r.note(id, re)
	}
	return err
}

// report adds the actions about unknown items to the result, and sorts the lists.
func (r *restoring) report() {
	known := map[string]bool{}
	for id := range r.known {
		known[audit.Name(id)] = true
	}
	for name, past := range r.past {
		if known[name] {
			continue
		}
		for _, p := range approval.Replay(approval.Record{}, time.Time{}, past).Closing {
			r.out.Unknown = append(r.out.Unknown, Action{name, p.Action, p.By, p.At})
		}
	}
	for _, list := range [][]Action{r.out.Closing, r.out.Opening, r.out.Unknown} {
		slices.SortFunc(list, func(a, b Action) int { return a.At.Compare(b.At) })
	}
}

// add records that a stop or a revocation of a token applies again.
func (r *restoring) add(d audit.TrailEvent) {
	r.out.Closing = append(r.out.Closing, Action{d.Subject, d.Action, d.Actor, d.Time})
}

// revokeTokens revokes again the agent tokens that the audit records as revoked and that are valid
// in the store.
func (r *restoring) revokeTokens(ctx context.Context) error {
	if r.Tokens == nil {
		return nil
	}
	tokens := token.Registry{Store: r.Tokens, Now: r.Now}
	for _, d := range r.others {
		id, named := strings.CutPrefix(d.Note, "id ")
		if d.Action != audit.ActionTokenRevoked || !named {
			continue
		}
		t, err := r.Tokens.Token(ctx, id)
		if errors.Is(err, token.ErrNotFound) || err == nil && !t.Live(r.Now()) {
			continue
		}
		if err == nil {
			_, err = tokens.Revoke(ctx, r.actor, id)
		}
		if err != nil {
			return fmt.Errorf("revoke %s again: %w", d.Subject, err)
		}
		r.add(d)
	}
	return nil
}

// endGrants revokes again the grants that the audit records as revoked and that are valid in the
// store.
func (r *restoring) endGrants(ctx context.Context) error {
	if r.Requests == nil {
		return nil
	}
	for _, d := range r.others {
		if d.Action != audit.ActionDecided || !strings.HasPrefix(d.Note, string(request.Revoked)) {
			continue
		}
		ended, err := r.endGrant(ctx, d)
		if err != nil {
			return fmt.Errorf("end the grant of request %s: %w", d.Request, err)
		}
		if ended {
			r.out.Closing = append(r.out.Closing, Action{d.Tool + " for " + d.Subject, string(request.Revoked), d.Actor, d.Time})
		}
	}
	return nil
}

func (r *restoring) endGrant(ctx context.Context, d audit.TrailEvent) (ended bool, err error) {
	key, err := r.Requests.Whose(ctx, d.Request)
	if errors.Is(err, request.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	granted, err := r.Requests.Granted(ctx, key)
	if err != nil {
		return false, err
	}
	_, err = r.Requests.ChangeGranted(ctx, granted.Agent, func(g request.Granted) (request.Granted, error) {
		now := r.Now()
		is, found := g.Find(d.Request)
		opens := is.Verdict == request.Allowed || is.Verdict == request.Confirmed
		if ended = found && opens && now.Before(is.Ends); !ended {
			return g, nil
		}
		one := request.Request{ID: is.Request, Server: is.Server, Tool: is.Tool, Kind: is.Kind, Hash: is.Hash, Args: is.Args}
		return g.Add(request.Decide(one, request.Revoked, 0, r.actor, "", now), false, now)
	})
	return ended, err
}
