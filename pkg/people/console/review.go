package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A reviewPage shows a tool, prompt or resource to the person who decides about it.
type reviewPage struct {
	Page
	itemView
	Beside   decide.Neighbours
	Queue    string // name of the queue
	List     string // address of the queue
	Previous string
	Next     string
	Query    string // of the queue, with a "?"; "": none

	Note     string // the note that the person typed
	Tell     bool
	TextKept bool // the person only saved the note on the page
	Actions  []string
	CanUndo  bool
	Asked    askers
	RuleAt   map[string]string // addresses of the lines of the rules that deny the item
}

// An askers value says how many agents have an open request for an item.
type askers struct {
	Agents int
	Link   string // to the oldest request
}

// agentsAsking returns how many agents ask for an item.
func (c *Console) agentsAsking(r *http.Request, id tool.ID) (a askers) {
	agents := map[string]bool{}
	for _, q := range c.o.Service.OpenRequests(r.Context()) { // the newest first
		if q.Item() == id && !q.OneCall() {
			agents[q.Agent.Key()] = true
			a = askers{len(agents), rootOf(r) + "admin/requests/" + q.ID}
		}
	}
	return a
}

// An itemView is an item's definition, or its changes since the approval, with facts about the
// item.
type itemView struct {
	kind     tool.Kind
	anchors  string // prefix of the element ids of findings
	Tool     decide.Tool
	Own      string // address of the current page, without a query
	ItemPage string // address of the item's page

	Old       bool // Items are changes since the approved definition, not parts of a new definition
	Items     []decide.ChangeItem
	MoreItem  int
	Again     *changedAgain // changes since the person opened the page; nil: none
	Findings  []pointer
	Before    []pointer // findings that the approved definition has, too
	NeedsNote string    // why an approval needs a note; "": it does not
	MayNot    string    // why this person cannot decide; "": this person can
	Two       string    // what this person can do for an approval by two people; "": one is enough

	View   string
	Views  []viewLink
	Blocks []block
	Only   link
	Side   link
}

// changedAgain has the changes since the page on which a person decided.
type changedAgain struct {
	Line   string
	Blocks []block
}

// A link switches an option of a page.
type link struct {
	Address string
	On      bool
}

type viewLink struct{ View, Name, Address string }

// views are the tabs of the page.
var views = map[tool.Kind][]viewLink{
	tool.Tool:     {{"summary", "Summary", ""}, {"description", "Description", ""}, {"input", "Input", ""}, {"output", "Output", ""}, {"raw", "Raw", ""}},
	tool.Prompt:   {{"summary", "Summary", ""}, {"description", "Description", ""}, {"arguments", "Arguments", ""}, {"raw", "Raw", ""}},
	tool.Resource: {{"summary", "Summary", ""}, {"description", "Description", ""}, {"raw", "Raw", ""}},
}

// maxVerdicts limits the verdicts about other definitions on the page.
const maxVerdicts = 6

// show shows an item, or the changes between two of its definitions.
func (c *Console) show(w http.ResponseWriter, r *http.Request, id tool.ID) {
	switch query := r.URL.Query(); {
	case compares(query):
		c.compare(w, r, id)
		return
	case query.Has(foldParameter):
		c.fold(w, r, id)
		return
	}
	c.review(w, r, id, nil)
}

