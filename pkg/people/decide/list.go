package decide

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Row is one tool, prompt or resource in a list.
type Row struct {
	ItemName
	Status   string    `json:"status" enum:"callable,server_disabled,disabled_by_config,disabled_by_user,pending_approval,disabled_unknown"`
	State    string    `json:"state" enum:"new,changed,approved,blocked" doc:"state of the definition in the catalog"`
	Tier     tool.Tier `json:"tier" enum:"read,write,destructive"`
	Hash     tool.Hash `json:"hash" doc:"hash of the definition in the catalog; a decision names it"`
	Rev      int64     `json:"rev" doc:"revision of the record, which a decision may name; 0: there is no record yet"`
	Disabled bool      `json:"disabled,omitempty" doc:"somebody disabled it"`
	Since    time.Time `json:"since,omitzero" doc:"since when the item has its present state, or since when it waits"`
	Title    string    `json:"title,omitempty" doc:"title; for a resource without a title, its name"`
	Summary  string    `json:"summary,omitempty" doc:"first sentence of the description"`
	Change   string    `json:"change,omitempty" doc:"one line: for a changed definition the change; for a new one its parameters, or the type of a resource"`
	Findings int       `json:"findings,omitempty" doc:"number of findings in the definition"`
	Severe   []string  `json:"severe,omitempty" doc:"codes of the severe findings; approving a definition with one needs a note"`
	By       string    `json:"by,omitempty" doc:"who decided last"`
	At       time.Time `json:"at,omitzero" doc:"when they decided"`
	Note     string    `json:"note,omitempty" doc:"note of that decision"`
	TakesTwo bool      `json:"takes_two,omitempty" doc:"approving the current definition takes two people who signed in with the issuer"`
	Proposed string    `json:"proposed_by,omitempty" doc:"who approved the current definition as the first of two people; it waits for the second"`
	Asked    int       `json:"asked,omitempty" doc:"number of agents that ask for it, up to 10 s old"`
	Lost     bool      `json:"lost,omitempty" doc:"the store lost the record or had an older version, and nobody has settled which version applies"`

	Obstacle *Obstruction `json:"obstacle,omitempty" doc:"only if the query has for: why you cannot take that action on the item now in a request about many items; absent: you can"`

	Facts Facts `json:"-"` // used by [Obstacle]; set by [Service.Rows], and with [Filter.For]

	// Unannotated says that a tool counts as destructive only because it has no annotations.
	Unannotated bool `json:"-"`
}

// A Page is a page of the list that a [Filter] chooses.
type Page struct {
	Tools  []Row  `json:"tools" nullable:"false" doc:"tools, prompts and resources, unless kind selects one of these"`
	Total  int    `json:"total" doc:"number of items on all pages"`
	Facets Facets `json:"facets" doc:"number of items for each value of a filter if the other filters stay the same"`
	Next

	Upgrades []Upgrade `json:"upgrades,omitempty" doc:"on the first page of waiting items: servers with another version of the same package, and the definitions that were approved in an earlier version; the action carry approves these definitions"`

	// Mixed says that some page has prompts or resources.
	Mixed bool `json:"-"`
}

// Facets are the values of each filter that at least one item has, in the order in which a page
// shows them.
type Facets struct {
	Kind    []Facet `json:"kind" nullable:"false"`
	Status  []Facet `json:"status" nullable:"false"`
	State   []Facet `json:"state" nullable:"false"`
	Server  []Facet `json:"server" nullable:"false"`
	Tier    []Facet `json:"tier" nullable:"false"`
	Finding []Facet `json:"finding" nullable:"false" doc:"an item counts for each of its findings"`
}

// A Facet says how many items have a value.
type Facet struct {
	Value string `json:"value"`
	Tools int    `json:"tools" doc:"number of tools, prompts and resources"`
}

