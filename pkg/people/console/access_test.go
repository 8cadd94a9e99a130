package console_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/console"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token/tokentest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage/usagetest"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A row says who may send requests with one method to one address.
type row struct {
	need   identity.Role // the lowest role that may; NoRole: everybody, even without credentials
	server string        // the item's server, which an approver's rights must include; "": none
	signed bool          // every authenticated person may, even without a role
	own    bool          // only the agent's user may

	// Bodies of the request, as a form and as JSON. In both, the item's values replace $hash, $rev
	// and $id.
	form, json string
}

const (
	anybody  = identity.NoRole
	viewer   = identity.Viewer
	approver = identity.Approver
	operator = identity.Operator
)

// serverRows are the rows of upstream servers and their tools, and of agents and their calls.
func serverRows() map[string]row {
	return map[string]row{
		"GET /admin/servers/{server}/messages": {need: operator},
		"POST /admin/servers/{server}/restart": {need: operator, json: "{}"},
		"POST /admin/servers/{server}/sync":    {need: operator, form: "x=", json: "{}"},

		"GET /admin/add-server": {need: operator},
		"POST /admin/add-server": {
			need: operator, form: "do=write&name=new&url=https://new.example.com/mcp&version=$version",
		},
		"GET /admin/servers/{server}/edit": {need: operator},
		"POST /admin/servers/{server}/edit": {
			need: operator, form: "do=write&url=https://new.example.com/mcp&version=$version",
		},
		"POST /admin/servers/{server}/enable":  {need: operator, form: "version=$version"},
		"POST /admin/servers/{server}/disable": {need: operator, form: "version=$version"},
		"GET /admin/policy":                    {need: operator},
		"POST /admin/policy":                   {need: operator, form: "policy="},

		"GET /admin/audit/check":        {need: viewer},
		"GET /admin/audit/evidence.zip": {need: viewer},
		"GET /admin/agents":             {need: viewer},

		"GET /admin/call": {need: operator},

		"GET /admin/config/mcp_config.json": {need: viewer},
		"GET /admin/config/policy.cedar":    {need: viewer},
		"POST /admin/config/test":           {need: operator, form: "target=" + new(sender).Targets()[0].Key},

		"POST /admin/call": {need: operator, form: "tool=mail:send", json: `{"tool":"fs:read_file"}`},
	}
}

