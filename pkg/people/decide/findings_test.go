package decide_test

import (
	"fmt"
	"net/http"
	"reflect"
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

// Two definitions of git:status with findings, for one reason each.
const (
	poisoned = `{"name":"status","description":"Show the state.\u202e","annotations":{"readOnlyHint":true}}`
	pushy    = `{"name":"status","description":"Show the state. See https://docs.acme.io/doc for more.","annotations":{"readOnlyHint":true}}`
)

func TestListFindings(t *testing.T) {
	f := newQueue(t)
	f.ByName["git"].Tools[2] = poisoned
	f.Serve("web", gatewaytest.Tool("fetch", "Fetch a page.", gatewaytest.ReadOnly), gatewaytest.Tool("post", "Send a form to https://forms.acme.io/form.", ""))
	f.Sync()
	page, err := f.read("status=pending_approval")
	require.OK(t, err)
	if got := ids(page); !strings.HasPrefix(got, "git:status git:log git:push web:post ") { // the severe finding is first, although it is new and only reads
		t.Errorf("the queue is %s", got)
	}
	if r := page.Tools[0]; r.Findings == 0 || len(r.Severe) == 0 {
		t.Errorf("row = %+v", r)
	}
	if got := facet(page.Facets.Finding); !strings.HasPrefix(got, "severe 1, any 2, none 5, ") {
		t.Errorf("facets: %s", got)
	}
	for query, want := range map[string]string{
		"finding=severe":         "git:status",
		"finding=any":            "git:status web:post",
		"finding=url":            "web:post",
		"finding=script":         "",
		"finding=none&tier=read": "db:query git:log web:fetch",
	} {
		page, err := f.read(query)
		require.OK(t, err)
		if ids(page) != want {
			t.Errorf("?%s: %s, want %s", query, ids(page), want)
		}
	}
}

// A filter accepts exactly the values in the OpenAPI document.
func TestFilterDocument(t *testing.T) {
	for name, want := range map[string][]string{"Status": decide.Statuses(), "State": decide.States(), "Tier": decide.Tiers(), "Finding": decide.Findings(), "Sort": decide.Sorts()} {
		field, _ := reflect.TypeFor[decide.Filter]().FieldByName(name)
		sorted := cmp.Transformer("set", func(list []string) map[string]bool {
			set := map[string]bool{}
			for _, s := range list {
				set[s] = true
			}
			return set
		})
		if diff := cmp.Diff(want, strings.Split(field.Tag.Get("enum"), ","), sorted); diff != "" {
			t.Errorf("%s (-accepted +documented):\n%s", name, diff)
		}
	}
}

// People must give a reason to approve a severe finding, both one by one and many at once.
func TestApproveSevere(t *testing.T) {
	f := newQueue(t)
	f.ByName["git"].Tools[2] = poisoned
	f.Sync()
	r := f.Record("git:status")
	shown, err := f.service.Tool(f.ctx, r.ID())
	require.OK(t, err)
	if len(shown.Findings) == 0 || !shown.Findings[0].Severe || shown.Findings[0].Message == "" {
		t.Errorf("findings = %+v", shown.Findings)
	}
	for _, note := range []string{"", "  \n", "\u200b\u2060", "\u3164", "\u00a0\u3000", "\u2800"} {
		e := f.refused("git:status", decide.Decision{Action: approval.ActionApprove, Hash: r.CurrentHash, Rev: r.Rev, Note: note})
		if e.Status != http.StatusUnprocessableEntity || !strings.Contains(e.Detail, "nothing was decided") || !strings.Contains(e.Detail, "U+202E") || !strings.Contains(e.Detail, "say why in the note") {
			t.Errorf("%d %s", e.Status, e.Detail)
		}
	}
	if got := f.Problem(http.StatusUnprocessableEntity, "/admin/tools/git/status/approve", `{"hash":"`+string(r.CurrentHash)+`"}`); !strings.Contains(got, "say why in the note") {
		t.Errorf("the API says %q", got)
	}
	results, err := f.service.DecideAll(f.ctx, decide.Decision{Action: approval.ActionApprove}, []decide.Item{{ID: r.ID(), Hash: r.CurrentHash, Rev: r.Rev, Shown: decide.ShownSeen}})
	if err != nil || results[0].Err == nil || results[0].Err.Code != decide.Severe {
		t.Errorf("among many: %+v, %v", results, err)
	}
	blocked := f.decided("git:status", decide.Decision{Action: approval.ActionBlock, Hash: r.CurrentHash, Rev: r.Rev}) // blocking needs no reason
	got := f.decided("git:status", decide.Decision{Action: approval.ActionApprove, Hash: r.CurrentHash, Rev: blocked.Record.Rev, Note: "the mark is in our own text"})
	if got.Status != "callable" || got.Record.Note != "the mark is in our own text" {
		t.Errorf("approved = %+v", got)
	}
	f.ByName["git"].Tools[2] = pushy // not severe
	f.Sync()
	f.decided("git:status", decide.Decision{Action: approval.ActionApprove, Hash: f.Record("git:status").CurrentHash})
}

// In a changed definition, findings that the approved one also has come last, even if their
// position changed.
func TestFindingsThatAreNew(t *testing.T) {
	f := newQueue(t)
	f.ByName["git"].Tools[2] = poisoned
	f.Sync()
	shown := func() (out []string) {
		for _, found := range admintest.Into[decide.Tool](f.Fixture, "/admin/tools/git/status", "").Findings {
			out = append(out, fmt.Sprint(found.Code, " ", found.New))
		}
		return out
	}
	if got, want := shown(), []string{"bidi false"}; !slices.Equal(got, want) {
		t.Errorf("nothing is approved, and the findings are %q, want %q", got, want)
	}
	f.decided("git:status", decide.Decision{Action: approval.ActionApprove, Hash: f.Record("git:status").CurrentHash, Note: "it is ours"})
	f.ByName["git"].Tools[2] = strings.Replace(poisoned, "Show the state.", "Tell the state. See https://docs.acme.io/doc for more.", 1)
	f.Sync()
	if got, want := shown(), []string{"url true", "bidi false"}; !slices.Equal(got, want) {
		t.Errorf("the findings are %q, want %q", got, want)
	}
}

// The rule also applies to a definition that only another process has seen so far.
func TestApproveSevereBeforeTheCatalogKnows(t *testing.T) {
	f := newQueue(t)
	next, e, changed := approval.Observe(new(f.Record("git:status")), approval.Observation{
		ID: gatewaytest.ID(t, "git:status"), Definition: []byte(poisoned), Hash: tool.Hash(strings.Repeat("a", 64)), Mode: approval.OnChange, Now: f.Clock.Now(),
	})
	if !changed {
		t.Fatal("Observe reports no change")
	}
	_, err := f.Approvals.Put(t.Context(), next, e)
	require.OK(t, err)
	if e := f.refused("git:status", decide.Decision{Action: approval.ActionApprove, Hash: next.CurrentHash}); e.Status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", e.Status, e.Detail)
	}
	if got := admintest.Into[decide.Tool](f.Fixture, "/admin/tools/git/status", ""); len(got.Findings) == 0 || !got.Findings[0].Severe {
		t.Errorf("findings = %+v", got.Findings)
	}
}
