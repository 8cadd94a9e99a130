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

// A historyPage shows the events of one item.
type historyPage struct {
	Page
	History decide.History
	view    *state.View
	Tool    string // address of the item's page
	pager
	File string // address of all audit lines about the item
}

// history shows one page of an item's events.
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
	First string // address of the first page; "": this is the first
	More  string // address of the next page; "": this is the last
}

// pagerOf returns the links of a page of a list, which starts after the cursor.
func pagerOf(at string, filter url.Values, after string, next decide.Next) (p pager) {
	if after != "" {
		p.First = withQuery(at, filter)
	}
	if next.Next != "" {
		p.More = withQuery(at, filter, "after", next.Next)
	}
	return p
}

// onlyAfter returns the cursor of a list without filters. It accepts only the parameter "after" and
// the parameters in others.
func onlyAfter(r *http.Request, others ...string) (string, error) {
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != "after" && !slices.Contains(others, name) {
			return "", decide.Refuse(http.StatusUnprocessableEntity, text.Quote(name, 64)+" is not a parameter of this list; use only the parameter \"after\"")
		}
	}
	return query.Get("after"), nil
}

// IsCut reports whether the page shows only a part of a note or a name.
func (p *historyPage) IsCut() bool {
	return slices.ContainsFunc(p.History.Events, func(e decide.Event) bool {
		_, all := readablePrefix(e.Note, maxNote)
		_, named := readablePrefix(e.Actor, maxShort)
		return !all || !named
	})
}

// Did describes an event in words.
func (p *historyPage) Did(e decide.Event) string {
	return itemEvent(p.view, p.History.ID, e.Action, e.Hash)
}

// itemEvent describes an action about an item. For a definition that a sync saw for the first time,
// it adds that the definition still waits, if so.
func itemEvent(v *state.View, item, action string, hash tool.Hash) string {
	description := event(action)
	if action != approval.ActionObserve {
		return description
	}
	id, err := tool.ParseID(item)
	if i, ok := v.Find(id); err == nil && ok && v.Tool(i).Definition.Hash == hash && v.Status(i) == lock.PendingApproval {
		description += "; it waits for approval"
	}
	return description
}

// event describes an action in words.
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
	approval.ActionMove:     "the server has another address or program; earlier approvals do not apply to it",
	approval.ActionRename:   "the server has another name; decisions under the old name still apply",
	approval.ActionRecover:  "the store had lost the record; it was restored from the catalog",
	approval.ActionRemember: "approved again, because a person approved this definition earlier",
	approval.ActionApprove:  "approved",
	approval.ActionPropose:  "approved as the first of two people; it waited for the second",
	approval.ActionDisable:  "disabled",
	approval.ActionEnable:   "enabled",
	approval.ActionBlock:    "blocked",
	approval.ActionUnblock:  "unblocked",
	approval.ActionUndo:     "undid the last decision",

	audit.ActionLogin: "signed in", audit.ActionLogout: "signed out", audit.ActionSessionRevoked: "ended sessions",
	audit.ActionTokenMade: "made an agent token", audit.ActionTokenRevoked: "revoked an agent token",
	audit.ActionStop: "stopped", audit.ActionStopUndone: "ended the stop of", audit.ActionSync: "synced servers",
	audit.ActionConfigTaken: "config applied", audit.ActionConfigRefused: "config refused",
	audit.ActionPolicyTaken: "policy applied", audit.ActionPolicyRefused: "policy refused",
	audit.ActionAsked: "requested access", audit.ActionWithdrawn: "withdrew a request", audit.ActionDecided: "decided a request",
	audit.ActionConnected:    "signed the gateway in to",
	audit.ActionDisconnected: "ended the gateway's sign-in at",
	audit.ActionEnded:        "the gateway's sign-in ended at", audit.ActionRenewed: "renewed the token of",
	audit.ActionRestarted: "restarted", audit.ActionServerAdded: "added to the config",
	audit.ActionServerChanged: "changed in the config", audit.ActionServerEnabled: "enabled",
	audit.ActionServerDisabled: "disabled", audit.ActionServerProbed: "started a probe of",
	audit.ActionUnsent:       "people could not be notified for a day",
	audit.ActionNoticeTested: "sent a test message",
	audit.ActionBackup:       "made a copy of the approvals",
	audit.ActionTakenBack:    "restored the approvals from a copy",
	audit.ActionRestored:     "decided about lost records: the catalog's versions apply", audit.ActionAccepted: "decided about lost records: the store's versions apply",

	approval.ActionKeepRestored: "decided about a lost record: the catalog's version applies",
	approval.ActionAcceptStore:  "decided about a lost record: the store's version applies",
}