// rows is the table of every address and verb. Add a row for each new route. A GET whose answer
// every viewer may see has the row {need: viewer}.
func rows() map[string]row {
	out := map[string]row{
		"GET /admin":              {need: viewer},
		"GET /admin/{$}":          {need: viewer},
		"GET /admin/me":           {need: viewer},
		"/":                       {need: viewer},
		"GET /admin/openapi.json": {need: viewer},

		"GET /admin/login":          {need: anybody},
		"POST /admin/login":         {need: anybody, form: "key=x"},
		"GET /admin/login/callback": {need: anybody},
		"POST /admin/logout":        {need: anybody, form: "x="},
		"GET /admin/assets/{name}":  {need: anybody},

		"GET /admin/tools":       {need: viewer},
		"POST /admin/tools":      {need: approver, form: "action=block&item=$id+$hash+$rev", json: `{"action":"block","items":[{"id":"$id","hash":"$hash"}]}`},
		"POST /admin/tools/bulk": {need: approver, form: "action=block&item=$id+$hash+$rev"},
		"GET /admin/tools/bulk":  {need: viewer},
		"GET /admin/prompts":     {need: viewer},
		"GET /admin/resources":   {need: viewer},

		"GET /admin/servers":          {need: viewer},
		"GET /admin/servers/{server}": {need: viewer},

		"POST /admin/servers/{server}/sign-in":  {need: operator, form: "x=", json: `{"redirect":"http://127.0.0.1:1/callback"}`},
		"POST /admin/servers/{server}/sign-out": {need: operator, form: "x=", json: "{}"},
		"GET /admin/sign-in/callback":           {need: anybody},
		"POST /admin/sign-in":                   {need: operator, json: `{"state":"x","query":"x"}`},
		"GET /admin/try":                        {need: viewer},
		"GET /admin/usage":                      {need: viewer},
		"POST /admin/usage":                     {need: operator, form: "range=24h", json: `{"range":"24h"}`},
		"GET /admin/config":                     {need: viewer},
		"GET /admin/health":                     {need: viewer},
		"GET /admin/audit":                      {need: viewer},
		"GET /admin/audit.csv":                  {need: viewer},
		"GET /admin/audit.jsonl":                {need: viewer},

		"GET /admin/stop":       {need: viewer},
		"POST /admin/stop":      {need: operator, form: "what=server&server=fs&reason=x&sure=1", json: `{"server":"fs","reason":"x"}`},
		"POST /admin/stop/undo": {need: operator, form: "x=", json: `{"every":true}`},

		"POST /admin/sync":              {need: operator, form: "x=", json: "{}"},
		"POST /admin/approvals/restore": {need: operator, form: "x=", json: "{}"},
		"POST /admin/approvals/accept":  {need: operator, form: "x=", json: "{}"},
		"POST /admin/approvals/backup":  {need: operator, json: "{}"},

		"GET /admin/connect":           {need: viewer},
		"GET /admin/connect/{client}":  {need: viewer},
		"POST /admin/connect/{client}": {need: operator, form: "path=/mcp&name=x&servers=fs&tier=read&days=1"},

		"GET /admin/sessions":              {need: operator},
		"POST /admin/sessions/{id}/revoke": {need: operator, form: "x=", json: "{}"},

		"GET /admin/tokens":              {need: operator},
		"POST /admin/tokens":             {need: operator, form: "name=x&servers=fs&tier=read&days=1", json: `{"name":"x","servers":["fs"],"tiers":["read"],"days":1}`},
		"GET /admin/tokens/{id}/revoke":  {need: operator},
		"POST /admin/tokens/{id}/revoke": {need: operator, form: "x=", json: "{}"},
	}
	maps.Copy(out, ownRows())
	maps.Copy(out, requestRows())
	maps.Copy(out, serverRows())
	for _, kind := range []string{"tool", "prompt", "resource"} {
		at := "/admin/" + kind + "s/{server}/{name}"
		out["GET "+at] = row{need: viewer}
		out["GET "+at+"/text"] = row{need: viewer}
		out["GET "+at+"/history"] = row{need: viewer}
		out["POST "+at] = row{need: viewer, form: "note=mine"} // shows the page again
		for _, verb := range decide.Actions() {
			body := `{"hash":"$hash","rev":$rev}`
			if verb == approval.ActionUndo {
				body = `{"rev":$rev}`
			}
			out["POST "+at+"/"+verb] = row{need: approver, server: "mail", form: "hash=$hash&rev=$rev", json: body}
		}
	}
	return out
}

// ownRows are the rows of forms of people about themselves.
func ownRows() map[string]row {
	return map[string]row{
		"POST /admin/me/keys":          {need: viewer, form: "keys=off"},
		"POST /admin/me/theme":         {need: viewer, form: "theme=dark"},
		"POST /admin/me/revoke":        {need: viewer, form: "id=x"},
		"POST /admin/me/revoke-others": {need: viewer, form: "x="},
	}
}

// requestRows are the rows of requests of agents.
func requestRows() map[string]row {
	return map[string]row{
		"GET /admin/requests":              {need: viewer},
		"GET /admin/requests/{id}":         {need: viewer},
		"POST /admin/requests/{id}":        {need: viewer, form: "reason=mine"}, // shows the page again
		"POST /admin/requests/{id}/decide": {need: approver, server: "mail", form: "verdict=declined&reason=no&hash=$hash", json: `{"verdict":"declined","reason":"no","hash":"$hash"}`},

		"GET /admin/ask/{code}":           {signed: true, need: viewer},
		"POST /admin/ask/{code}":          {signed: true, own: true, need: viewer, form: "ask=1&why=x&for=60", json: `{"why":"x","minutes":60}`},
		"POST /admin/ask/{code}/withdraw": {signed: true, own: true, need: viewer, form: "x=", json: "{}"},
	}
}

