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

// maxForm is the maximum size of a form, in bytes.
const maxForm = 64 << 10

// decideItem carries out the decision of an item's form, and redirects to the next item of the
// queue.
func (c *Console) decideItem(w http.ResponseWriter, r *http.Request, id tool.ID, verb string) {
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
	beside, err := c.o.Service.Neighbours(r.Context(), f, id) // before deciding, which may remove the item from the list
	if err != nil {
		c.failed(w, r, "form", err)
		return
	}
	t, err := c.o.Service.Decide(r.Context(), id, d)
	if err != nil {
		c.review(w, r, id, err)
		return
	}
	// The answer is a redirect, so that a reload does not send the form again.
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

// keepNote shows the page again with the typed note, and decides nothing. The Enter key in the note
// sends this form.
func (c *Console) keepNote(w http.ResponseWriter, r *http.Request, id tool.ID) {
	c.review(w, r, id, nil)
}

// queueQuery returns the queue of an item's page: by default the items that wait. It ignores other
// parameters, because other programs may add some to a shared link.
func queueQuery(r *http.Request) (decide.Filter, error) {
	query := r.URL.Query()
	maps.DeleteFunc(query, func(name string, _ []string) bool { return !slices.Contains(queueParameters, name) })
	f, _, err := decide.ReadQuery(query, 1)
	if err == nil && len(f.Values()) == 0 {
		f = pending(r)
	}
	return f, err
}

// queueParameters choose a queue; flashParameters say what was decided.
var (
	queueParameters = []string{"kind", "status", "state", "server", "tier", "finding", "mine", "q", "sort"}
	flashParameters = []string{"did", "tool", "rev"}
)

// readDecision reads the form of a decision about one item.
func readDecision(form url.Values, verb string) (d decide.Decision, err error) {
	rev, err := strconv.ParseInt(form.Get("rev"), 10, 64)
	if err != nil || rev < 1 {
		return d, decide.Refuse(http.StatusBadRequest, "the form does not say which revision of the record it shows, and nothing was decided")
	}
	return decide.Decision{Action: verb, Hash: tool.Hash(form.Get("hash")), Rev: rev, Note: form.Get(noteField), Tell: form.Get("tell") != "", Shown: decide.ShownOpened}, nil
}

// A flash is the message about a decision that was just made. The address names the decision, and
// the record must confirm it: a forged link shows nothing.
type flash struct {
	Text string
	Undo string // address; "": it cannot be undone
	Rev  int64
}

// setMessage sets on p the message about the decision that the address names.
func (c *Console) setMessage(p *Page, r *http.Request) {
	if f := c.flash(r); f != nil {
		if p.Message = f.Text; f.Undo != "" {
			p.Undo = f
		}
	}
}

// fromHere reports whether r comes from one of our pages, according to the browser. If not, the
// page shows no message about the action in the address, because anybody can forge a link.
func fromHere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin"
}

// flash returns the decision that the address names; nil if there is none, or if it no longer
// applies.
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
	first := did == approval.ActionApprove && by && t.Record.Proposed != nil // the first of two people approved it
	if first {
		is[did], did = true, approval.ActionPropose
	}
	if last := t.Record.Undoes; !is[query.Get("did")] || last != "" && last != did || !fromHere(r) {
		return nil
	}
	out := &flash{Text: pastTense(query.Get("did")) + " " + shownID(id) + ".", Rev: t.Record.Rev}
	if first {
		out.Text = pastTense(did) + " " + shownID(id) + ". It unlocks when another person " +
			"approves it too."
	}
	if !t.Record.UndoUntil.IsZero() {
		maps.DeleteFunc(query, func(name string, _ []string) bool { return !slices.Contains(queueParameters, name) })
		out.Undo = withQuery(toolLink(rootOf(r), id, nil)+"/"+approval.ActionUndo, query)
	}
	return out
}

// inAddress returns an item's id for use in an address. For a resource, whose URI may be long, it
// uses the hash of the id.
func inAddress(id tool.ID) string {
	if id.Kind == tool.Resource {
		id.Name = id.Sum()
	}
	return id.String()
}

// addressed returns the id for a text that [inAddress] returned.
func (c *Console) addressed(r *http.Request, s string) (tool.ID, error) {
	id, err := tool.ParseID(s)
	if err != nil {
		return id, err
	}
	return c.o.Service.Find(r.Context(), id.Kind, id.Server, id.Name)
}

// pastTense returns the past tense of an action, at the start of a sentence.
func pastTense(action string) string {
	return map[string]string{
		approval.ActionApprove: "Approved", approval.ActionPropose: "Approved, as the first of two people,", approval.ActionBlock: "Blocked", approval.ActionUnblock: "Unblocked",
		approval.ActionDisable: "Disabled", approval.ActionEnable: "Enabled", decide.ActionCarry: "Approved", approval.ActionUndo: "Undid the decision about",
	}[action]
}
