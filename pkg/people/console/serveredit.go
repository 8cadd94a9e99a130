package console

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// A serverFormPage has the form for a new server, or for a server of the config.
type serverFormPage struct {
	Page
	Old     bool // the server is in the config
	Name    string
	Draft   config.Draft
	Headers string // one in each line, as the fields below
	Command string
	Env     string

	Writes  bool                // the gateway can write the config
	Stored  decide.StoredConfig // the file as it is now
	Now     decide.Settings     // of the stored server
	EditURL string
	Entry   string // text to copy; "": nothing was typed so far
	Probe   *decide.ServerProbe
}

// serverFormPages registers the pages that change servers in the config.
func (c *Console) serverFormPages(mux *http.ServeMux, next http.Handler) {
	mux.Handle("GET /admin/add-server", c.pageOr(next, c.serverForm))
	mux.Handle("POST /admin/add-server", formOr(next, c.serverForm))
	mux.Handle("GET /admin/servers/{server}/edit", c.pageOr(next, c.serverForm))
	mux.Handle("POST /admin/servers/{server}/edit", formOr(next, c.serverForm))
	mux.Handle("POST /admin/servers/{server}/enable", formOr(next, c.enableServer(true)))
	mux.Handle("POST /admin/servers/{server}/disable", formOr(next, c.enableServer(false)))
}

// serverForm shows the form. With the fields of a form, it probes the server or writes the config.
func (c *Console) serverForm(w http.ResponseWriter, r *http.Request) {
	ctx, name, typed := r.Context(), r.PathValue("server"), typedOf(r)
	p := &serverFormPage{
		Page: Page{Title: "Add a server", Here: "servers"}, Old: name != "", Name: name,
		Writes: c.o.Service.CanEditConfig(), EditURL: c.o.Service.EditURL(ctx),
	}
	if p.Old {
		p.Title = "Edit " + name
	}
	status := http.StatusOK
	var err error
	if p.Writes || p.Old {
		p.Stored, err = c.o.Service.StoredConfig(ctx)
	}
	if err == nil && p.Old {
		p.Draft, p.Now, err = p.Stored.Server(name)
	}
	if err != nil && typed == nil {
		c.failed(w, r, "server form", err)
		return
	}
	if typed != nil {
		p.read(typed)
	}
	if r.Method == http.MethodPost {
		var done bool
		if err == nil {
			done, err = c.submitServer(w, r, p)
		}
		if done {
			return
		}
		if err != nil {
			e := c.o.Service.Explain(ctx, "server form", err)
			status, p.Problem = e.Status, sentence(e.Detail)
		}
	}
	p.Headers, p.Env = strings.Join(p.Draft.Headers, "\n"), strings.Join(p.Draft.Env, "\n")
	p.Command = strings.Join(p.Draft.Command, "\n")
	c.render(w, r, status, "serverform", p)
}

// submitServer probes or writes the server of a form. It reports whether it answered the request.
func (c *Console) submitServer(
	w http.ResponseWriter, r *http.Request, p *serverFormPage,
) (done bool, err error) {
	ctx := r.Context()
	if p.Entry, err = decide.EntryText(p.Name, p.Draft); err != nil {
		return false, err
	}
	if r.PostForm.Get("do") != "write" {
		probe, err := c.o.Service.Probe(ctx, p.Name, p.Draft, p.Old)
		if err == nil {
			p.Probe = &probe
		}
		return false, err
	}
	edited, err := c.o.Service.SaveServer(ctx, p.Name, p.Draft, p.Old, r.PostForm.Get("version"))
	if err != nil {
		return false, err
	}
	did := "added"
	if p.Old {
		did = "edited"
	}
	c.configWritten(w, r, p.Name, did, edited)
	return true, nil
}

// read sets the fields of the form.
func (p *serverFormPage) read(form url.Values) {
	field := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	lines := func(name string) (out []string) {
		for line := range strings.Lines(form.Get(name)) {
			if line = strings.TrimSpace(line); line != "" {
				out = append(out, line)
			}
		}
		return out
	}
	if !p.Old {
		p.Name = field("name")
	}
	p.Draft = config.Draft{
		URL: field("url"), Headers: lines("headers"), Command: lines("command"), Env: lines("env"),
		Cwd: field("cwd"), Approval: field("approval"),
	}
}

// configWritten redirects to the page of a server after a change of the config.
func (c *Console) configWritten(
	w http.ResponseWriter, r *http.Request, name, did string, edited decide.EditedConfig,
) {
	to := rootOf(r) + "admin/servers"
	if edited.Listed {
		to += "/" + url.PathEscape(name)
	}
	if !edited.Changed {
		did = "same"
	}
	to = withQuery(to, url.Values{"did": {did}}, "audit", auditIs[edited.Recorded])
	redirectTo(w, http.StatusSeeOther, to)
}

// configMessage returns the texts about a change of the config, which the address names.
func configMessage(r *http.Request) (message, problem string) {
	query := r.URL.Query()
	if !fromHere(r) {
		return "", ""
	}
	what := map[string]string{
		"added":    "The server is in mcp_config.json now.",
		"edited":   "The server is changed in mcp_config.json.",
		"enabled":  "The server is enabled in mcp_config.json.",
		"disabled": "The server is disabled in mcp_config.json.",
	}[query.Get("did")]
	switch {
	case query.Get("did") == "same":
		return "mcp_config.json already said that. Nothing was changed.", ""
	case what == "":
		return "", ""
	case query.Get("audit") == "lost":
		problem = notAudited
	}
	return what + " A copy of the old file is beside it. The gateway uses the change within " +
		"seconds.", problem
}

// enableServer returns the handler that enables or disables a server in the config.
func (c *Console) enableServer(on bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name, did := r.PathValue("server"), "disabled"
		if on {
			did = "enabled"
		}
		edited, err := c.o.Service.EnableServer(r.Context(), name, on, r.PostForm.Get("version"))
		if err != nil {
			e := c.o.Service.Explain(r.Context(), "enable a server", err)
			c.showServer(w, r, e.Status, sentence(e.Detail))
			return
		}
		c.configWritten(w, r, name, did, edited)
	}
}
