package console

import (
	"net/http"

	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// record keeps an event that stands whether or not it is in the audit; if it is not, the log says
// so.
func (c *Console) record(r *http.Request, l audit.Line) {
	l.Source = hostOf(r.RemoteAddr)
	_ = c.o.Service.Record(r.Context(), l)
}

// recordLogin keeps that somebody signed in with a browser.
func (c *Console) recordLogin(r *http.Request, who signin.Person) {
	c.record(r, audit.Line{Action: audit.ActionLogin, Actor: who.Actor, Note: "by " + who.Way})
}