// review shows an item. After a refused form it also shows the refusal and the typed note.
func (c *Console) review(w http.ResponseWriter, r *http.Request, id tool.ID, refusal error) {
	f, err := queueQuery(r)
	if err != nil {
		c.failed(w, r, "page", err)
		return
	}
	t, err := c.o.Service.Tool(r.Context(), id)
	if err != nil {
		c.failed(w, r, "page", err)
		return
	}
	p, status := &reviewPage{Page: Page{Title: shownID(id), Here: "tools"}, itemView: viewOf(r, id, t)}, http.StatusOK
	if refusal != nil {
		e := c.o.Service.Explain(r.Context(), "form", refusal)
		status, p.Problem = e.Status, sentence(e.Detail)
		p.fillSince(tool.Hash(r.PostForm.Get("hash")), e, c)
	}
	typed := typedOf(r)
	p.Note, p.Tell = firstOf(typed.Get("note"), approval.MaxNote), typed.Get("tell") != ""
	p.TextKept = refusal == nil && r.Method == http.MethodPost
	if err := c.place(p, r, f, id); err != nil {
		c.failed(w, r, "page", err)
		return
	}
	p.fillView(c.o.Service, r.URL.Query())
	c.setMessage(&p.Page, r)
	p.fillRights()
	p.Asked = c.agentsAsking(r, id)
	if t.Denial != nil {
		places := c.o.Service.RulePlaces(r.Context())
		p.RuleAt = map[string]string{}
		for _, rule := range t.Denial.Rules {
			file, line := places(rule)
			p.RuleAt[rule] = fileLink(rootOf(r), file, line)
		}
	}
	for _, action := range t.Facts.Actions() {
		if action == approval.ActionUndo {
			p.CanUndo = r.URL.Query().Get("tool") != inAddress(id) // otherwise the message on the page has the Undo button
			continue
		}
		p.Actions = append(p.Actions, action)
	}
	c.setViewed(w, r, t.Hash)
	c.shown.put(t.Hash, t.Definition)
	c.render(w, r, status, "review", p)
}

// viewOf returns what the page shows of an item, in the view that r asks for.
func viewOf(r *http.Request, id tool.ID, t decide.Tool) itemView {
	v := itemView{kind: id.Kind, Tool: t, View: r.URL.Query().Get("view"), ItemPage: toolLink(rootOf(r), id, nil)}
	if v.Own = v.ItemPage; !slices.ContainsFunc(views[id.Kind], func(x viewLink) bool { return x.View == v.View }) {
		v.View = "summary"
	}
	return v
}

// fillSince fills in the changes since the person opened the page, if they caused the refusal.
func (p *itemView) fillSince(seen tool.Hash, refusal *decide.Error, c *Console) {
	if refusal.Status == http.StatusConflict && seen != p.Tool.Hash {
		read := c.shown.get(seen)
		if read == nil { // another process may have shown it
			read = refusal.Seen
		}
		p.Again = againOf(c.o.Service, p.kind, p.ItemPage, read, p.Tool.Definition)
	}
}

// Verdicts returns the decisions about other definitions of the item, the newest first.
func (p *itemView) Verdicts() (out []decide.Verdict) {
	for _, v := range p.Tool.Record.Verdicts {
		if v.Hash != p.Tool.Hash && len(out) < maxVerdicts {
			out = append(out, v)
		}
	}
	return out
}

// History returns the address of the item's history.
func (p *itemView) History() string { return p.ItemPage + "/history" }

// Short returns the prefix of a hash.
func (p *itemView) Short(hash tool.Hash) string { return string(hash[:min(len(hash), 6)]) }

// NoteShown reports whether a small window shows the field for the note at once.
func (p *reviewPage) NoteShown() bool { return p.Note+p.NeedsNote+p.Problem != "" || p.Tell }

// place sets the item's position in the queue.
func (c *Console) place(p *reviewPage, r *http.Request, f decide.Filter, id tool.ID) (err error) {
	root, query := rootOf(r), queueOf(f)
	if p.Beside, err = c.o.Service.Neighbours(r.Context(), f, id); err != nil {
		return err
	}
	p.Query = withQuery("", query)
	p.List = withQuery(root+"admin/tools", f.Values())
	p.Queue = nameOf(f)
	if p.Beside.Previous != (tool.ID{}) {
		p.Previous = toolLink(root, p.Beside.Previous, query)
	}
	if p.Beside.Next != (tool.ID{}) {
		p.Next = toolLink(root, p.Beside.Next, query)
	}
	return nil
}

// nameOf returns a short name for the items that f selects.
func nameOf(f decide.Filter) string {
	var parts []string
	mine := map[string]string{"yes": "yours"}[f.Mine]
	for _, part := range []string{mine, words(f.Status), f.State, f.Tier, f.Kind} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	name := strings.Join(parts, ", ")
	if name == "" {
		name = "everything"
	}
	if f.Server != "" {
		name += " of " + f.Server
	}
	if f.Q != "" {
		name += " with “" + f.Q + "”"
	}
	return name
}

