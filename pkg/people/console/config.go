package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Limits of the config page.
const (
	maxRuleTools = 4 // tools of one rule
	maxExposed   = 20
)

// A configPage shows which of the operator's files are in use, and the faults of the stored
// versions.
type configPage struct {
	Page
	decide.Config
	Files    []filePart
	Others   []filePart
	Warnings []string
	Rows     []ruleRow
	More     struct{ Warnings, Rules int } // rows left out
	Open     string                        // servers for which no rule denies any tool

	Settings []setting
	Targets  []noticeTarget
	Sends    bool // this process sends notices, and knows the last deliveries
}

// A filePart is one part of the state that requests use.
type filePart struct {
	Name string
	decide.Part
	Shown []config.Fault
	More  int // faults left out
}

// A ruleRow is one rule.
type ruleRow struct {
	decide.Rule
	Link  string // to the denied items
	Line  string // address of its line
	Noun  string // for the items that it matches
	Names string
}

// config shows the config and policy in use.
func (c *Console) config(w http.ResponseWriter, r *http.Request) { c.showConfig(w, r, nil) }

// showConfig shows the page of config. If failed is not nil, it shows this error of a form.
func (c *Console) showConfig(w http.ResponseWriter, r *http.Request, failed error) {
	p, root, status := &configPage{Page: Page{Title: "Config", Here: "config"}, Config: c.o.Service.Config(r.Context())}, rootOf(r), http.StatusOK
	s := p.State
	p.Files = []filePart{partOf("mcp_config.json", s.Config), partOf("policy.cedar", s.Policy)}
	p.Others = []filePart{partOf("tool catalog", s.Catalog), partOf("approvals", s.Approvals)}
	p.Warnings = s.Warnings[:min(len(s.Warnings), maxRows)]
	places := c.o.Service.RulePlaces(r.Context())
	p.More.Warnings, p.More.Rules = len(s.Warnings)-len(p.Warnings), max(0, len(p.Rules)-maxRows)
	for _, rule := range p.Rules[:min(len(p.Rules), maxRows)] {
		row := ruleRow{Rule: rule, Noun: nounOf(rule.Kind), Names: text.List(rule.Tools, maxRuleTools)}
		file, line := places(rule.Rule)
		row.Line = fileLink(root, file, line)
		if rule.Always+rule.Some == 0 {
			row.Noun = tool.Tool.String()
		}
		if n := rule.Always + rule.Some; n > len(rule.Tools) {
			row.Names = text.List(rule.Tools[:min(len(rule.Tools), maxRuleTools)], maxRuleTools) + " and " + strconv.Itoa(n-min(len(rule.Tools), maxRuleTools)) + " more"
		}
		if !rule.Allow && rule.Always+rule.Some > 0 {
			row.Link = withQuery(root+"admin/tools", url.Values{}, "status", string(lock.DisabledByConfig), "server", rule.Server, "kind", strings.TrimPrefix(rule.Kind, tool.Tool.String()))
		}
		p.Rows = append(p.Rows, row)
	}
	p.Open = text.List(p.Exposed, maxExposed)
	c.fillSettings(p, r)
	p.testMessage(r)
	if failed != nil {
		e := c.o.Service.Explain(r.Context(), "config", failed)
		status, p.Problem = e.Status, sentence(e.Detail)
	}
	if n, err := strconv.Atoi(r.URL.Query().Get("settled")); err == nil {
		p.Message = "Decided about " + text.Count(n, "approval record") + "." + replayMessage(r.URL.Query())
	}
	c.render(w, r, status, "config", p)
}

func partOf(name string, part decide.Part) filePart {
	shown := part.Faults[:min(len(part.Faults), maxRows)]
	return filePart{name, part, shown, len(part.Faults) - len(shown)}
}

// reconcile returns the handler of a form that decides about all lost records.
func (c *Console) reconcile(how func(context.Context) (decide.Reconciliation, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		done, err := how(r.Context())
		if err != nil {
			c.showConfig(w, r, err)
			return
		}
		to := url.Values{"settled": {strconv.Itoa(done.Count)}}
		for name, n := range map[string]int{"closed": len(done.Closed), "open": len(done.Decide), "unknown": len(done.Unknown), "skipped": done.Faults} {
			if n > 0 {
				to.Set(name, strconv.Itoa(n))
			}
		}
		redirectTo(w, http.StatusSeeOther, "../config?"+to.Encode())
	}
}

// replayMessage describes the actions that a reconciliation found in the audit.
func replayMessage(q url.Values) (message string) {
	for _, part := range []struct{ name, noun, what string }{
		{"closed", "later action", "of the audit locked an item: the lock applies again."},
		{"open", "later action", "of the audit unlocked an item: that has no effect, so decide " +
			"again if the item should be callable."},
		{"unknown", "later action", "of the audit locked an item that the gateway does not know: " +
			"check the item when its server lists it."},
		{"skipped", "place", "of the audit cannot be trusted: an action there that unlocked " +
			"an item has no effect."},
	} {
		if n, err := strconv.Atoi(q.Get(part.name)); err == nil && n > 0 {
			message += " " + text.Count(n, part.noun) + " " + part.what
		}
	}
	return message
}
