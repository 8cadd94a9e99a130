package decide_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// read parses a query and returns its list.
func (f *fixture) read(query string) (decide.Page, error) {
	f.T.Helper()
	q, err := url.ParseQuery(query)
	require.OK(f.T, err)
	filter, p, err := decide.ReadQuery(q, 50)
	if err != nil {
		return decide.Page{}, err
	}
	if got := filter.Values(); q.Get("after") == "" && q.Get("limit") == "" && got.Encode() != clean(q).Encode() {
		f.T.Errorf("%s is written as %s", query, got.Encode())
	}
	return f.service.List(f.ctx, filter, p)
}

// clean returns q without empty values.
func clean(q url.Values) url.Values {
	for name := range q {
		if q.Get(name) == "" {
			q.Del(name)
		}
	}
	return q
}

func TestList(t *testing.T) {
	f := newQueue(t)
	for query, want := range map[string]string{
		"":                                "db:drop db:query db:vacuum git:log git:push git:status web:fetch web:post",
		"status=&server=&q=":              "db:drop db:query db:vacuum git:log git:push git:status web:fetch web:post",
		"status=pending_approval":         "db:drop db:query db:vacuum git:log git:push git:status",
		"sort=risk":                       "db:drop db:query db:vacuum git:log git:push git:status web:post web:fetch",
		"state=changed":                   "db:drop db:query git:log",
		"tier=destructive&sort=newest":    "git:push db:drop web:post",
		"tier=destructive&sort=oldest":    "web:post db:drop git:push",
		"state=approved":                  "web:fetch web:post",
		"state=blocked":                   "",
		"tier=read&server=git":            "git:log git:status",
		"tier=write":                      "db:vacuum",
		"status=callable":                 "web:fetch web:post",
		"q=COMMITS":                       "git:log git:push",
		"q=commits+git:push":              "git:push",
		"q=commits+page":                  "",
		"q=path":                          "", // no tool here has this word
		"status=pending_approval&q=table": "db:drop",
	} {
		page, err := f.read(query)
		require.OK(t, err)
		if diff := cmp.Diff(want, ids(page)); diff != "" || page.Total != len(page.Tools) || page.Next.Next != "" {
			t.Errorf("?%s (-want +got), total %d:\n%s", query, page.Total, diff)
		}
	}
}

// A search also finds words in titles and names of parameters, and ignores case.
func TestListWords(t *testing.T) {
	f := newQueue(t)
	f.Serve("web", `{"name":"fetch","title":"Größe","inputSchema":{"type":"object","properties":{"DryRun":{"type":"string","description":"hidden"}}}}`)
	f.Sync()
	for q, want := range map[string]string{"GRÖSSE": "", "grö": "web:fetch", "GRÖ": "web:fetch", "dryrun": "web:fetch", "dryrun FETCH": "web:fetch", "hidden": "", "  ": "db:drop db:query db:vacuum git:log git:push git:status web:fetch"} {
		page, err := f.read("q=" + url.QueryEscape(q))
		require.OK(t, err)
		if ids(page) != want {
			t.Errorf("q=%q: %s, want %s", q, ids(page), want)
		}
	}
}

