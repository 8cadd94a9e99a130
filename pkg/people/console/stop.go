package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
)

// How much of what is stopped, and of what can be, stands on a page.
const (
	maxBanner  = 3   // stops that the banner tells of
	maxChoices = 300 // servers, and agents, that are offered
)

// A stopPage shows what is stopped, and stops more.
type stopPage struct {
	Page
	Stops   []stop.Stop
	People  int  // stops of people, which can be undone here
	Unread  bool // what people stopped cannot be read
	Acts    bool // the person may stop things
	Servers []string
	Agents  []string
	What    string // that is chosen: all, server, agent
	stop.Target
	Reason string
}

// A stopConfirmPage asks whether something is to be stopped.
type stopConfirmPage struct {
	Page
	stop.Target
	What, Reason string
	decide.Reach
}

// stopPages adds the pages of the emergency stop.
func (c *Console) stopPages(mux *http.ServeMux, next http.Handler) {
	mux.Handle("GET /admin/stop", c.pageOr(next, c.stops))
	mux.Handle("POST /admin/stop", formOr(next, c.stop))
	mux.Handle("POST /admin/stop/undo", formOr(next, c.undoStop))
}

// stops shows what is stopped.
func (c *Console) stops(w http.ResponseWriter, r *http.Request) {
	p := &stopPage{}
	if fromHere(r) {
		p.Message, p.Problem = stopSaid(r.URL.Query())
	}
	c.showStops(w, r, http.StatusOK, p, lateOf(r))
}

// auditIs says in an address whether what was done is in the audit.
var auditIs = map[bool]string{false: "lost"}

// notAudited tells of an event without its line.
const notAudited = "This was done, but its line could not be written to the audit. The gateway's log has it."

// stopSaid says what was done, by the address that led here.
func stopSaid(query url.Values) (message, problem string) {
	message = map[string]string{
		"stopped": "It is stopped. The next call is refused in every process, searches show it within 2 seconds, and calls that run are cancelled within about one.",
		"already": "It was stopped already, and stays as it was: agents are told who was first, and why.",
		"undone":  "It is undone. The next call goes through if nothing else stops or locks the tool; searches show it within 2 seconds.",
		"none":    "Nobody had stopped anything that can be undone here. Nothing was changed.",
	}[query.Get("did")]
	if message != "" && query.Get("audit") == "lost" {
		problem = notAudited
	}
	return message, problem
}

// showStops completes and writes the page; typed is what a form holds.
func (c *Console) showStops(w http.ResponseWriter, r *http.Request, status int, p *stopPage, typed url.Values) {
	ctx := r.Context()
	all, err := c.o.Service.Stops(ctx)
	if err != nil {
		_ = c.o.Service.Explain(ctx, "stops", err) // which logs it
		p.Unread = true
	}
	p.Stops = all.Stops
	for _, s := range all.Stops {
		if s.By != "" {
			p.People++
		}
	}
	p.Title, p.Here = "Emergency stop", "stop"
	p.Acts = c.o.Service.CanStop() && callerOf(ctx).Rights.Role >= identity.Operator
	if p.Acts {
		for _, s := range c.o.Service.View(ctx).Servers() {
			p.Servers = append(p.Servers, s.Config.Name)
		}
		ids, err := c.o.Service.Callers(ctx)
		if err != nil { // they are suggestions
			_ = c.o.Service.Explain(ctx, "agents", err)
		}
		p.Servers, p.Agents = p.Servers[:min(len(p.Servers), maxChoices)], ids[:min(len(ids), maxChoices)]
	}
	t, what := targetOf(typed)
	p.Target, p.What, p.Reason = t, cmp.Or(what, "server"), typed.Get("reason")
	c.render(w, r, status, "stop", p)
}

// targetOf returns what a form is about, and which of the three it chooses.
func targetOf(form url.Values) (t stop.Target, what string) {
	switch what = form.Get("what"); what {
	case "all":
		t.All = true
	case "server":
		t.Server = form.Get("server")
	case "agent":
		t.Agent = form.Get("agent")
	default:
		what = ""
	}
	return t, what
}

// stop asks whether something is to be stopped, or stops it once that was said.
func (c *Console) stop(w http.ResponseWriter, r *http.Request) {
	t, what := targetOf(r.PostForm)
	reason := r.PostForm.Get("reason")
	if r.PostForm.Get("sure") == "" {
		reach, err := c.o.Service.Reach(r.Context(), t, reason)
		if err != nil {
			c.stopFailed(w, r, err)
			return
		}
		c.render(w, r, http.StatusOK, "stopconfirm", &stopConfirmPage{
			Page: Page{Title: "Stop " + t.String() + "?", Here: "stop"}, Target: t, What: what, Reason: strings.TrimSpace(reason), Reach: reach,
		})
		return
	}
	done, err := c.o.Service.Stop(r.Context(), t, reason)
	if err != nil {
		c.stopFailed(w, r, err)
		return
	}
	c.stopDone(w, "./stop", done, "stopped", "already")
}

// undoStop undoes one stop, or all.
func (c *Console) undoStop(w http.ResponseWriter, r *http.Request) {
	var done decide.Stopped
	var err error
	if t, what := targetOf(r.PostForm); what != "" {
		done, err = c.o.Service.UndoStop(r.Context(), t)
	} else {
		done, err = c.o.Service.UndoStops(r.Context())
	}
	if err != nil {
		c.stopFailed(w, r, err)
		return
	}
	c.stopDone(w, "../stop", done, "undone", "none")
}

// stopDone leads to the page, which says what was done.
func (c *Console) stopDone(w http.ResponseWriter, to string, done decide.Stopped, did, nothing string) {
	if !done.Changed {
		did = nothing
	}
	to = withQuery(to, url.Values{}, "did", did, "audit", auditIs[done.Recorded])
	redirectTo(w, http.StatusSeeOther, to)
}

// stopFailed shows the page, with what was typed, and why nothing was done.
func (c *Console) stopFailed(w http.ResponseWriter, r *http.Request, err error) {
	e := c.o.Service.Explain(r.Context(), "stop", err)
	p := &stopPage{}
	p.Problem = sentence(e.Detail)
	c.showStops(w, r, e.Status, p, r.PostForm)
}

// stopBanner tells on every page what is stopped, who did it and why.
func stopBanner(all []stop.Stop) []notice {
	if len(all) == 0 {
		return nil
	}
	var parts []string
	for _, s := range slices.Clone(all)[:min(len(all), maxBanner)] {
		parts = append(parts, s.String()+" "+s.Note())
	}
	if more := len(all) - maxBanner; more > 0 {
		parts = append(parts, text.Count(more, "stop")+" more")
	}
	return []notice{{"Emergency stop", strings.Join(parts, " · "), "stop", "See what is stopped"}}
}
