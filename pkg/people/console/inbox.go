package console

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
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

// How much of each part the inbox shows.
const (
	maxChanged   = 12 // items that changed
	maxGroups    = 20 // servers with new items
	maxTroubles  = 10 // servers in trouble
	maxDecisions = 8  // last decisions
	maxUpgrades  = 5  // servers that are another version
)

// An inboxPage is what waits for a person.
type inboxPage struct {
	Page
	inbox
	Version string // of what the inbox says, for polls
	Queue   string // address of all that waits
	First   string // address of the first that waits
	Last    []decision
}

// An inbox is what the page is made of, but for what only gets older.
type inbox struct {
	askedFor
	Changed   []toolRow
	ChangedN  int
	ChangedAt string // address of the queue of what changed
	New       []group
	NewN      int
	NewAt     string
	NewRest   int // servers with new items that are not shown
	Upgrades  []upgrade
	Servers   int // that are enabled
	Up        int
	Troubles  []trouble
	MoreDown  int
	Reasons   []state.Reason
	Counts    lock.Counts // of tools
	Noun      string      // of what waits
	first     string      // address of the first of the queue: what changed comes first in it
}

// Total returns how many items wait.
func (in inbox) Total() int { return in.ChangedN + in.NewN }

// A group is how many new items a server has.
type group struct {
	Server, Link string
	Tools        int
}

// An upgrade is a server that is another version, and how many unchanged definitions wait for that alone.
type upgrade struct {
	Server, Before, Now string
	Tools               int
}

// upgradesOf returns the first of the servers that are another version: the others come when these are
// decided about.
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
	History string // address of what was done about it
}

// inbox shows what waits. A poll that names what it has already is answered 204.
func (c *Console) inbox(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery != "" { // as links of an earlier version had it
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
	if in.first != "" {
		p.First = withQuery(root[:len(root)-1]+in.first, pending(r).Values())
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

// pending is the queue: what waits for who asks. Who decides about nothing sees all that waits.
func pending(r *http.Request) decide.Filter {
	f := decide.Filter{Status: string(lock.PendingApproval)}
	if rights := callerOf(r.Context()).Rights; rights.Role == identity.Approver && rights.Servers != nil {
		f.Mine = "yes"
	}
	return f
}

// isEvent reports whether a person did what a line of the audit says.
func isEvent(e approval.Entry) bool { return e.Actor != approval.Sync && e.Tool != "" }

// waiting returns what the inbox says now.
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
	if first := slices.Concat(list.Tools, news.Tools); len(first) > 0 {
		in.first = first[0].Address
	}
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
		of := fresh
		of.Server = s.Value
		in.New = append(in.New, group{s.Value, withQuery(root+"admin/tools", of.Values()), s.Tools})
	}
	for i := range v.Tools().All() {
		in.Counts.Add(v.Status(i))
	}
	for _, s := range v.Servers() {
		if !s.Config.Enabled {
			continue
		}
		in.Servers++
		s.Outcome.Started = time.Time{} // or the inbox would change each second
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

// versionOf returns a name for what the inbox says.
func versionOf(shown any) string {
	data, err := json.Marshal(shown)
	if err != nil {
		return "" // plain data always has a JSON form
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
