package console

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// The limits of the pages about clients, and the defaults of the token form.
const (
	maxEndpoints  = 200
	maxVisitsHere = 8
	connectDays   = "30"
	waitingPoll   = 3  // seconds between polls for the first request
	seenPoll      = 20 // seconds between polls after that
)

// connectPages adds the pages that explain how to connect clients.
func (c *Console) connectPages(mux *http.ServeMux, next http.Handler) {
	mux.Handle("GET /admin/connect", c.pageOr(next, c.clients))
	mux.Handle("GET /admin/connect/{client}", c.pageOr(next, c.client))
	if c.o.Tokens != nil {
		mux.Handle("POST /admin/connect/{client}", formOr(next, c.makeClientToken))
	}
}

// A clientsPage lists the clients with guides, and the clients that have connected.
type clientsPage struct {
	Page
	Clients     []connect.Client
	SeesClients bool // this process sees the clients
	Visits      []connect.Visit
}

// clients shows the clients.
func (c *Console) clients(w http.ResponseWriter, r *http.Request) {
	p := &clientsPage{Page: Page{Title: "Connect a client", Here: "connect"}, Clients: connect.Clients()}
	if seen := c.o.Connect.Seen; seen != nil {
		p.SeesClients, p.Visits = true, seen.Since(time.Time{}, "")
		p.Visits = p.Visits[:min(len(p.Visits), maxVisitsHere)]
	}
	c.render(w, r, http.StatusOK, "connect", p)
}

// A clientPage shows the guide of one client, and waits for its first request.
type clientPage struct {
	Page
	decide.Guide
	Open      template.URL // the guide's link, made of a fixed scheme and escaped text
	Issuer    string
	Tabs      []way
	Auths     []way
	Endpoints []string // their paths
	Left      int      // endpoints that are not shown
	Since     string
	TokenID   string
	Variable  string

	Made    *madeToken
	Export  string     // the line that sets the variable
	Form    *tokenForm // nil if this page creates no token
	Leads   string     // servers of the endpoint
	MayMake bool       // the person may create tokens

	Seen seenPart
}

// A way is one of several choices, with its link.
type way struct {
	Name, Link string
	Here       bool
}

// A seenPart shows whether the client has connected.
type seenPart struct {
	SeesClients bool   // this process sees the clients
	Agent       string // only its requests count; empty means all agents
	Visits      []connect.Visit
	Tried       bool // the page shows the last use of the token, since this process sees no clients
	Used        time.Time
	Trouble     bool // the store of tokens does not answer

	Opened  time.Time
	Address string // URL of this page, for polls
	Every   int    // seconds between polls; 0 means no polling
	Version string
}

// authNames are the names of ways to authenticate.
var authNames = map[connect.Auth]string{
	connect.None: "no credentials", connect.Bearer: "an agent token", connect.OAuth: "a sign-in with a browser", connect.Signed: "a signature of AWS",
}

// client shows one client's page. Only requests after the time in the URL count. A URL without a
// time is redirected to one with the current time.
func (c *Console) client(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	p, err := c.clientPage(r, query)
	if err != nil {
		c.failed(w, r, "connect", err)
		return
	}
	if readSince(p.Since).IsZero() {
		query.Set("since", strconv.FormatInt(c.o.Now().UnixMilli(), 10))
		redirectTo(w, http.StatusSeeOther, "./"+p.ID+"?"+query.Encode())
		return
	}
	w.Header().Set("ETag", `"`+p.Seen.Version+`"`)
	if strings.Contains(r.Header.Get("If-None-Match"), p.Seen.Version) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	c.render(w, r, http.StatusOK, "client", p)
}

// makeClientToken creates the token of the form on a client's page. Only this answer shows the text
// of the token, as on the page of tokens.
func (c *Console) makeClientToken(w http.ResponseWriter, r *http.Request) {
	typed := r.PostForm
	query := url.Values{}
	for _, name := range []string{"path", "since"} {
		query.Set(name, typed.Get(name))
	}
	query.Set("auth", string(connect.Bearer))
	p, err := c.clientPage(r, query)
	if err != nil {
		c.failed(w, r, "connect", err)
		return
	}
	spec := specOf(typed)
	spec.Admin = false // a client needs no admin rights
	made, problem, err := c.createToken(r, spec)
	switch {
	case err != nil:
		c.failed(w, r, "make token", err)
		return
	case problem != "":
		form := formOf(typed)
		p.Problem, p.Form = problem, &form
		c.render(w, r, http.StatusUnprocessableEntity, "client", p)
		return
	}
	query.Set("token", made.ID)
	if p, err = c.clientPage(r, query); err != nil {
		c.failed(w, r, "connect", err)
		return
	}
	p.Made, p.Export, p.Form = made, connect.Export(p.Variable, made.Text), nil
	c.render(w, r, http.StatusCreated, "client", p)
}