// A person is a column of the table.
type person struct {
	name    string
	rights  identity.Rights
	nobody  bool   // without credentials
	subject string // of a person who signed in at the issuer; else ""
}

func people() []person {
	return []person{
		{name: "nobody", nobody: true},
		{name: "without role"},
		{name: "viewer", rights: identity.Rights{Role: viewer}},
		{name: "approver of fs", rights: identity.Rights{Role: approver, Servers: []string{"fs"}}},
		{name: "approver of mail", rights: identity.Rights{Role: approver, Servers: []string{"mail"}}},
		{name: "approver", rights: identity.Rights{Role: approver}},
		{name: "operator", rights: identity.Everything()},
		{name: "signed in at the issuer without a role", subject: bot.Subject},
		{name: "another person without a role", subject: "https://login.example.com 2"},
	}
}

// may reports whether a person may send the request of the row.
func (r row) may(p person) bool {
	switch {
	case r.need == anybody:
		return true
	case r.signed:
		return !p.nobody && (!r.own || p.subject == bot.Subject)
	case p.nobody || p.rights.Role < r.need:
		return false
	}
	return r.server == "" || p.rights.Decides(r.server)
}

// addresses returns all addresses of the pages and of the API.
func addresses(t *testing.T, h *fixture) (pages, api []string) {
	t.Helper()
	pages = console.Patterns(h.Console)
	doc := require.JSON[struct {
		Paths map[string]map[string]json.RawMessage
	}](t, h.Send("/admin/openapi.json", "").Body)
	for path, verbs := range doc.Paths {
		for verb := range verbs {
			api = append(api, strings.ToUpper(verb)+" "+path)
		}
	}
	if len(pages) < 30 || len(api) < 30 {
		t.Fatalf("found %d pages and %d operations, want at least 30 of each", len(pages), len(api))
	}
	return pages, api
}

// A stage is a fixture that has a caller, and every item that the addresses name.
type stage struct {
	*fixture
	who    person
	usage  *usagetest.Asker
	copies copies
	actor  *decide.Actor // nil: an actor with the rights of who
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{fixture: withItems(t)}
	s.Console.Actor = func(*http.Request) (decide.Actor, error) {
		if s.who.nobody {
			return decide.Actor{}, &identity.Error{Kind: identity.Missing}
		}
		if s.actor != nil {
			return *s.actor, nil
		}
		return decide.Actor{Name: "kim", Rights: s.who.rights, Subject: s.who.subject}, nil
	}
	s.who.rights = identity.Everything()
	s.Console.SignIn = &console.SignIn{
		Sessions: signin.NewSessions(signin.NewStore(new(documenttest.Store), nil), tokentest.Key(t), nil), Token: true,
		Check: func(*http.Request, secret.Text) (signin.Person, error) {
			return signin.Person{}, &identity.Error{Kind: identity.Invalid}
		},
	}
	s.usage = &usagetest.Asker{Now: s.Clock.Now}
	s.Decide.Usage, s.Decide.Copier = s.usage, &s.copies
	s.Decide.Servers = upstream.New(nil) // of which no server has run
	s.Decide.Caller, s.Decide.Notices = s.MCP, new(sender)
	s.Decide.Config, s.Decide.Objects = &admintest.ConfigFile{D: s.Fixture}, s.Objects
	s.Decide.Days = auditDays(t, audit.Line{V: 1, Kind: audit.KindCall, Time: s.Clock.Now(), Agent: "ci"})
	s.signsIn(guessedIssuer{}, "k")
	s.keepTokens()
	return s
}