func TestListRow(t *testing.T) {
	f := newQueue(t)
	page, err := f.read("q=git:log")
	require.OK(t, err)
	r := f.Record("git:log")
	want := decide.Row{
		ItemName: decide.ItemName{ID: "git:log", Kind: "tool", Server: "git", Name: "log", Address: "/admin/tools/git/log"},
		Status:   "pending_approval", State: "changed", Tier: tool.Read,
		Hash: r.CurrentHash, Rev: r.Rev, Since: r.UpdatedAt, Summary: "Show all commits.", Change: "description +1 word", By: "sync", At: r.At,
	}
	if diff := cmp.Diff([]decide.Row{want}, page.Tools); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Each number of a facet says how many items the list would show with that value. The current value
// of the facet's own filter does not change these numbers.
func TestListFacets(t *testing.T) {
	f := newQueue(t)
	page, err := f.read("status=pending_approval&server=git&q=commits")
	require.OK(t, err)
	got := []string{facet(page.Facets.Status), facet(page.Facets.Server), facet(page.Facets.State), facet(page.Facets.Tier)}
	want := []string{"pending_approval 2", "git 2", "changed 1, new 1", "destructive 1, read 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	page, err = f.read("status=disabled_by_user&server=db")
	require.OK(t, err)
	if got := facet(page.Facets.Status) + "; " + facet(page.Facets.Server); got != "pending_approval 3, disabled_by_user 0; db 0" {
		t.Errorf("filters that no item matches: %s", got)
	}
}

func TestListRefusals(t *testing.T) {
	f := newQueue(t)
	for query, want := range map[string]string{
		"status=open":                   `status cannot be "open"; it takes pending_approval, `,
		"state=open":                    `state cannot be "open"; it takes changed, new, blocked, approved`,
		"tier=all":                      `tier cannot be "all"; it takes destructive, write, read`,
		"sort=name":                     `sort cannot be "name"; it takes risk, id, newest, oldest`,
		"server=x%0Ay":                  `server cannot be "x\ny"; it takes the name of a configured server: db, git, web`,
		"colour=red":                    `"colour" is not a parameter of this list; it takes finding, for, kind, mine, q, server, shown, sort, state, status, tier, limit, after`,
		"status=a&status=":              `status is given twice; it takes one value`,
		"limit=0":                       `limit is 0; it takes a number from 1 to 200`,
		"limit=x":                       `limit is "x"; it takes a number from 1 to 200`,
		"after=x":                       `after is not from a page of this list; begin again without it`,
		"q=" + strings.Repeat("x", 201): `q has 201 bytes; it takes at most 200`,
	} {
		_, err := f.read(query)
		e, ok := errors.AsType[*decide.Error](err)
		if !ok || e.Status != http.StatusUnprocessableEntity || !strings.HasPrefix(e.Detail, want) {
			t.Errorf("?%.40s: %v, want %s", query, err, want)
		}
		if got := f.Problem(http.StatusUnprocessableEntity, "/admin/tools?"+query, ""); got != e.Detail && query != "limit=x" {
			t.Errorf("?%.40s: the API says %q", query, got)
		}
	}
}

// Pages follow each other in every order, even if a person decides about the last tool of a page
// before the next page is read.
func TestListPages(t *testing.T) {
	for _, sort := range decide.Sorts() {
		f := newQueue(t)
		whole, err := f.read("sort=" + sort + "&status=pending_approval")
		require.OK(t, err)
		var got []string
		after := ""
		for {
			page, err := f.read("limit=2&sort=" + sort + "&status=pending_approval&after=" + url.QueryEscape(after))
			require.OK(t, err)
			for _, r := range page.Tools {
				got = append(got, r.ID)
			}
			if after = page.Next.Next; after == "" {
				break
			}
			admintest.Into[decide.Tool](f.Fixture, "/admin/tools/"+strings.Replace(got[len(got)-1], ":", "/", 1)+"/disable", `{}`)
		}
		if diff := cmp.Diff(ids(whole), strings.Join(got, " ")); diff != "" {
			t.Errorf("by %s (-whole +pages):\n%s", sort, diff)
		}
	}
	f := newQueue(t)
	page, err := f.read("limit=1&sort=risk")
	require.OK(t, err)
	if _, err := f.read("limit=1&sort=id&after=" + url.QueryEscape(page.Next.Next)); err == nil {
		t.Error("the list accepts a cursor of another order")
	}
}

// The neighbours of a tool are the tools before and after it in the list, even after it has left
// the list.
func TestNeighbours(t *testing.T) {
	f := newQueue(t)
	filter := decide.Filter{Status: "pending_approval"}
	page, err := f.service.List(f.ctx, filter, decide.Paging{Limit: 50})
	require.OK(t, err)
	at := func(n int) tool.ID {
		if n < 0 || n >= len(page.Tools) {
			return tool.ID{}
		}
		return tool.ID{Server: page.Tools[n].Server, Name: page.Tools[n].Name}
	}
	for n := range page.Tools {
		got, err := f.service.Neighbours(f.ctx, filter, at(n))
		require.OK(t, err)
		if want := (decide.Neighbours{Place: n + 1, Total: len(page.Tools), Previous: at(n - 1), Next: at(n + 1)}); got != want {
			t.Errorf("%s: %+v, want %+v", at(n), got, want)
		}
	}
	for n, r := range page.Tools {
		_, err := f.service.Decide(f.ctx, at(n), decide.Decision{Action: approval.ActionApprove, Hash: r.Hash, Rev: r.Rev})
		require.OK(t, err)
		got, err := f.service.Neighbours(f.ctx, filter, at(n))
		require.OK(t, err)
		if want := (decide.Neighbours{Total: len(page.Tools) - n - 1, Next: at(n + 1)}); got != want {
			t.Errorf("%s, decided: %+v, want %+v", at(n), got, want)
		}
	}
	if got, err := f.service.Neighbours(f.ctx, filter, tool.ID{Server: "db", Name: "gone"}); err != nil || got != (decide.Neighbours{}) {
		t.Errorf("an unknown tool: %+v, %v", got, err)
	}
	if _, err := f.service.Neighbours(f.ctx, decide.Filter{Tier: "x"}, at(0)); err == nil {
		t.Error("Neighbours accepts an unknown value")
	}
}

func TestListWithoutACatalog(t *testing.T) {
	d := admintest.New(t)
	d.Objects.OnGet = func(context.Context, string) error { return errors.New("down") }
	d.Restart()
	d.Open()
	page, err := d.Console.Service.List(t.Context(), decide.Filter{}, decide.Paging{Limit: 50})
	if err != nil || len(page.Tools) != 0 || page.Total != 0 || !slices.Equal(page.Facets.Status, []decide.Facet{}) {
		t.Errorf("%+v, %v", page, err)
	}
}

// Items for which agents ask come first, even on later pages and for the next item of a reviewer.
// Requests for one call do not count.
func TestListAsked(t *testing.T) {
	f := newQueue(t)
	for n, id := range []string{"git:status", "git:status", "web:post"} {
		f.Asks(agentNamed(fmt.Sprint("agent-", n)), id, "", "")
	}
	f.Asks(agentNamed("agent-3"), "db:drop", "", `{"table":"users"}`)
	const want = "git:status db:drop db:query db:vacuum git:log git:push"
	page, err := f.read("status=pending_approval")
	require.OK(t, err)
	if ids(page) != want || page.Tools[0].Asked != 2 || page.Tools[1].Asked != 0 {
		t.Errorf("the queue is %s, with %d askers; want %s", ids(page), page.Tools[0].Asked, want)
	}
	var all []string
	for next := ""; ; next = page.Next.Next {
		page, err = f.read("status=pending_approval&limit=1&after=" + url.QueryEscape(next))
		require.OK(t, err)
		all = append(all, ids(page))
		if page.Next.Next == "" {
			break
		}
	}
	if got := strings.Join(all, " "); got != want {
		t.Errorf("page by page: %s, want %s", got, want)
	}
	queue := decide.Filter{Status: "pending_approval"}
	n, err := f.service.Neighbours(f.ctx, queue, gatewaytest.ID(t, "git:status"))
	if err != nil || n.Place != 1 || n.Next.String() != "db:drop" {
		t.Errorf("around git:status: %+v, %v", n, err)
	}
	if byID, err := f.read("server=git"); err != nil || ids(byID) != "git:log git:push git:status" {
		t.Errorf("by id: %s, %v", ids(byID), err)
	}
}
