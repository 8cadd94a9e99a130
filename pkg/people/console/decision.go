package console

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxForm is the longest form that is read, in bytes.
const maxForm = 64 << 10

// decided carries out the form of the page about an item, and leads on to the next one in the queue.
func (c *Console) decided(w http.ResponseWriter, r *http.Request, id tool.ID, verb string) {
	f, err := queueQuery(r)
	if err != nil {
		c.failed(w, r, "form", err)
		return
	}
	d, err := readDecision(r.PostForm, verb)
	if err != nil {
		c.review(w, r, id, err)
		return
	}
	beside, err := c.o.Service.Neighbours(r.Context(), f, id) // the decision may take the tool off the list
	if err != nil {
		c.failed(w, r, "form", err)
		return
	}
	t, err := c.o.Service.Decide(r.Context(), id, d)
	if err != nil {
		c.review(w, r, id, err)
		return
	}
	// Sent again by a reload, a form would decide again.
	did := url.Values{"did": {verb}, "tool": {inAddress(id)}, "rev": {strconv.FormatInt(t.Record.Rev, 10)}}
	query, root := queueOf(f), rootOf(r)
	for name, value := range did {
		query[name] = value
	}
	to := id
	if beside.Place > 0 && verb != approval.ActionUndo {
		to = beside.Next
	}
	if to == (tool.ID{}) {
		redirectTo(w, http.StatusSeeOther, withQuery(root+"admin/tools", query))
		return
	}
	redirectTo(w, http.StatusSeeOther, toolLink(root, to, query))
}

// keepNote shows the page again with what was typed. It is what the Enter key does in the note, and
// decides nothing.
func (c *Console) keepNote(w http.ResponseWriter, r *http.Request, id tool.ID) {
	c.review(w, r, id, nil)
}

// queueQuery returns the queue in which a page about an item stands: by default, that of what waits.
// Whatever else the address says is no matter here: a link to the page may have gone through others'
// hands.
func queueQuery(r *http.Request) (decide.Filter, error) {
	query := r.URL.Query()
	maps.DeleteFunc(query, func(name string, _ []string) bool { return !slices.Contains(queueParameters, name) })
	f, _, err := decide.ReadQuery(query, 1)
	if err == nil && len(f.Values()) == 0 {
		f = pending(r)
	}
	return f, err
}

// queueParameters are those that choose a queue, flashParameters those that say what was decided.
var (
	queueParameters = []string{"kind", "status", "state", "server", "tier", "finding", "mine", "q", "sort"}
	flashParameters = []string{"did", "tool", "rev"}
)

// readDecision returns what a form says, which is about one item.
func readDecision(form url.Values, verb string) (d decide.Decision, err error) {
	rev, err := strconv.ParseInt(form.Get("rev"), 10, 64)
	if err != nil || rev < 1 {
		return d, decide.Refuse(http.StatusBadRequest, "the form does not say which revision of the record it shows, and nothing was decided")
	}
	return decide.Decision{Action: verb, Hash: tool.Hash(form.Get("hash")), Rev: rev, Note: form.Get(noteField), Tell: form.Get("tell") != "", Shown: decide.ShownOpened}, nil
}

// A flash is what was decided just now. The address says so, and the record confirms it: a link that
// somebody made up shows nothing.
type flash struct {
	Text string
	Undo string // where to; "": it cannot be undone
	Rev  int64
}

// tell shows on p what the address says was decided just now.
func (c *Console) tell(p *Page, r *http.Request) {
	if f := c.flash(r); f != nil {
		if p.Message = f.Text; f.Undo != "" {
			p.Undo = f
		}
	}
}

// fromHere reports whether a page of ours led to r, as far as the browser says. What its address
// says that was done is not believed otherwise: anybody can make up a link.
func fromHere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin"
}

// flash returns what the address says was decided; nil: nothing, or it is not so any more.
func (c *Console) flash(r *http.Request) *flash {
	query := r.URL.Query()
	did := query.Get("did")
	id, err := c.addressed(r, query.Get("tool"))
	if err != nil || !slices.Contains(decide.Actions(), did) {
		return nil
	}
	t, err := c.o.Service.Tool(r.Context(), id)
	if err != nil || t.Record == nil || strconv.FormatInt(t.Record.Rev, 10) != query.Get("rev") {
		return nil
	}
	by := t.Record.By == decide.ActorOf(r.Context()).Name
	is := map[string]bool{
		approval.ActionApprove: by && t.Record.State == approval.Approved, approval.ActionBlock: by && t.Record.State == approval.Blocked,
		approval.ActionUnblock: by && t.Record.State != approval.Blocked, approval.ActionDisable: by && t.Record.Disabled,
		approval.ActionEnable: by && !t.Record.Disabled, approval.ActionUndo: t.Record.UndoUntil.IsZero(),
	}
	first := did == approval.ActionApprove && by && t.Record.Proposed != nil // of two people
	if first {
		is[did], did = true, approval.ActionPropose
	}
	if last := t.Record.Undoes; !is[query.Get("did")] || last != "" && last != did || !fromHere(r) {
		return nil
	}
	out := &flash{Text: past(query.Get("did")) + " " + shownID(id) + ".", Rev: t.Record.Rev}
	if first {
		out.Text = past(did) + " " + shownID(id) + ". It opens when another person approves it too."
	}
	if !t.Record.UndoUntil.IsZero() {
		maps.DeleteFunc(query, func(name string, _ []string) bool { return !slices.Contains(queueParameters, name) })
		out.Undo = withQuery(toolLink(rootOf(r), id, nil)+"/"+approval.ActionUndo, query)
	}
	return out
}

// inAddress returns the id of an item as addresses have it: that of a resource, whose URI may be long,
// has the hash of it.
func inAddress(id tool.ID) string {
	if id.Kind == tool.Resource {
		id.Name = id.Sum()
	}
	return id.String()
}

// addressed reads what [inAddress] returned.
func (c *Console) addressed(r *http.Request, s string) (tool.ID, error) {
	id, err := tool.ParseID(s)
	if err != nil {
		return id, err
	}
	return c.o.Service.Find(r.Context(), id.Kind, id.Server, id.Name)
}

// past returns what an action has done, as a sentence begins with it.
func past(action string) string {
	return map[string]string{
		approval.ActionApprove: "Approved", approval.ActionPropose: "Approved, as the first of two people,", approval.ActionBlock: "Blocked", approval.ActionUnblock: "Unblocked",
		approval.ActionDisable: "Disabled", approval.ActionEnable: "Enabled", decide.ActionCarry: "Approved", approval.ActionUndo: "Took back the decision about",
	}[action]
}
