package console

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// A setting is a setting of mcp_config.json in words.
type setting struct {
	Name, Text string
	Warning    string // why it has no effect or is not possible; "": it works
	Link       string // to its line; "": the default applies
}

// A noticeTarget is a target of notices.
type noticeTarget struct {
	notify.TargetState
	Link string // to its line
}

// maxPatterns limits the patterns that a setting names.
const maxPatterns = 10

// fillSettings sets the settings in words, and the targets of notices.
func (c *Console) fillSettings(p *configPage, r *http.Request) {
	s, root := c.o.Service.Settings(r.Context()), rootOf(r)
	if s.Config == nil {
		return
	}
	line := func(path string) string { return fileLink(root, "mcp_config.json", s.Line(path)) }
	asks, confirm := "Agents cannot request access to locked tools.", "No call needs a confirmation."
	if s.Asks {
		asks = "Agents may request access to locked tools."
	}
	if list := s.Tools.Confirm; len(list) > 0 {
		confirm = "A person must confirm each call of: " + text.List(list, maxPatterns) + "."
	}
	p.Settings = []setting{
		fourEyesSetting(s, line("review.four_eyes")),
		{"Requests", asks, "", line("gateway.requests")},
		{"Confirm", confirm, "", line("tools.confirm")},
	}
	targets, sends := c.o.Service.NoticeTargets(r.Context())
	p.Sends = sends
	for i, t := range targets {
		p.Targets = append(p.Targets, noticeTarget{t, line("notify[" + strconv.Itoa(i) + "]")})
	}
}

// fourEyesSetting says which approvals need two people, and if nobody can give them.
func fourEyesSetting(s decide.SettingsInUse, link string) setting {
	out := setting{Name: "Four eyes", Text: "Off: one person approves a definition.", Link: link}
	switch s.Review.FourEyes {
	case "off":
		return out
	case "destructive":
		out.Text = "On for destructive tools: two people must approve each of their definitions. " +
			"Both sign in with the issuer. The hints of a server decide which tools are destructive, " +
			"unless annotations sets them. One person approves all other definitions."
	default:
		out.Text = "On for everything: two people must approve each definition of every tool, " +
			"prompt and resource. Both sign in with the issuer."
	}
	if !s.Issuer {
		out.Warning = "Nobody signs in with an issuer here, so nobody can approve these definitions."
	}
	return out
}

// Events returns the events of the target in words.
func (t noticeTarget) Events() string {
	words := "all events"
	if len(t.Notify.Events) < len(config.NotifyEvents()) {
		words = text.List(t.Notify.Events, maxPatterns)
	}
	if len(t.Servers) > 0 {
		words += " of " + text.List(t.Servers, maxPatterns)
	}
	return words
}

// testNotice sends a test message to a target.
func (c *Console) testNotice(w http.ResponseWriter, r *http.Request) {
	t, err := c.o.Service.TestNotice(r.Context(), r.PostForm.Get("target"))
	if err != nil {
		c.showConfig(w, r, err)
		return
	}
	to := url.Values{"tested": {t.Key}}
	redirectTo(w, http.StatusSeeOther, "../config?"+to.Encode()+"#notify")
}

// testMessage shows the result of the last test message to the target that the address names.
func (p *configPage) testMessage(r *http.Request) {
	key := r.URL.Query().Get("tested")
	for _, t := range p.Targets {
		switch {
		case !fromHere(r) || t.Key != key || t.Last == nil || t.Last.Kind != notify.Test:
		case t.Last.Failure != "":
			p.Problem = t.Name + " did not get the test message: " + t.Last.Failure + "."
		default:
			p.Message = "The test message was delivered to " + t.Name + "."
		}
	}
}
