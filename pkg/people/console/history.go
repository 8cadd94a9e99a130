package console

import (
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A historyPage shows what was done about one item.
type historyPage struct {
	Page
	History decide.History
	view    *state.View
	Tool    string // address of the page about it
	pager
	File string // address of all lines of the audit about it
}

// history shows one page of what was done about an item.
func (c *Console) history(w http.ResponseWriter, r *http.Request, id tool.ID) {
	query, err := onlyAfter(r)
	if err != nil {
		c.failed(w, r, "history", err)
		return
	}
	h, err := c.o.Service.History(r.Context(), id, decide.Paging{Limit: maxRows, After: query})
	if err != nil {
		c.failed(w, r, "history", err)
		return
	}
	p := &historyPage{Page: Page{Title: "History of " + shownID(id), Here: "tools"}, History: h, view: c.o.Service.View(r.Context())}
	p.Tool = toolLink(rootOf(r), id, nil)
	p.File = withQuery(rootOf(r)+"admin/audit.jsonl", url.Values{}, "tool", id.String())
	p.pager = pagerOf(p.Tool+"/history", url.Values{}, query, h.Next)
	c.render(w, r, http.StatusOK, "history", p)
}

// A pager leads through the pages of a list.
type pager struct {
	First string // address of the first page; "": this is it
	More  string // address of the next one; "": this is the last
}

// pagerOf returns the links of the page that begins after a cursor, of a list at an address.
func pagerOf(at string, filter url.Values, after string, next decide.Next) (p pager) {
	if after != "" {
		p.First = withQuery(at, filter)
	}
	if next.Next != "" {
		p.More = withQuery(at, filter, "after", next.Next)
	}
	return p
}

// onlyAfter returns the place at which a page of a list begins that has no filter. What else stands in
// its address, others says.
func onlyAfter(r *http.Request, others ...string) (string, error) {
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != "after" && !slices.Contains(others, name) {
			return "", decide.Refuse(http.StatusUnprocessableEntity, text.Quote(name, 64)+" is no parameter of this list; it takes after")
		}
	}
	return query.Get("after"), nil
}

// IsCut reports whether the page does not show all of a note or of a name.
func (p *historyPage) IsCut() bool {
	return slices.ContainsFunc(p.History.Events, func(e decide.Event) bool {
		_, all := readablePrefix(e.Note, maxNote)
		_, named := readablePrefix(e.Actor, maxShort)
		return !all || !named
	})
}

// Did says in words what an event was.
func (p *historyPage) Did(e decide.Event) string {
	return itemEvent(p.view, p.History.ID, e.Action, e.Hash)
}

// itemEvent is event of an action about an item. A definition that was seen for the first time
// waits only where its server's approval mode has it wait, and until somebody decides.
func itemEvent(v *state.View, item, action string, hash tool.Hash) string {
	said := event(action)
	if action != approval.ActionObserve {
		return said
	}
	id, err := tool.ParseID(item)
	if i, ok := v.Find(id); err == nil && ok && v.Tool(i).Definition.Hash == hash && v.Status(i) == lock.PendingApproval {
		said += "; it waits for approval"
	}
	return said
}

// event says in words what an action did.
func event(action string) string {
	if s, ok := events[action]; ok {
		return s
	}
	return action
}

var events = map[string]string{
	approval.ActionBaseline: "approved with the first list of the server",
	approval.ActionObserve:  "seen for the first time",
	approval.ActionChange:   "the definition changed",
	approval.ActionRestore:  "the definition is the approved one again",
	approval.ActionMove:     "the server is at another address, or another program; what was approved before does not count here",
	approval.ActionRename:   "the server has another name; what was decided under the old one holds",
	approval.ActionRecover:  "the store had lost the record; it is back from the catalog",
	approval.ActionRemember: "approved again, as a person approved this definition earlier",
	approval.ActionApprove:  "approved",
	approval.ActionPropose:  "approved as the first of two people; it waited for the second",
	approval.ActionDisable:  "disabled",
	approval.ActionEnable:   "enabled",
	approval.ActionBlock:    "blocked",
	approval.ActionUnblock:  "unblocked",
	approval.ActionUndo:     "took back the last decision",

	audit.ActionLogin: "signed in", audit.ActionLogout: "signed out", audit.ActionSessionRevoked: "ended sessions",
	audit.ActionTokenMade: "made an agent token", audit.ActionTokenRevoked: "revoked an agent token",
	audit.ActionStop: "stopped", audit.ActionStopUndone: "ended the stop of", audit.ActionSync: "had every server asked",
	audit.ActionConfigTaken: "config taken into use", audit.ActionConfigRefused: "config refused",
	audit.ActionPolicyTaken: "policy taken into use", audit.ActionPolicyRefused: "policy refused",
	audit.ActionAsked: "requested access", audit.ActionWithdrawn: "withdrew a request", audit.ActionDecided: "decided a request",
	audit.ActionUnsent: "people could not be notified for a day",
	audit.ActionBackup: "took a copy of the approvals", audit.ActionTakenBack: "took a copy of the approvals back",
	audit.ActionRestored: "settled lost records: what the catalog knew holds", audit.ActionAccepted: "settled lost records: what the store had holds",

	approval.ActionKeepRestored: "settled a lost record: what the catalog knew holds",
	approval.ActionAcceptStore:  "settled a lost record: what the store had holds",
}
