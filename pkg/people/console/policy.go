package console

import (
	"net/http"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// A policyPage previews an edited policy.
type policyPage struct {
	Page
	Text    string
	Faults  []decide.Cause
	Shown   bool // there is a preview
	Changes []policyChange
	Rules   []policyChange
}

// A policyChange is a kind of change, with what changes in that way.
type policyChange struct {
	What  string
	Names []string
	More  int
}

// policy shows the policy, and what an edited one would change.
func (c *Console) policy(w http.ResponseWriter, r *http.Request) {
	p := &policyPage{Page: Page{Title: "Policy", Here: "config"}}
	status, typed := http.StatusOK, typedOf(r)
	var err error
	if typed == nil {
		if p.Text, err = c.o.Service.PolicyText(r.Context()); err != nil {
			c.failed(w, r, "policy", err)
			return
		}
	} else {
		p.Text = strings.ReplaceAll(typed.Get("policy"), "\r\n", "\n")
	}
	if r.Method == http.MethodPost {
		d, err := c.o.Service.PreviewPolicy(r.Context(), p.Text)
		if p.Shown = err == nil; err != nil {
			e := c.o.Service.Explain(r.Context(), "policy", err)
			status, p.Problem = e.Status, sentence(e.Detail)
			p.Faults = e.Parts[:min(len(e.Parts), maxRows)]
		} else {
			p.Rules = changesOf(
				policyChange{What: "Added rules", Names: d.Rules.Added},
				policyChange{What: "Removed rules", Names: d.Rules.Removed},
				policyChange{What: "Changed rules", Names: d.Rules.Changed})
			p.Changes = changesOf(
				policyChange{What: "Denied to every agent", Names: d.Tools.Denied},
				policyChange{What: "Denied to some agents", Names: d.Tools.DeniedSome},
				policyChange{What: "No longer denied", Names: d.Tools.Freed},
				policyChange{What: "Now denied only to some agents", Names: d.Tools.FreedSome})
		}
	}
	c.render(w, r, status, "policy", p)
}

// changesOf returns the changes that have names, each with a bounded list.
func changesOf(all ...policyChange) (out []policyChange) {
	for _, change := range all {
		if n := len(change.Names); n > 0 {
			change.Names, change.More = change.Names[:min(n, maxRows)], max(0, n-maxRows)
			out = append(out, change)
		}
	}
	return out
}
