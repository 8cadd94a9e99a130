package decide_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
)

// A fixture is a decide service over a gateway in memory.
type fixture struct {
	*admintest.Fixture
	service *decide.Service
	ctx     context.Context // context of a request by ann
	told    *notifier       // receives notices about requests; nil: nobody is notified
}

func newFixture(t testing.TB) *fixture { return fixtureOf(admintest.New(t)) }

func fixtureOf(d *admintest.Fixture) *fixture {
	return &fixture{Fixture: d, service: d.Console.Service, ctx: decide.WithActor(d.T.Context(), decide.Actor{Name: "ann", Rights: identity.Everything()})}
}

// newQueue returns a fixture in which tools of two servers wait for approval: two changed tools of
// db, one changed tool of git, and a new tool of each tier. The two tools of web are approved.
func newQueue(t testing.TB) *fixture {
	t.Helper()
	f := newFixture(t)
	tool := gatewaytest.Tool
	f.Serve("db", tool("drop", "Drop a table.", ""), tool("query", "Run a query.", gatewaytest.ReadOnly))
	f.Serve("git", tool("log", "Show commits.", gatewaytest.ReadOnly))
	f.Serve("web", tool("fetch", "Fetch a page.", gatewaytest.ReadOnly), tool("post", "Send a form.", ""))
	f.Put(config.Key, `{"mcpServers": {
		"db": {"url": "https://db.example.com/mcp"}, "git": {"url": "https://git.example.com/mcp"}, "web": {"url": "https://web.example.com/mcp"}
	}}`)
	f.Forbid("")
	f.Sync()
	f.Serve("db", tool("drop", "Drop a table now.", ""), tool("query", "Run any query.", gatewaytest.ReadOnly), tool("vacuum", "Tidy up.", `"annotations":{"readOnlyHint":false,"destructiveHint":false}`))
	f.Sync()
	f.Serve("git", tool("log", "Show all commits.", gatewaytest.ReadOnly), tool("push", "Push commits.", ""), tool("status", "Show the state.", gatewaytest.ReadOnly))
	f.Sync()
	return f
}

// ids returns the ids of a page.
func ids(p decide.Page) string {
	var out []string
	for _, r := range p.Tools {
		out = append(out, r.ID)
	}
	return strings.Join(out, " ")
}

// facet returns the facets of one filter in one line.
func facet(of []decide.Facet) string {
	var out []string
	for _, f := range of {
		out = append(out, fmt.Sprint(f.Value, " ", f.Tools))
	}
	return strings.Join(out, ", ")
}
