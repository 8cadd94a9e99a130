package admin_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/test/admintest"
)

// withMany returns a fixture with many servers and tools.
func withMany(t *testing.T, servers, tools int) *fixture {
	return &fixture{admintest.WithMany(t, servers, tools)}
}

// A listing is a page of any list.
type listing struct {
	Tools   []decide.Row
	Servers []decide.Server
	Entries []approval.Entry
	Total   int
	Next    string
}

// walk reads all pages of a list, and calls between before every page except the first.
func walk(h *fixture, path string, limit int, between func()) (ids []string, pages int) {
	h.T.Helper()
	after := ""
	if !strings.Contains(path, "?") {
		path += "?"
	}
	for {
		got := admintest.Into[listing](h.Fixture, fmt.Sprintf("%s&limit=%d&after=%s", path, limit, url.QueryEscape(after)), "")
		for _, x := range got.Tools {
			ids = append(ids, x.ID)
		}
		for _, x := range got.Servers {
			ids = append(ids, x.Name)
		}
		for _, x := range got.Entries {
			ids = append(ids, fmt.Sprint(x.Server, ":", x.Tool, " ", x.Rev))
		}
		if n := len(got.Tools) + len(got.Servers) + len(got.Entries); n > limit {
			h.T.Fatalf("a page has %d entries, want at most %d", n, limit)
		}
		if pages++; got.Next == "" {
			return ids, pages
		}
		after = got.Next
		between()
	}
}

func TestPaging(t *testing.T) {
	h := withMany(t, 3, 7)
	all := admintest.Into[listing](h.Fixture, "/admin/tools?limit=200", "")
	if all.Total != 21 || len(all.Tools) != 21 || all.Next != "" {
		t.Fatalf("%d of %d tools, next %q", len(all.Tools), all.Total, all.Next)
	}
	var want []string
	for _, x := range all.Tools {
		want = append(want, x.ID)
	}
	for limit, pages := range map[int]int{1: 21, 4: 6, 7: 3, 20: 2, 21: 1, 200: 1} {
		got, n := walk(h, "/admin/tools?sort=id", limit, func() {})
		if diff := cmp.Diff(want, got); diff != "" || n != pages {
			t.Errorf("limit %d: %d pages, want %d (-want +got):\n%s", limit, n, pages, diff)
		}
	}
	if got, n := walk(h, "/admin/tools?server=server-001", 3, func() {}); len(got) != 7 || n != 3 || got[0] != "server-001:tool_00000" {
		t.Errorf("for one server: %v in %d pages", got, n)
	}
	if got, n := walk(h, "/admin/servers", 2, func() {}); !slices.Equal(got, []string{"server-000", "server-001", "server-002"}) || n != 2 {
		t.Errorf("servers: %v in %d pages", got, n)
	}
	if got := admintest.Into[listing](h.Fixture, "/admin/servers?limit=1&after="+url.QueryEscape(admintest.Into[listing](h.Fixture, "/admin/servers?limit=1", "").Next), ""); got.Servers[0].Name != "server-001" || got.Servers[0].Tools.Callable != 7 {
		t.Errorf("the second server = %+v", got.Servers)
	}
}

// No tool is skipped or repeated if other tools are added or removed between two pages.
func TestPagingOverAChange(t *testing.T) {
	h := withMany(t, 2, 6)
	steps := []func(){
		func() {
			h.ByName["server-000"].Tools = append([]string{`{"name":"a_new_one"}`}, h.ByName["server-000"].Tools...)
		}, // before the tools on the first page
		func() { h.ByName["server-000"].Tools = h.ByName["server-000"].Tools[4:] }, // tools on the first page, including its last
		func() { h.ByName["server-001"].Tools = append(h.ByName["server-001"].Tools, `{"name":"zzz"}`) },
	}
	got, _ := walk(h, "/admin/tools?sort=id", 3, func() {
		if len(steps) > 0 {
			steps[0]()
			steps = steps[1:]
			h.Sync()
		}
	})
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("not sorted, or with duplicates: %v", got)
	}
	for _, id := range []string{"server-000:tool_00005", "server-001:tool_00000", "server-001:tool_00005", "server-001:zzz"} {
		if !slices.Contains(got, id) {
			t.Errorf("%s is missing in %v", id, got)
		}
	}
}

func TestPagingRefusals(t *testing.T) {
	h := withMany(t, 2, 3)
	tools := admintest.Into[listing](h.Fixture, "/admin/tools?limit=1", "").Next
	for _, path := range []string{
		"/admin/tools?limit=0", "/admin/servers?status=callable", "/admin/audit?who=ann", "/admin/audit?kind=x", "/admin/audit?since=yesterday", "/admin/audit.csv?until=x", "/admin/audit.jsonl?after=x", "/admin/tools?limit=201", "/admin/tools?limit=-1", "/admin/servers?limit=201", "/admin/tools?after=%21", "/admin/tools?after=c2VydmVyLTAwMA",
		"/admin/servers?after=" + tools, "/admin/tools?after=" + strings.Repeat("A", 3000),
		"/admin/audit?limit=201", "/admin/audit?after=" + tools, "/admin/audit?after=" + base64.RawURLEncoding.EncodeToString([]byte("audit\x00yesterday\x00a\x00b")),
	} {
		h.Problem(http.StatusUnprocessableEntity, path, "")
	}
}