// TestAccess checks each role against each address and verb, with a browser and with a program.
func TestAccess(t *testing.T) {
	all, h := rows(), newStage(t)
	pages, api := addresses(t, h.fixture)
	known := slices.Concat(pages, api, []string{"GET /admin/openapi.json"})
	for _, route := range known {
		if _, ok := all[route]; !ok {
			t.Errorf("%s has no row; add one to rows", route)
		}
	}
	for route, r := range all {
		if !slices.Contains(known, route) {
			t.Errorf("%s has a row, but no handler", route)
			continue
		}
		t.Run(route, func(t *testing.T) {
			for _, html := range []bool{true, false} {
				a := access{T: t, route: route, row: r, html: html}
				a.served = slices.Contains(api, route) && !html || slices.Contains(pages, route) && html && route != "/"
				for _, p := range people() {
					if a.stage = h; r.may(p) && r.need > viewer && strings.HasPrefix(route, "POST") {
						a.stage = newStage(t) // the request may change what the next one needs
					}
					a.check(p)
				}
			}
		})
	}
}

// An access is one cell of the table, checked with its own fixture.
type access struct {
	*testing.T
	*stage
	route  string
	row    row
	html   bool   // the caller is a browser
	sent   string // the address with the item's values
	served bool   // the address exists for this kind of caller
}

// check sends the request as p, and checks the answer and the effect against the row.
func (a *access) check(p person) {
	a.Helper()
	send := a.prepare()
	before := a.trace()
	a.who = p
	got, may := send(), a.row.may(p)
	a.who.nobody, a.who.rights, a.who.subject = false, identity.Everything(), ""
	refused := got.Status == http.StatusUnauthorized || got.Status == http.StatusForbidden || p.nobody && strings.Contains(got.Header.Get("Location"), "admin/login")
	switch {
	case a.row.need == anybody:
		if got.Status == http.StatusForbidden || got.Status == http.StatusUnauthorized && !strings.HasPrefix(a.route, "POST /admin/login") {
			a.Errorf("%s, html %v: %d", p.name, a.html, got.Status)
		}
	case refused == may:
		a.Errorf("%s, html %v: %d %.200s", p.name, a.html, got.Status, got.Body)
	case may && a.served && got.Status >= http.StatusBadRequest && p.name != "approver of fs" && !strings.HasSuffix(a.route, "/me/revoke") &&
		a.route != "POST /admin/sign-in": // only an issuer can make its parameters
		a.Errorf("%s, html %v: allowed, but failed: %d %.300s", p.name, a.html, got.Status, got.Body)
	case !may && p.nobody == (got.Status == http.StatusForbidden):
		a.Errorf("%s, html %v: refused with %d, which is wrong", p.name, a.html, got.Status)
	}
	if after := a.trace(); !may && after != before {
		a.Errorf("%s, html %v: the refused request changed something: %s, before %s", p.name, a.html, after, before)
	}
}

// sample has the item of each kind in an address.
var sample = map[string]string{"tools": "mail:send", "prompts": "mail:prompt:reply", "resources": "mail:resource:mail://inbox"}