// fillView fills in the content of the selected view.
func (p *itemView) fillView(service *decide.Service, query url.Values) {
	t := p.Tool
	now, before := tool.KeptItem(p.kind, t.Definition), tool.KeptItem(p.kind, t.Approved)
	p.Old = t.Change != nil
	p.items(service, now)
	side, only := query.Get("diff") == "side" && p.Old, query.Get("only") != "" && p.Old
	to := func(name, value string) string {
		q := url.Values{}
		for _, keep := range append([]string{"view", "diff", "only"}, queueParameters...) {
			if v := query.Get(keep); v != "" {
				q.Set(keep, v)
			}
		}
		if q.Del(name); value != "" {
			q.Set(name, value)
		}
		return withQuery(p.Own, q)
	}
	for _, v := range views[p.kind] {
		v.Address = to("view", v.View)
		p.Views = append(p.Views, v)
	}
	if p.Old {
		p.Side, p.Only = link{to("diff", "side"), side}, link{to("only", "1"), only}
		if side {
			p.Side.Address = to("diff", "")
		}
		if only {
			p.Only.Address = to("only", "")
		}
	}
	p.fillFindings(to)
	limit := newTextLimit()
	for _, x := range textsOf(p.View, before, now) {
		if x.before == x.now && x.now == "" {
			continue
		}
		if !p.Old {
			x.before = x.now
		}
		b := blockOf(limit, x, p.placesIn(x.name, x.now), side && x.before != x.now, only)
		b.Rest = p.ItemPage + "/text?of=" + x.name
		p.Blocks = append(p.Blocks, b)
	}
}

// fillFindings fills in the findings, with links to their places.
func (p *itemView) fillFindings(to func(name, value string) string) {
	severe := false
	for n, f := range p.Tool.Findings {
		_, view := textIn(p.kind, f)
		link := "#" + p.anchor(n)
		if view == "description" && p.View == "summary" {
			view = p.View
		}
		if view != p.View && (view != "summary" || p.View != "description") {
			link = to("view", view) + link
		}
		found := pointer{f.Message, f.Severe, f.Where, link, f.New, view}
		if p.Old && !f.New {
			p.Before = append(p.Before, found)
		} else {
			p.Findings = append(p.Findings, found)
		}
		severe = severe || f.Severe
	}
	if severe && slices.Contains(p.Tool.Actions, approval.ActionApprove) {
		p.NeedsNote = "To approve it, say in the note why: it has a severe finding."
	}
}

// items fills in the changes.
func (p *itemView) items(service *decide.Service, now tool.Definition) {
	change := p.Tool.Change
	if !p.Old { // a new definition: its parameters and results; the view below has its texts
		change = service.Change(tool.Definition{Kind: p.kind}, now)
		change.Items = slices.DeleteFunc(change.Items, func(i decide.ChangeItem) bool {
			if p.kind == tool.Resource {
				return slices.Contains([]string{"uri", "uriTemplate", "name", "title", "description"}, i.What)
			}
			return i.Path == ""
		})
		for i := range change.Items {
			change.Items[i].Risk = "" // everything in it is new
		}
	}
	p.Items = change.Items[:min(len(change.Items), maxRows)]
	p.MoreItem = len(change.Items) - len(p.Items) + change.More
}

// againOf returns the changes since the definition that a person read; nil if that definition is
// not known.
func againOf(service *decide.Service, kind tool.Kind, here string, read, present json.RawMessage) *changedAgain {
	if read == nil {
		return nil
	}
	seen, now := tool.KeptItem(kind, read), tool.KeptItem(kind, present)
	again := &changedAgain{Line: service.Change(seen, now).Line}
	few := &textLimit{now: maxText / 4}
	for _, x := range textsOf("again", seen, now) {
		if x.before != x.now {
			b := blockOf(few, x, nil, false, true)
			b.Rest = here + "/text?of=" + x.name
			again.Blocks = append(again.Blocks, b)
		}
	}
	return again
}
