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

// Limits of a page that shows stops.
const (
	maxBanner  = 3   // stops in the banner
	maxChoices = 300 // servers, and agents, to choose from
)

// A stopPage shows the current stops, and the form for a new one.
type stopPage struct {
	Page
	Stops   []stop.Stop
	People  int  // stops of people, which can be undone here
	Unread  bool // the stops of people cannot be read
	Acts    bool // this person may stop things
	Servers []string
	Agents  []string
	What    string // the selection: all, server or agent
	stop.Target
	Reason string
}

// A stopConfirmPage asks to confirm a stop.
type stopConfirmPage struct {
	Page
	stop.Target
	What, Reason string
	decide.Reach
}

// stopPages registers the pages of the emergency stop.
func (c *Console) stopPages(mux *http.ServeMux, next http.Handler) {
	mux.Handle("GET /admin/stop", c.pageOr(next, c.stops))
	mux.Handle("POST /admin/stop", formOr(next, c.stop))
	mux.Handle("POST /admin/stop/undo", formOr(next, c.undoStop))
}

// stops shows the current stops.
func (c *Console) stops(w http.ResponseWriter, r *http.Request) {
	p := &stopPage{}
	if fromHere(r) {
		p.Message, p.Problem = stopMessage(r.URL.Query())
	}
	typed := lateOf(r)
	if agent := r.URL.Query().Get("agent"); agent != "" && typed == nil { // a link on the page of the agent
		typed = url.Values{"what": {"agent"}, "agent": {agent}}
	}
	c.showStops(w, r, http.StatusOK, p, typed)
}

// auditIs has the value of the query parameter audit, by whether the audit has the event.
var auditIs = map[bool]string{false: "lost"}

// notAudited reports an event whose line is not in the audit.
const notAudited = "This was done, but its line could not be written to the audit. The gateway's log has it."

// stopMessage returns the message about the action that the address names.
func stopMessage(query url.Values) (message, problem string) {
	message = map[string]string{
		"stopped": "It is stopped. Every process refuses the next call, searches show the stop " +
			"within 2 seconds, and running calls are cancelled within about a second.",
		"already": "It was stopped already, and nothing changed: agents see the name and the " +
			"reason of the first stop.",
		"undone": "The stop is undone. The next call goes through if nothing else stops or " +
			"locks the tool. Searches show the change within 2 seconds.",
		"none": "There was no stop that can be undone here. Nothing was changed.",
	}[query.Get("did")]
	if message != "" && query.Get("audit") == "lost" {
		problem = notAudited
	}
	return message, problem
}

// showStops completes and writes the page; typed has the fields of a form.
func (c *Console) showStops(w http.ResponseWriter, r *http.Request, status int, p *stopPage, typed url.Values) {
	ctx := r.Context()
	all, err := c.o.Service.Stops(ctx)
	if err != nil {
		_ = c.o.Service.Explain(ctx, "stops", err) // Explain logs the error
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
		if err != nil { // the agents are only suggestions
			_ = c.o.Service.Explain(ctx, "agents", err)
		}
		p.Servers, p.Agents = p.Servers[:min(len(p.Servers), maxChoices)], ids[:min(len(ids), maxChoices)]
	}
	t, what := targetOf(typed)
	p.Target, p.What, p.Reason = t, cmp.Or(what, "server"), typed.Get("reason")
	c.render(w, r, status, "stop", p)
}

// targetOf returns the target of a form, and which of the three options it selects.
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

// stop asks to confirm a stop, or stops the target after the confirmation.
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

// undoStop undoes one stop, or all stops.
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

// stopDone redirects to the page with a message about the action.
func (c *Console) stopDone(w http.ResponseWriter, to string, done decide.Stopped, did, nothing string) {
	if !done.Changed {
		did = nothing
	}
	to = withQuery(to, url.Values{}, "did", did, "audit", auditIs[done.Recorded])
	redirectTo(w, http.StatusSeeOther, to)
}

// stopFailed shows the page with the typed fields and the error.
func (c *Console) stopFailed(w http.ResponseWriter, r *http.Request, err error) {
	e := c.o.Service.Explain(r.Context(), "stop", err)
	p := &stopPage{}
	p.Problem = sentence(e.Detail)
	c.showStops(w, r, e.Status, p, r.PostForm)
}

// stopBanner returns the notice that every page shows about the current stops, with names and
// reasons.
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