// List returns a page of the items that f chooses.
func (d *Service) List(ctx context.Context, f Filter, p Paging) (Page, error) {
	st := d.states.Load(ctx)
	v := st.View(d.o.Agent)
	if err := p.check(); err != nil {
		return Page{}, err
	}
	if err := f.check(v); err != nil {
		return Page{}, err
	}
	t := d.itemIndex(st, v)
	out := Page{Mixed: t.mixed}
	name := f.order()
	o := t.orderFor(name, d.askers(ctx), v)
	start, err := o.start(name, p, v.ID)
	if err != nil {
		return Page{}, err
	}
	chosen, before, values := t.choose(f, f.serverFilter(ActorOf(ctx).Rights), v, o.list, start)
	out.Total, out.Facets = len(chosen), values
	page := chosen[before:]
	if len(page) > p.Limit {
		page = page[:p.Limit]
		last := page[p.Limit-1]
		out.Next.Next = o.cursor(name, last, v.ID(last))
	}
	out.Tools = d.rows(ctx, st, v, page, f)
	if f.Status == string(lock.PendingApproval) && (f.State == "" || f.State == StateNew) && start == 0 {
		out.Upgrades = d.upgrades(ctx, v, f, f.serverFilter(ActorOf(ctx).Rights))
	}
	return out, nil
}

// The filters for which each item has exactly one value.
const (
	byKind = iota
	byStatus
	byState
	byServer
	byTier
	facets
)

// A tally counts items by the values of each filter.
type tally struct {
	by    [facets]map[string]int
	found map[findingSet]int
}

// choose returns the items of list that match f and hasServer, the number of these items before
// position start of list, and the facets. A nil hasServer matches every server.
func (t *itemIndex) choose(f Filter, hasServer func(server string) bool, v *state.View, list []int, start int) (chosen []int, before int, values Facets) {
	want, bit := [facets]string{f.Kind, f.Status, f.State, f.Server, f.Tier}, bitOf(f.Finding)
	counts := tally{found: map[findingSet]int{}}
	for i := range counts.by {
		counts.by[i] = map[string]int{}
	}
	words, finds := strings.Fields(strings.ToLower(f.Q)), t.found()
	var text []string
	if len(words) > 0 {
		text = t.text()
	}
	for place, i := range list {
		id := v.ID(i)
		if len(words) > 0 && !containsAll(text[i], words) || hasServer != nil && !hasServer(id.Server) {
			continue
		}
		has := [facets]string{id.Kind.String(), StatusText(v.Status(i)), stateText(v.ApprovalState(i)), id.Server, v.Tier(i).String()}
		misses, missed := 0, 0 // missed is the last filter that does not match
		for n := range has {
			if want[n] != "" && want[n] != has[n] {
				misses, missed = misses+1, n
			}
		}
		switch fits := finds[i].has(bit); {
		case misses == 0:
			counts.found[finds[i]]++
			if !fits {
				continue
			}
			for n := range has {
				counts.by[n][has[n]]++
			}
			if chosen = append(chosen, i); place < start {
				before++
			}
		case misses == 1 && fits: // the item would match if this filter had another value
			counts.by[missed][has[missed]]++
		}
	}
	return chosen, before, counts.facets(f, v)
}

// facets returns the counts.
func (c tally) facets(f Filter, v *state.View) Facets {
	finds := map[string]int{}
	for _, value := range Findings() {
		bit := bitOf(value)
		for f, n := range c.found {
			if f.has(bit) {
				finds[value] += n
			}
		}
	}
	return Facets{
		Kind: facetsOf(Kinds(), c.by[byKind], f.Kind), Status: facetsOf(Statuses(), c.by[byStatus], f.Status), State: facetsOf(States(), c.by[byState], f.State),
		Server: facetsOf(namesOf(v), c.by[byServer], f.Server), Tier: facetsOf(Tiers(), c.by[byTier], f.Tier),
		Finding: facetsOf(Findings(), finds, f.Finding),
	}
}

// facetsOf returns the values that at least one item has, and the chosen value.
func facetsOf(values []string, tally map[string]int, chosen string) []Facet {
	out := []Facet{}
	for _, value := range values {
		if n := tally[value]; n > 0 || value == chosen {
			out = append(out, Facet{value, n})
		}
	}
	return out
}