// prepare gives the item of the route a state in which the verb has an effect, and returns a
// function that sends the request.
func (a *access) prepare() func() agenttest.Answer {
	a.Helper()
	method, path, ok := strings.Cut(a.route, " ")
	if !ok {
		method, path = http.MethodGet, "/admin/nowhere"
	}
	parts := strings.Split(path, "/")
	item := addressOf(a.T, cmp.Or(sample[parts[min(2, len(parts)-1)]], sample["tools"]))
	verb := parts[len(parts)-1]
	first := map[string]string{"unblock": "block", "enable": "disable", "undo": "disable"}
	switch {
	case first[verb] != "":
		t := admintest.Into[decide.Tool](a.Fixture, item, "")
		if slices.Contains(t.Actions, first[verb]) {
			body := fmt.Sprintf(`{"hash":%q}`, t.Hash)
			admintest.Into[decide.Tool](a.Fixture, item+"/"+first[verb], body)
		}
	case strings.HasPrefix(path, "/admin/sessions/"):
		_, err := a.Console.SignIn.Sessions.Open(a.Context(), personSam, "")
		require.OK(a.T, err)
		all, err := a.Console.SignIn.Sessions.All(a.Context())
		require.OK(a.T, err)
		path = strings.ReplaceAll(path, "{id}", all[0].ID)
	case strings.Contains(path, "/requests/"), strings.Contains(path, "/ask/"):
		path = strings.NewReplacer("{id}", a.Asks(bot, "mail:send", "", ""), "{code}", a.Asks(bot, "mail:send", "", "")).Replace(path)
	case strings.Contains(path, "{id}"):
		made := struct{ ID string }{}
		a.Ask(http.StatusCreated, "/admin/tokens", map[string]any{"name": "ci", "servers": []string{"fs"}, "tiers": []string{"read"}, "days": 1}, &made)
		path = strings.ReplaceAll(path, "{id}", made.ID)
	}
	t := admintest.Into[decide.Tool](a.Fixture, item, "")
	path = strings.NewReplacer("{server}/{name}", strings.Join(strings.Split(item, "/")[3:5], "/"), "{server}", "mail", "{client}", "cursor", "{name}", "style.css", "{$}", "").Replace(path)
	h, body := http.Header{"Accept": {"application/json"}, "Content-Type": {"application/json"}}, a.row.json
	if a.html {
		h, body = http.Header{"Accept": {"text/html"}, "Content-Type": {"application/x-www-form-urlencoded"}}, a.row.form
	}
	stored, err := a.Objects.Get(a.Context(), config.Key, "")
	require.OK(a.T, err)
	body = strings.NewReplacer("$version", object.Version(stored.Data), "$hash", string(t.Hash), "$rev", strconv.FormatInt(t.Record.Rev, 10), "$id", t.ID).Replace(body)
	if strings.HasSuffix(path, "/text") {
		path += "?of=description"
	}
	a.sent = path
	if strings.HasSuffix(path, "/try") {
		path += "?query=send&servers=*"
	}
	return func() agenttest.Answer { return a.Do(method, path, body, h) }
}

// trace returns all decisions, tokens and other effects so far.
func (a access) trace() string {
	a.Helper()
	var out []string
	for _, server := range []string{"fs", "mail", "old"} {
		lines, err := a.Approvals.Audit(context.Background(), server, approval.Cursor{}, 1000)
		require.OK(a.T, err)
		out = append(out, fmt.Sprint(server, len(lines)))
	}
	tokens, err := a.Console.Tokens.Store.Tokens(a.Context())
	require.OK(a.T, err)
	for _, t := range tokens {
		out = append(out, fmt.Sprint(t.ID, t.RevokedAt))
	}
	sessions, err := a.Console.SignIn.Sessions.All(context.Background())
	require.OK(a.T, err)
	asked, err := a.Requests().List(context.Background(), bot.Key())
	require.OK(a.T, err)
	granted, err := a.Requests().Granted(context.Background(), bot.Key())
	require.OK(a.T, err)
	out = append(out, fmt.Sprint(asked.Rev, granted.Rev))
	return strings.Join(append(out, fmt.Sprint(len(a.Loaded), a.usage.Count(), len(sessions), a.copies)), " ")
}

