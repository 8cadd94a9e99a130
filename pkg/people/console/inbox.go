package console

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Limits of the inbox.
const (
	maxChanged   = 12 // items that changed
	maxGroups    = 20 // servers with new items
	maxTroubles  = 10 // servers in trouble
	maxDecisions = 8  // last decisions
	maxUpgrades  = 5  // servers with another version
)

// An inboxPage shows the items that wait for a decision.
type inboxPage struct {
	Page
	inbox
	Version string // of the content, for polls
	Queue   string // address of all waiting items
	First   string // address of the first waiting item
	Last    []decision
}

// An inbox is the content of the page, without times that change with each request.
type inbox struct {
	askedFor
	Changed   []toolRow
	ChangedN  int
	ChangedAt string // address of the queue of changed items
	New       []group
	NewN      int
	NewAt     string
	NewRest   int // servers with new items that the page does not list
	Upgrades  []upgrade
	Servers   int // enabled servers
	Up        int
	Troubles  []trouble
	MoreDown  int
	Reasons   []state.Reason
	Counts    lock.Counts // of tools
	Noun      string      // for the waiting items
}

// Total returns how many items wait.
func (in inbox) Total() int { return in.ChangedN + in.NewN }

// A group is the number of new items of a server.
type group struct {
	Server, Link string
	Tools        int
}

// An upgrade is a server with another version, and how many unchanged definitions wait only for
// that reason.
type upgrade struct {
	Server, Before, Now string
	Tools               int
}

// upgradesOf returns the first servers with another version. The page lists the other servers after
// somebody decides about these servers.
func upgradesOf(list decide.Page) (out []upgrade) {
	for _, up := range list.Upgrades[:min(len(list.Upgrades), maxUpgrades)] {
		out = append(out, upgrade{up.Server, text.List(up.Before, 2), up.Now, len(up.Tools)})
	}
	return out
}

// A trouble is a server that does not load.
type trouble struct {
	Name string
	decide.Outcome
}

// A decision is a line of the audit.
type decision struct {
	approval.Entry
	Short   string // id of the item
	Link    string
	History string // address of the item's events
}

// inbox shows the inbox. It answers 204 to a poll that names the current version.
func (c *Console) inbox(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery != "" { // a link of an earlier version
		redirectTo(w, http.StatusSeeOther, "./admin/tools?"+r.URL.RawQuery)
		return
	}
	in, err := c.waiting(r)
	if err != nil {
		c.failed(w, r, "inbox", err)
		return
	}
	p := &inboxPage{Page: Page{Title: "Inbox"}, inbox: in, Version: versionOf(in)}
	w.Header().Set("ETag", `"`+p.Version+`"`)
	if strings.Contains(r.Header.Get("If-None-Match"), p.Version) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	root := rootOf(r)
	p.Queue = withQuery(root+"admin/tools", pending(r).Values())
	queue, err := c.o.Service.List(r.Context(), pending(r), decide.Paging{Limit: 1})
	if err != nil {
		c.failed(w, r, "inbox", err)
		return
	}
	for _, first := range queue.Tools {
		p.First = withQuery(root[:len(root)-1]+first.Address, pending(r).Values())
	}
	lines, err := c.o.Service.Decisions(r.Context(), 4*maxDecisions)
	if err != nil {
		c.failed(w, r, "inbox", err)
		return
	}
	for _, e := range lines {
		if isEvent(e) && len(p.Last) < maxDecisions {
			p.Last = append(p.Last, decision{
				e, shownID(e.ID()), toolLink(root, e.ID(), url.Values{"sort": {decide.ByID}}),
				toolLink(root, e.ID(), nil) + "/history",
			})
		}
	}
	c.render(w, r, http.StatusOK, "inbox", p)
}

// pending returns the queue of the items that wait for the caller. It has all waiting items if the
// caller cannot decide.
func pending(r *http.Request) decide.Filter {
	f := decide.Filter{Status: string(lock.PendingApproval)}
	if rights := callerOf(r.Context()).Rights; rights.Role == identity.Approver && rights.Servers != nil {
		f.Mine = "yes"
	}
	return f
}

// isEvent reports whether a line of the audit is about a person's action.
func isEvent(e approval.Entry) bool { return e.Actor != approval.Sync && e.Tool != "" }

// waiting returns the current content of the inbox.
func (c *Console) waiting(r *http.Request) (in inbox, err error) {
	ctx, root := r.Context(), rootOf(r)
	changed, fresh := pending(r), pending(r)
	changed.State, fresh.State = decide.StateChanged, decide.StateNew
	v := c.o.Service.View(ctx)
	list, err := c.o.Service.List(ctx, changed, decide.Paging{Limit: maxChanged})
	if err != nil {
		return in, err
	}
	in.ChangedN, in.ChangedAt = list.Total, withQuery(root+"admin/tools", changed.Values())
	for _, row := range list.Tools {
		in.Changed = append(in.Changed, rowFor(root, row, changed))
	}
	news, err := c.o.Service.List(ctx, fresh, decide.Paging{Limit: 1})
	if err != nil {
		return in, err
	}
	in.Upgrades = upgradesOf(news)
	in.Noun = tool.Tool.String()
	if list.Mixed {
		in.Noun = nounOf("")
	}
	in.NewN, in.NewAt = news.Total, withQuery(root+"admin/tools", fresh.Values())
	for _, s := range news.Facets.Server {
		if len(in.New) == maxGroups {
			in.NewRest++
			continue
		}
		filter := fresh
		filter.Server = s.Value
		in.New = append(in.New, group{s.Value, withQuery(root+"admin/tools", filter.Values()), s.Tools})
	}
	for i := range v.Tools().All() {
		in.Counts.Add(v.Status(i))
	}
	for _, s := range v.Servers() {
		if !s.Config.Enabled {
			continue
		}
		in.Servers++
		s.Outcome.Started = time.Time{} // otherwise the inbox would change each second
		switch o := decide.OutcomeOf(s.Config.Name, s.Outcome); {
		case o.Status == "available":
			in.Up++
		case len(in.Troubles) < maxTroubles:
			o.DurationMS, o.CheckedAt = 0, time.Time{} // differ after each sync
			in.Troubles = append(in.Troubles, trouble{s.Config.Name, o})
		default:
			in.MoreDown++
		}
	}
	in.Reasons, in.askedFor = c.o.Service.Health(ctx).Reasons, c.askedOf(r)
	return in, nil
}

// versionOf returns a hash of the content as its version.
func versionOf(shown any) string {
	data, err := json.Marshal(shown)
	if err != nil {
		return "" // plain data always marshals
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