func containsAll(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// Rows returns the rows of those items that the catalog has, in the order of ids.
func (d *Service) Rows(ctx context.Context, ids []tool.ID) []Row {
	st := d.states.Load(ctx)
	v := st.View(d.o.Agent)
	var listed []int
	for _, id := range ids {
		if i, ok := v.Find(id); ok {
			listed = append(listed, i)
		}
	}
	return d.rows(ctx, st, v, listed, Filter{For: approval.ActionApprove})
}

// rows returns the rows of the items. It reads a record only if the catalog does not have
// everything: a decision is newer, records were lost, the first of two people may have approved, or
// the row says what can be carried over.
func (d *Service) rows(ctx context.Context, st *state.State, v *state.View, page []int, f Filter) []Row {
	out, askers := make([]Row, len(page)), d.askers(ctx)
	all := st.Catalog != nil && st.Catalog.Current().Restored > 0 || f.For == ActionCarry
	forEach(len(page), func(n int) {
		i := page[n]
		known := v.Record(i)
		if known != nil && (all || known.UpdatedAt.IsZero() || known.State != approval.Approved &&
			v.NeedsFourEyes(known.Server, v.Tool(i).Definition)) {
			r, err := d.approvals.Peek(ctx, v.ID(i))
			if err == nil && r.Rev >= known.Rev { // otherwise the row does not say who decided
				known = &r
			}
		}
		out[n] = d.rowOf(ctx, v, i, known, f)
		out[n].Asked = askers[v.ID(i)]
	})
	return out
}

// rowOf returns the row of item i. r is the item's record, or nil.
func (d *Service) rowOf(ctx context.Context, v *state.View, i int, r *approval.Record, f Filter) Row {
	t := v.Tool(i)
	row := Row{
		ItemName: itemNameOf(t.ID, t.Definition), Status: StatusText(v.Status(i)), State: StateNew, Tier: v.Tier(i), Hash: t.Definition.Hash,
		Title: titleOf(t.Definition), Summary: tool.FirstSentence(t.Definition.Description),
	}
	if r != nil {
		if p := proposedOf(r); p != nil {
			row.Proposed = p.By
		}
		row.State, row.Rev, row.Disabled, row.Since, row.Lost = stateText(r.State), r.Rev, r.Disabled, r.UpdatedAt, r.Loss != nil
		if row.By, row.At, row.Note = r.By, r.At, r.Note; r.UpdatedAt.IsZero() { // these belong to an older decision
			row.Since, row.At, row.By, row.Note = r.DecidedAt, r.DecidedAt, "", ""
		}
	}
	row.TakesTwo = v.NeedsFourEyes(t.ID.Server, t.Definition)
	row.Unannotated = isUnannotated(t.ID.Kind.String(), v.Hints(i))
	for _, found := range v.Findings(i) {
		if row.Findings++; found.Severe && !slices.Contains(row.Severe, found.Code) {
			row.Severe = append(row.Severe, found.Code)
		}
	}
	switch {
	case row.State == StateNew:
		row.Change = review.Outline(t.Definition)
	case row.State == StateChanged && len(t.ApprovedRaw) > 0:
		row.Change = d.changes.Summarize(tool.KeptItem(t.ID.Kind, t.ApprovedRaw), t.Definition).Line()
	}
	if f.For != "" {
		row.Facts = d.factsOf(ctx, v, t.ID, r)
		row.Facts.Hash = row.Hash
		row.Obstacle = row.Facts.Before(f.For, f.Shown, true)
	}
	return row
}

// Neighbours are the position of an item in a list, and the items before and after it.
type Neighbours struct {
	Place, Total   int // Place counts from 1; 0 if the list does not have the item
	Previous, Next tool.ID
}

// Neighbours returns the position of the item in the list that f chooses. If a decision removed the
// item from the list, Neighbours returns the items around its old position. The zero ID means no
// item.
func (d *Service) Neighbours(ctx context.Context, f Filter, id tool.ID) (n Neighbours, err error) {
	st := d.states.Load(ctx)
	v := st.View(d.o.Agent)
	if err := f.check(v); err != nil {
		return n, err
	}
	i, ok := v.Find(id)
	if !ok {
		return n, nil
	}
	t := d.itemIndex(st, v)
	o := t.orderFor(f.order(), d.askers(ctx), v)
	chosen, before, _ := t.choose(f, f.serverFilter(ActorOf(ctx).Rights), v, o.list, o.after(o.keys[i], id.String(), v.ID))
	n.Total = len(chosen)
	// before counts the item itself if the list has it.
	if before > 0 && chosen[before-1] == i {
		n.Place = before
		before--
	}
	if before > 0 {
		n.Previous = v.ID(chosen[before-1])
	}
	if next := before + min(n.Place, 1); next < len(chosen) {
		n.Next = v.ID(chosen[next])
	}
	return n, nil
}