// TestAccessWays checks that another spelling of an address or a verb does not let an approver or a
// viewer do more than their role allows.
func TestAccessWays(t *testing.T) {
	spellings := []string{
		"/admin//tokens", "//admin/tokens", "/admin/./tokens", "/admin/tools/../tokens", "/admin/me/../tokens", "/admin/tokens/", "/admin/tokens//", "/admin/Tokens", "/ADMIN/tokens",
		"/admin/%74okens", "/admin%2ftokens", "/admin/me%2f..%2ftokens", "/admin/me/%2e%2e/tokens", "/admin/tools%2f..%2ftokens", "/admin/tokens%2f", "/admin/tokens;x", "/admin/tokens?", "/admin/me/..%2ftokens",
		"/admin/./../admin/tokens", "/admin/tokens%00", "/admin/tokens/.", "/admin/me//../tokens", `/admin\tokens`, "/admin/me;/../tokens",
	}
	const token, form = `{"name":"x","servers":["fs"],"tiers":["read"],"days":1}`, "name=x&servers=fs&tier=read&days=1"
	for _, p := range people()[1:6] {
		h := newStage(t)
		h.Ask(http.StatusCreated, "/admin/tokens", map[string]any{"name": "known-to-operators", "servers": []string{"fs"}, "tiers": []string{"read"}, "days": 1}, nil)
		before := access{T: t, stage: h}.trace()
		h.who = p
		for _, path := range spellings {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "post", "get", "PROPFIND"} {
				for _, kind := range []string{"text/html", "application/json"} {
					header, body := http.Header{"Accept": {kind}, "Content-Type": {"application/json"}}, token
					if kind == "text/html" {
						header.Set("Content-Type", "application/x-www-form-urlencoded")
						body = form
					}
					for _, override := range []string{"", "POST", "GET"} {
						header.Set("X-HTTP-Method-Override", override)
						header.Set("X-Original-URL", "/admin/tokens")
						a := h.Do(method, path, body, header)
						if a.Status < 300 && method != "HEAD" || strings.Contains(a.Body, "known-to-operators") {
							t.Errorf("%s: %s %s, %s: %d %.200s", p.name, method, path, kind, a.Status, a.Body)
						}
					}
				}
			}
		}
		for _, again := range []string{"/admin/tokens", "/admin/sync", "/admin/approvals/accept"} { // with the field that marks a late form
			if a := h.Submit(again, map[string][]string{"again": {"1"}, "name": {"x"}}); a.Status != http.StatusForbidden && a.Status != http.StatusNotFound && a.Status != http.StatusMethodNotAllowed {
				t.Errorf("%s: %s again: %d", p.name, again, a.Status)
			}
		}
		if after := (access{T: t, stage: h}).trace(); after != before {
			t.Errorf("%s: the requests changed something: %s, before %s", p.name, after, before)
		}
	}
}

// The server of the item decides who may decide, for every spelling of the item's address.
func TestAccessOtherServer(t *testing.T) {
	h := newStage(t)
	hash := h.Hash("mail/send")
	before := access{T: t, stage: h}.trace()
	h.who.rights = identity.Rights{Role: approver, Servers: []string{"fs"}}
	for _, path := range []string{
		"/admin/tools/mail/send/approve", "/admin/tools/fs/../mail/send/approve", "/admin/tools/fs/..%2fmail%2fsend/approve", "/admin/tools/mail/%73end/approve",
		"/admin/tools/%6dail/send/approve", "/admin/tools/mail/send/approve/", "/admin/tools//mail/send/approve", "/admin/tools/fs%2f..%2fmail/send/approve",
	} {
		if a := h.Send(path, approveBody(hash)); a.Status < 300 {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	a := h.Send("/admin/tools", fmt.Sprintf(`{"action":"approve","items":[{"id":"mail:send","hash":%q}]}`, hash))
	if !strings.Contains(a.Body, "you decide about items of fs") || strings.Contains(a.Body, `"done":1`) {
		t.Errorf("together: %s", a.Body)
	}
	if after := (access{T: t, stage: h}).trace(); after != before {
		t.Errorf("the requests changed something: %s, before %s", after, before)
	}
	if r, err := h.Approvals.Get(t.Context(), tool.ID{Server: "mail", Name: "send"}); err != nil || r.State != approval.Pending {
		t.Errorf("got record %+v, %v; want it pending", r, err)
	}
}
