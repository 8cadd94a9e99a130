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

// A Filter chooses items (tools, prompts, resources) and says in which order they are listed. The zero
// Filter chooses all.
type Filter struct {
	Kind    string `query:"kind" enum:"tool,prompt,resource" doc:"only items of this kind; templates of resources are resources"`
	Status  string `query:"status" enum:"callable,server_disabled,disabled_by_config,disabled_by_user,pending_approval,disabled_unknown" doc:"only items with this status"`
	State   string `query:"state" enum:"new,changed,approved,blocked" doc:"only items whose current definition is in this state"`
	Server  string `query:"server" doc:"only items of this server"`
	Tier    string `query:"tier" enum:"read,write,destructive" doc:"only items of this tier; prompts and resources have the tier read"`
	Finding string `query:"finding" enum:"severe,any,none,hidden,bidi,tag,override,conceal,secrets,before_tools,governs,redirect,unasked,remote,nested,imperative,other_tool,sibling,key_path,context,conversation,markup,letters,url,encoded,size,script" doc:"only items in whose definition this was found"`
	Mine    string `query:"mine" enum:"yes" doc:"yes: only items that you decide about"`
	Q       string `query:"q" maxLength:"200" doc:"words that must all be in the id, the title, the description or the name of a parameter or argument"`
	Sort    string `query:"sort" enum:"risk,id,newest,oldest" doc:"risk: what needs the closest look first; newest, oldest: by when the definition last changed. risk if status is pending_approval, else id"`
	For     string `query:"for" enum:"approve,block,disable,enable,carry" doc:"each item says what keeps you from carrying this out on it now, together with others"`
	Shown   Shown  `query:"shown" enum:"opened,printed,hash,seen,lock_file" doc:"with for: how you were shown the definitions; absent: you were not"`
}

// The orders of a list.
const (
	ByRisk   = "risk"
	ByID     = "id"
	ByNewest = "newest"
	ByOldest = "oldest"
)

// What a list calls the state of an item's current definition.
const (
	StateNew      = "new"     // no definition of the item is approved
	StateChanged  = "changed" // another one is
	StateApproved = "approved"
	StateBlocked  = "blocked"
)

// maxQuery is how many bytes of a search are read, maxLimit how many entries a page has at most.
const (
	maxQuery = 200
	maxLimit = 200
)

// Statuses returns what [Filter.Status] can be, in the order in which people want to see them.
func Statuses() []string {
	return []string{
		string(lock.PendingApproval), string(lock.DisabledByUser), string(lock.DisabledByConfig), string(lock.ServerDisabled), string(lock.DisabledUnknown), Callable,
	}
}

// Kinds returns what [Filter.Kind] can be.
func Kinds() []string {
	return []string{tool.Tool.String(), tool.Prompt.String(), tool.Resource.String()}
}

// States returns what [Filter.State] can be.
func States() []string { return []string{StateChanged, StateNew, StateBlocked, StateApproved} }

// Tiers returns what [Filter.Tier] can be.
func Tiers() []string {
	return []string{tool.Destructive.String(), tool.Write.String(), tool.Read.String()}
}

// Sorts returns what [Filter.Sort] can be.
func Sorts() []string { return []string{ByRisk, ByID, ByNewest, ByOldest} }

// parameters returns the fields of f by the names of their query parameters.
func (f *Filter) parameters() map[string]*string {
	return map[string]*string{
		"kind": &f.Kind, "status": &f.Status, "state": &f.State, "server": &f.Server, "tier": &f.Tier, "finding": &f.Finding, "mine": &f.Mine, "q": &f.Q, "sort": &f.Sort,
		"for": &f.For, "shown": (*string)(&f.Shown),
	}
}

// Values returns f as the parameters of a query, without those that are empty.
func (f Filter) Values() url.Values {
	out := url.Values{}
	for name, value := range f.parameters() {
		if *value != "" {
			out.Set(name, *value)
		}
	}
	return out
}

// ReadQuery reads the filter and the page that a query asks for; limit is the default of the page's.
// A parameter that is not known, stands there twice or cannot have its value is refused by name. What
// names are known beside those of a list, others says.
func ReadQuery(query url.Values, limit int, others ...string) (f Filter, p Paging, err error) {
	p.Limit = limit
	known := f.parameters()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		value := query[name][0]
		switch field := known[name]; {
		case len(query[name]) > 1:
			return f, p, unfit("%s stands there twice; it takes one value", text.Clip(name, 64))
		case field != nil:
			*field = value
		case name == "after":
			p.After = value
		case name == "limit":
			if p.Limit, err = strconv.Atoi(value); err != nil {
				return f, p, unfit("limit is %s; it takes a number from 1 to %d", text.Quote(value, 64), maxLimit)
			}
		case !slices.Contains(others, name):
			names := append(slices.Sorted(maps.Keys(known)), "limit", "after")
			return f, p, unfit("%s is no parameter of this list; it takes %s", text.Quote(name, 64), strings.Join(names, ", "))
		}
	}
	return f, p, nil
}

// check refuses a value that a parameter cannot have, by name.
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
		return unfit("%s is %s, which it cannot be; %s", p.name, text.Quote(p.value, 64), takes)
	}
	if len(f.Q) > maxQuery {
		return unfit("q has %d bytes; it takes at most %d", len(f.Q), maxQuery)
	}
	return nil
}

// maxNamed is how many values a refusal names.
const maxNamed = 30

// check refuses a page of a size that no list has.
func (p Paging) check() error {
	if p.Limit < 1 || p.Limit > maxLimit {
		return unfit("limit is %d; it takes a number from 1 to %d", p.Limit, maxLimit)
	}
	return nil
}

// about returns the servers of whose items f chooses any, in a list that is asked for by somebody with
// these rights; nil: of all.
func (f Filter) about(rights identity.Rights) func(server string) bool {
	if f.Mine == "" {
		return nil
	}
	return rights.Decides
}

// order returns the order that f asks for.
func (f Filter) order() string {
	switch {
	case f.Sort != "":
		return f.Sort
	case f.Status == string(lock.PendingApproval):
		return ByRisk
	}
	return ByID
}

// stateText returns what a list calls the state of a record; "" is that of none.
func stateText(s approval.State) string {
	switch s {
	case approval.Approved, approval.Changed, approval.Blocked:
		return string(s)
	case approval.Pending:
	}
	return StateNew
}
