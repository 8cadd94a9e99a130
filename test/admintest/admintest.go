// Package admintest runs everything below /admin in memory, in front of a gateway of package
// gatewaytest: the console and the JSON API, over stores in memory.
package admintest

import (
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/admin"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/console"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit/audittest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/stop"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Headers of a browser.
const (
	Browser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	Form    = "Content-Type: application/x-www-form-urlencoded"
)

// A Fixture is an in-memory gateway with the console and the JSON API of /admin. After a change of
// the options, [Fixture.Open] makes a new handler.
type Fixture struct {
	*gatewaytest.Gateway
	agenttest.Client
	T       testing.TB
	Console console.Options
	Decide  decide.Options
	Deeds   *audittest.Mem // audit events that do not concern an item
}

// Config is the config of [New].
const Config = `{"mcpServers": {
	"fs": {"url": "https://fs.example.com/mcp", "disabled_tools": ["format_*"]},
	"mail": {"url": "https://mail.example.com/mcp", "approval": "manual"},
	"old": {"url": "https://old.example.com/mcp", "enabled": false}
}}`

const policy = `@id("no-drafts")
@reason("Drafts are private.")
@contact("#mail-owners")
forbid (principal, action, resource == Tool::"mail:read_drafts");
`

// New returns a fixture after its first sync. fs is approved, except for one tool that the config
// denies. The tools of mail wait for approval, except for one tool that a policy denies. Every user
// is ann.
func New(t testing.TB) *Fixture {
	t.Helper()
	d := &Fixture{Gateway: gatewaytest.New(t), T: t, Deeds: new(audittest.Mem)}
	d.Clock.Set(d.Clock.Now(), time.Millisecond)
	d.Serve("fs",
		`{"name":"read_file","description":"Reads a file. Twice.","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}`,
		`{"name":"format_disk"}`)
	d.Serve("mail", `{"name":"send","x":9007199254740993}`, `{"name":"read_drafts"}`)
	d.Put(config.Key, Config)
	d.Forbid(policy)
	log := slog.New(slog.NewTextHandler(d.Log, nil))
	d.Decide = decide.Options{Events: d.Deeds, BaseURL: gatewaytest.BaseURL, Version: "v1.2.3", Now: d.Clock.Now, Log: log}
	d.Console = console.Options{
		Actor: func(*http.Request) (decide.Actor, error) {
			return decide.Actor{Name: "ann", Rights: identity.Everything()}, nil
		},
		BaseURL: gatewaytest.BaseURL, Now: d.Clock.Now, Log: log,
		Connect: &connect.Gateway{BaseURL: gatewaytest.BaseURL, Auths: []connect.Auth{connect.Bearer, connect.OAuth}, Issuer: "https://login.example.com", Seen: connect.NewVisits(d.Clock.Now)},
	}
	d.Client = agenttest.Client{T: t, URL: gatewaytest.BaseURL}
	d.Open()
	d.Sync()
	return d
}

// WithMany is [New] with this many servers (server-000, …), each with this many tools.
func WithMany(t testing.TB, servers, tools int) *Fixture {
	t.Helper()
	d := New(t)
	d.ByName = map[string]*gatewaytest.Server{}
	var entries []string
	for s := range servers {
		name := fmt.Sprintf("server-%03d", s)
		entries = append(entries, fmt.Sprintf(`%q:{"url":"https://%s.example.com/mcp","approval":"off"}`, name, name))
		var definitions []string
		for n := range tools {
			definitions = append(definitions, fmt.Sprintf(`{"name":"tool_%05d","description":"Does what tool %d does."}`, n, n))
		}
		d.Serve(name, definitions...)
	}
	d.Put(config.Key, `{"mcpServers":{`+strings.Join(entries, ",")+`}}`)
	d.Sync()
	return d
}

// Open makes a new handler from the options.
func (d *Fixture) Open() { d.OpenWith(d.Syncer) }

// OpenWith does the same as Open, with another syncer.
func (d *Fixture) OpenWith(syncer decide.Syncer) {
	d.Decide.Syncer, d.Decide.SearchExplainer = syncer, d.MCP
	d.Decide.Stops, d.Decide.Running = stop.NewStore(d.Approvals), d.MCP.Running
	d.Decide.Requests = d.Requests()
	service := decide.New(d.States, d.Approvals, d.Decide)
	if d.Console.Tokens != nil {
		d.Console.Tokens.Record = service.RecordToken
	}
	var sessions *signin.Sessions
	if d.Console.SignIn != nil {
		sessions = d.Console.SignIn.Sessions
	}
	d.Console.Service, d.Console.API = service, admin.New(service, d.Console.Tokens, d.Console.Connect, sessions)
	d.Transport = agenttest.InProcess(console.New(d.Console))
}

// RestoreOldStore disables fs:read_file and syncs, then restores the approval store from before the
// decision. The catalog then has a decision that the store lacks.
func (d *Fixture) RestoreOldStore() {
	d.T.Helper()
	older := d.Approvals.Copy()
	Into[decide.Tool](d, "/admin/tools/fs/read_file/disable", `{}`)
	d.Sync()
	d.Approvals = older
	d.Restart()
	d.Open()
}

// Into sends a request, checks that the status is 200, and returns the parsed response.
func Into[T any](d *Fixture, path, body string) T {
	d.T.Helper()
	a := d.Send(path, body)
	if a.Status != http.StatusOK {
		d.T.Fatalf("%s: %d %s", path, a.Status, a.Body)
	}
	return require.JSON[T](d.T, a.Body)
}

// Problem sends a request, checks that it fails with status, and returns the detail of the problem.
func (d *Fixture) Problem(status int, path, body string, headers ...string) string {
	d.T.Helper()
	a := d.Send(path, body, headers...)
	if a.Status != status || a.Header.Get("Content-Type") != "application/problem+json" {
		d.T.Errorf("%s %s = %d %s %s, want %d", path, body, a.Status, a.Header.Get("Content-Type"), a.Body, status)
		return ""
	}
	p := require.JSON[struct {
		Status        int
		Title, Detail string
	}](d.T, a.Body)
	if p.Status != status || p.Title != http.StatusText(status) || p.Detail == "" {
		d.T.Errorf("%s: problem %+v", path, p)
	}
	return p.Detail
}

// Status returns the status of a tool in the state of this process, without a refresh.
func (d *Fixture) Status(id string) lock.Status {
	d.T.Helper()
	v := d.States.Load(d.T.Context()).View(d.Agent)
	i, ok := v.Find(gatewaytest.ID(d.T, id))
	if !ok {
		d.T.Fatalf("%s is not in the catalog", id)
	}
	return v.Status(i)
}

// Hash returns the hash of the tool's definition as the API shows it.
func (d *Fixture) Hash(path string) tool.Hash {
	d.T.Helper()
	return Into[decide.Tool](d, "/admin/tools/"+path, "").Hash
}

// Page opens an address as a browser does.
func (d *Fixture) Page(status int, path string) string {
	d.T.Helper()
	w := d.Send(path, "", Browser)
	if w.Status != status || !strings.HasPrefix(w.Header.Get("Content-Type"), "text/html") {
		d.T.Fatalf("%s = %d %s %s", path, w.Status, w.Header.Get("Content-Type"), w.Body)
	}
	return w.Body
}

// Submit sends a form as a browser does.
func (d *Fixture) Submit(path string, form url.Values, headers ...string) agenttest.Answer {
	d.T.Helper()
	return d.Send(path, form.Encode(), append([]string{Browser, Form, "Origin: " + d.URL, "Sec-Fetch-Site: same-origin"}, headers...)...)
}

// Field returns the value of a page's first hidden field of this name.
func (d *Fixture) Field(page, name string) string {
	d.T.Helper()
	m := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(page)
	if m == nil {
		d.T.Fatalf("the page has no field %s: %s", name, page)
	}
	return html.UnescapeString(m[1])
}