// clientPage returns the page of the client in r, with the choices of query.
func (c *Console) clientPage(r *http.Request, query url.Values) (*clientPage, error) {
	ctx := r.Context()
	guide, err := c.o.Service.Guide(ctx, c.o.Connect, r.PathValue("client"), query.Get("path"), connect.Auth(query.Get("auth")))
	if err != nil {
		return nil, err
	}
	may := callerOf(ctx).Rights.Role >= identity.Operator
	p := &clientPage{
		Page: Page{Title: "Connect " + guide.Name, Here: "connect"}, Guide: guide, Open: template.URL(guide.Link), //nolint:gosec // see the field
		Issuer: c.o.Connect.Issuer, Since: query.Get("since"), Variable: connect.DefaultVariable,
		Leads: text.List(guide.Servers, 8), MayMake: may,
	}
	if may {
		p.TokenID = query.Get("token")
	}
	c.addChoices(p, r, query)
	if p.Auth == connect.Bearer && c.o.Tokens != nil && may {
		p.Form = leastToken(guide)
	}
	p.Seen = c.seenPart(r, p, query)
	return p, nil
}

// addChoices adds the tabs, the ways to authenticate and the endpoints, and marks the chosen ones.
func (c *Console) addChoices(p *clientPage, r *http.Request, query url.Values) {
	at := rootOf(r) + "admin/connect/"
	with := func(id, name, value string) string {
		q := url.Values{}
		for _, kept := range []string{"path", "auth", "since", "token"} {
			if v := query.Get(kept); v != "" {
				q.Set(kept, v)
			}
		}
		if name != "" {
			q.Set(name, value)
		}
		return at + id + "?" + q.Encode()
	}
	for _, x := range connect.Clients() {
		p.Tabs = append(p.Tabs, way{x.Name, with(x.ID, "", ""), x.ID == p.ID})
	}
	for _, auth := range c.o.Connect.Auths {
		p.Auths = append(p.Auths, way{authNames[auth], with(p.ID, "auth", string(auth)), auth == p.Auth})
	}
	all := c.o.Service.Endpoints(r.Context())
	p.Left = max(0, len(all)-maxEndpoints)
	p.Endpoints = slices.Clip(all[:len(all)-p.Left])
	if !slices.Contains(p.Endpoints, p.Path) {
		p.Endpoints = append(p.Endpoints, p.Path)
	}
}

// leastToken returns the form of a token with the least rights that an endpoint needs.
func leastToken(g decide.Guide) *tokenForm {
	f := &tokenForm{Name: g.ID, Servers: strings.Join(g.Servers, ", "), Toolsets: g.Toolset, Days: connectDays, Tiers: map[string]bool{"read": true}}
	if g.Toolset == "" {
		f.Servers = "*"
	}
	return f
}

// readSince parses the time after which requests count, in milliseconds. It returns the zero time
// if s is invalid.
func readSince(s string) time.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(n)
}

// seenPart returns the part that shows whether the client has connected since the time in the URL.
func (c *Console) seenPart(r *http.Request, p *clientPage, query url.Values) (s seenPart) {
	s.Opened = readSince(query.Get("since"))
	if s.Opened.IsZero() {
		s.Opened = c.o.Now()
	}
	s.Address = rootOf(r) + "admin/connect/" + p.ID + "?" + query.Encode()
	if p.TokenID != "" && c.o.Tokens != nil {
		t, err := c.o.Tokens.Store.Token(r.Context(), p.TokenID)
		switch {
		case err == nil:
			s.Agent, s.Tried, s.Used = "token:"+t.Name, true, t.LastUsed
		case !errors.Is(err, token.ErrNotFound):
			s.Trouble = true
		}
	}
	if seen := c.o.Connect.Seen; seen != nil {
		s.SeesClients, s.Tried = true, false
		s.Visits = seen.Since(s.Opened, s.Agent)
		s.Visits = s.Visits[:min(len(s.Visits), maxVisitsHere)]
	}
	switch {
	case len(s.Visits) > 0 || s.Tried && !s.Used.IsZero():
		s.Every = seenPoll
	case s.SeesClients || s.Tried:
		s.Every = waitingPoll
	}
	now := c.o.Now()
	sum := sha256.New()
	fmt.Fprint(sum, s.Agent, s.Trouble, ago(now.Sub(s.Used), s.Used))
	for _, v := range s.Visits {
		fmt.Fprint(sum, v.Agent, v.Client, v.Version, v.Protocol, v.Tools, ago(now.Sub(v.At), v.At))
	}
	s.Version = hex.EncodeToString(sum.Sum(nil)[:8])
	return s
}
