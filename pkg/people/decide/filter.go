package decide

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Filter chooses items (tools, prompts, resources) and their order in a list. The zero Filter
// chooses all.
type Filter struct {
	Kind    string     `query:"kind" enum:"tool,prompt,resource" doc:"only items of this kind; templates of resources are resources"`
	Status  string     `query:"status" enum:"callable,server_disabled,disabled_by_config,disabled_by_user,pending_approval,disabled_unknown" doc:"only items with this status"`
	State   string     `query:"state" enum:"new,changed,approved,blocked" doc:"only items whose current definition is in this state"`
	Server  string     `query:"server" doc:"only items of this server"`
	Tier    string     `query:"tier" enum:"read,write,destructive" doc:"only items of this tier; prompts and resources have the tier read"`
	Finding string     `query:"finding" enum:"severe,any,none,hidden,bidi,tag,override,conceal,secrets,before_tools,governs,redirect,unasked,remote,nested,imperative,other_tool,sibling,key_path,context,conversation,markup,letters,url,encoded,size,script" doc:"only items whose definition has this finding"`
	Mine    string     `query:"mine" enum:"yes" doc:"yes: only items that you decide about"`
	Q       string     `query:"q" maxLength:"200" doc:"words; each must be in the id, the title, the description or the name of a parameter or argument"`
	Sort    string     `query:"sort" enum:"risk,id,newest,oldest" doc:"risk: items for which agents ask first, then by server, the highest risk first; newest, oldest: by the last change of the definition. Default: risk if status is pending_approval, else id"`
	For     string     `query:"for" enum:"approve,block,disable,enable,undo,carry" doc:"each item says why you cannot take this action on it now in a request about many items"`
	Shown   ViewMethod `query:"shown" enum:"opened,printed,hash,seen,lock_file" doc:"with for: how you saw the definitions; absent: you did not see them"`
}

// The orders of a list.
const (
	ByRisk   = "risk"
	ByID     = "id"
	ByNewest = "newest"
	ByOldest = "oldest"
)

// The states of an item's current definition in a list.
const (
	StateNew      = "new"     // no definition of the item was approved
	StateChanged  = "changed" // another definition was approved
	StateApproved = "approved"
	StateBlocked  = "blocked"
)

// maxQuery limits the bytes of a search, maxLimit the entries of a page.
const (
	maxQuery = 200
	maxLimit = 200
)

// Statuses returns the values of [Filter.Status], in the order in which people want to see them.
func Statuses() []string {
	return []string{
		string(lock.PendingApproval), string(lock.DisabledByUser), string(lock.DisabledByConfig), string(lock.ServerDisabled), string(lock.DisabledUnknown), Callable,
	}
}

// Kinds returns the values of [Filter.Kind].
func Kinds() []string {
	return []string{tool.Tool.String(), tool.Prompt.String(), tool.Resource.String()}
}

// States returns the values of [Filter.State].
func States() []string { return []string{StateChanged, StateNew, StateBlocked, StateApproved} }

// Tiers returns the values of [Filter.Tier].
func Tiers() []string {
	return []string{tool.Destructive.String(), tool.Write.String(), tool.Read.String()}
}

// Sorts returns the values of [Filter.Sort].
func Sorts() []string { return []string{ByRisk, ByID, ByNewest, ByOldest} }

// parameters returns the fields of f by the names of their query parameters.
func (f *Filter) parameters() map[string]*string {
	return map[string]*string{
		"kind": &f.Kind, "status": &f.Status, "state": &f.State, "server": &f.Server, "tier": &f.Tier, "finding": &f.Finding, "mine": &f.Mine, "q": &f.Q, "sort": &f.Sort,
		"for": &f.For, "shown": (*string)(&f.Shown),
	}
}

// Values returns f as query parameters, without empty ones.
func (f Filter) Values() url.Values {
	out := url.Values{}
	for name, value := range f.parameters() {
		if *value != "" {
			out.Set(name, *value)
		}
	}
	return out
}

// ReadQuery reads the filter and the page from a query. limit is the default page size. A refusal
// names the parameter that is unknown, repeated or has an invalid value. others are the parameters
// that are allowed in addition to [Filter] and [Paging].
func ReadQuery(query url.Values, limit int, others ...string) (f Filter, p Paging, err error) {
	p.Limit = limit
	known := f.parameters()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		value := query[name][0]
		switch field := known[name]; {
		case len(query[name]) > 1:
			return f, p, invalid("%s is given twice; it takes one value", text.Clip(name, 64))
		case field != nil:
			*field = value
		case name == "after":
			p.After = value
		case name == "limit":
			if p.Limit, err = strconv.Atoi(value); err != nil {
				return f, p, invalid("limit is %s; it takes a number from 1 to %d", text.Quote(value, 64), maxLimit)
			}
		case !slices.Contains(others, name):
			names := append(slices.Sorted(maps.Keys(known)), "limit", "after")
			return f, p, invalid("%s is not a parameter of this list; it takes %s", text.Quote(name, 64), strings.Join(names, ", "))
		}
	}
	return f, p, nil
}

// check refuses an invalid value of a parameter, with the parameter's name.
func (f Filter) check(v *state.View) error {
	names := namesOf(v)
	for _, p := range []struct {
		name, value string
		takes       []string
	}{
		{"kind", f.Kind, Kinds()},
		{"status", f.Status, Statuses()},
		{"state", f.State, States()},
		{"tier", f.Tier, Tiers()},
		{"finding", f.Finding, Findings()},
		{"mine", f.Mine, []string{"yes"}},
		{"sort", f.Sort, Sorts()},
		{"for", f.For, bulkActions()},
		{"shown", string(f.Shown), []string{
			string(ShownOpened), string(ShownPrinted), string(ShownHash), string(ShownSeen),
			string(ShownLock),
		}},
		{"server", f.Server, names},
	} {
		if p.value == "" || slices.Contains(p.takes, p.value) {
			continue
		}
		takes := "it takes " + text.List(p.takes, maxNamed)
		switch {
		case p.name == "server" && len(names) == 0:
			takes = "no server is configured"
		case p.name == "server":
			takes = "it takes the name of a configured server: " + text.List(names, maxNamed)
		}
		return invalid("%s cannot be %s; %s", p.name, text.Quote(p.value, 64), takes)
	}
	if len(f.Q) > maxQuery {
		return invalid("q has %d bytes; it takes at most %d", len(f.Q), maxQuery)
	}
	return nil
}

// maxNamed is how many values a refusal lists.
const maxNamed = 30

// check refuses a page size that is out of range.
func (p Paging) check() error {
	if p.Limit < 1 || p.Limit > maxLimit {
		return invalid("limit is %d; it takes a number from 1 to %d", p.Limit, maxLimit)
	}
	return nil
}

// serverFilter returns a function that reports whether f chooses items of a server, in a list for
// a person with these rights; nil if it chooses items of all servers.
func (f Filter) serverFilter(rights identity.Rights) func(server string) bool {
	if f.Mine == "" {
		return nil
	}
	return rights.Decides
}

// IsByServer reports whether the items of a server follow each other in the list. In the order
// [ByRisk], items for which agents ask come before all servers.
func (f Filter) IsByServer() bool { return f.IsQueue() || f.order() == ByID }

// IsQueue reports whether the list begins with the items for which agents ask.
func (f Filter) IsQueue() bool { return f.order() == ByRisk }

// order returns the sort order of the list.
func (f Filter) order() string {
	switch {
	case f.Sort != "":
		return f.Sort
	case f.Status == string(lock.PendingApproval):
		return ByRisk
	}
	return ByID
}

// stateText returns the name of a record's state in a list; "" if there is no record.
func stateText(s approval.State) string {
	switch s {
	case approval.Approved, approval.Changed, approval.Blocked:
		return string(s)
	case approval.Pending:
	}
	return StateNew
}
