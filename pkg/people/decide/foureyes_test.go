package decide_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const fourEyes = `{"mcpServers": {
	"db": {"url": "https://db.example.com/mcp", "approval": "manual", "annotations": {"vacuum": {"destructiveHint": true}, "tidy": {"destructiveHint": false}}}
}, "review": {"four_eyes": "destructive", "remember": "auto"}}`

// withFourEyes returns a fixture where destructive tools take two people. In db, drop and vacuum
// are destructive: drop by its server, vacuum by the operator. query and tidy are not destructive.
// All four tools wait.
func withFourEyes(t testing.TB) *fixture {
	t.Helper()
	f := newFixture(t)
	f.dropAs("Drop a table.")
	f.Put(config.Key, fourEyes)
	f.Forbid("")
	f.Decide.Issuer = true
	f.Open()
	f.service = f.Console.Service
	f.Sync()
	return f
}

func (f *fixture) dropAs(description string) {
	tool := gatewaytest.Tool
	db := f.Serve("db", tool("drop", description, ""), tool("query", "Run a query.", gatewaytest.ReadOnly),
		tool("vacuum", "Tidy up.", `"annotations":{"readOnlyHint":false,"destructiveHint":false}`), tool("tidy", "Tidy.", ""))
	db.Prompts = []string{gatewaytest.Prompt("ask", "Asks.")}
}

// by sends the next decisions as a person who signed in with the issuer; "": as a token.
func (f *fixture) by(name, subject string) {
	f.ctx = decide.WithActor(f.T.Context(), decide.Actor{Name: name, Subject: subject, Rights: identity.Everything()})
}

func (f *fixture) approveIt(id string) decide.Decision {
	return decide.Decision{Action: approval.ActionApprove, Hash: f.Record(id).CurrentHash}
}

func TestFourEyes(t *testing.T) {
	f := withFourEyes(t)
	f.by("kim", "sub-1")
	for _, id := range []string{"db:query", "db:tidy", "db:prompt:ask"} {
		if got := f.decided(id, f.approveIt(id)); got.Status != decide.Callable || got.TakesTwo {
			t.Errorf("%s is %s after one approval", id, got.Status)
		}
	}
	for _, id := range []string{"db:drop", "db:vacuum"} {
		f.by("kim", "sub-1")
		got := f.decided(id, f.approveIt(id))
		if p := got.Record.Proposed; got.Status != "pending_approval" || !got.TakesTwo || p == nil || p.By != "kim" || got.Record.Undoes != approval.ActionPropose {
			t.Errorf("%s after one: %s %+v", id, got.Status, got.Record)
		}
		f.Sync() // now the catalog has the record, without the person who proposed
		list, err := f.service.List(f.ctx, decide.Filter{Status: "pending_approval", Server: "db", Q: id}, decide.Paging{Limit: 10})
		if err != nil || len(list.Tools) != 1 || list.Tools[0].Proposed != "kim" {
			t.Errorf("%s in the list: %+v, %v", id, list.Tools, err)
		}
		if e := f.refused(id, f.approveIt(id)); e.Status != http.StatusConflict || !strings.Contains(e.Detail, "you approved this definition already, as the first of two people") {
			t.Errorf("%s again: %d %s", id, e.Status, e.Detail)
		}
		f.by("token:ci", "")
		if e := f.refused(id, f.approveIt(id)); e.Status != http.StatusForbidden || !strings.Contains(e.Detail, `you are "token:ci", who is not. Sign in`) {
			t.Errorf("%s by a token: %d %s", id, e.Status, e.Detail)
		}
		f.by("sam", "sub-2")
		if got := f.decided(id, f.approveIt(id)); got.Status != decide.Callable || got.Record.Proposed != nil {
			t.Errorf("%s after two: %s %+v", id, got.Status, got.Record)
		}
	}
	lines, err := f.Approvals.Audit(t.Context(), "db", approval.Cursor{}, 4)
	require.OK(t, err)
	var did []string
	for _, e := range lines {
		did = append(did, e.Tool+" "+e.Action+" by "+e.Actor)
	}
	if got := strings.Join(did, ", "); got != "vacuum approve by sam, vacuum propose by kim, drop approve by sam, drop propose by kim" {
		t.Errorf("audit: %s", got)
	}
}

// The current record counts, not the older record in the catalog. With "all", items of every kind
// and with any annotations need two people.
func TestFourEyesAll(t *testing.T) {
	f := withFourEyes(t)
	f.Put(config.Key, strings.Replace(fourEyes, `"four_eyes": "destructive"`, `"four_eyes": "all"`, 1))
	f.Sync()
	for _, id := range []string{"db:query", "db:tidy", "db:drop", "db:prompt:ask"} {
		f.by("kim", "sub-1")
		if got := f.decided(id, f.approveIt(id)); got.Status != "pending_approval" || !got.TakesTwo {
			t.Errorf("%s is %q after one approval", id, got.Status)
		}
		f.by("sam", "sub-2")
		if got := f.decided(id, f.approveIt(id)); got.Status != decide.Callable {
			t.Errorf("%s is %q after two approvals", id, got.Status)
		}
	}
	f.Decide.Issuer = false
	f.Open()
	if notices := f.Console.Service.Notices(f.ctx); len(notices) != 1 || !strings.Contains(notices[0].Message, "nothing can be approved") {
		t.Errorf("without an issuer: %+v", notices)
	}
}

func TestFourEyesNewerDefinition(t *testing.T) {
	f := withFourEyes(t)
	f.by("kim", "sub-1")
	r := f.Record("db:query")
	next, _, _ := approval.Observe(&r, approval.Observation{ID: r.ID(), URL: r.URL, Definition: []byte(`{"name":"query"}`), Hash: "aa", Mode: approval.Manual, Now: f.Clock.Now()})
	if _, err := f.Approvals.Put(t.Context(), next, nil); err != nil {
		t.Fatal(err)
	}
	if got := f.decided("db:query", f.approveIt("db:query")); got.Record.State != approval.Pending || got.Record.Proposed == nil {
		t.Errorf("a tool that became destructive: %+v", got.Record)
	}
}

// If nobody can be one of two people, nothing destructive is approved, and a notice says so.
func TestFourEyesWithoutIssuer(t *testing.T) {
	f := withFourEyes(t)
	f.Decide.Issuer = false
	f.Open()
	f.service = f.Console.Service
	f.by("kim", "sub-1")
	if e := f.refused("db:drop", f.approveIt("db:drop")); e.Status != http.StatusConflict || !strings.Contains(e.Detail, "this gateway has no such sign-in. The operator") {
		t.Errorf("%d %s", e.Status, e.Detail)
	}
	has := func(rs []state.Reason) bool {
		return len(rs) > 0 && rs[len(rs)-1].Code == "four_eyes_without_issuer" && !rs[len(rs)-1].Since.IsZero() && rs[len(rs)-1].Action != ""
	}
	health, cfg := f.service.Health(f.ctx), f.service.Config(f.ctx)
	if !has(health.Reasons) || health.Status != state.Degraded || !has(cfg.Reasons) || !has(f.service.Notices(f.ctx)) {
		t.Errorf("health %+v, config %+v", health, cfg.Reasons)
	}
	f.Put(config.Key, strings.Replace(fourEyes, `"destructive", "remember"`, `"off", "remember"`, 1))
	f.Sync()
	if got := f.decided("db:drop", f.approveIt("db:drop")); got.Status != decide.Callable || len(f.service.Notices(f.ctx)) > 0 || has(f.service.Health(f.ctx).Reasons) {
		t.Errorf("without four eyes db:drop is %s", got.Status)
	}
}

// In a request about many items, each is decided separately.
func TestFourEyesTogether(t *testing.T) {
	f := withFourEyes(t)
	items := func() (out []decide.Item) {
		for _, id := range []string{"db:drop", "db:query"} {
			out = append(out, decide.Item{ID: gatewaytest.ID(t, id), Hash: f.Record(id).CurrentHash})
		}
		return append(out, out[0]) // again
	}
	statuses := func() string {
		t.Helper()
		results, err := f.service.DecideAll(f.ctx, decide.Decision{Action: approval.ActionApprove}, items())
		require.OK(t, err)
		var out []string
		for _, r := range results {
			if r.Err != nil {
				out = append(out, fmt.Sprint(r.Err.Status))
			} else {
				out = append(out, r.Tool.Status)
			}
		}
		return strings.Join(out, " ")
	}
	for _, step := range []struct{ name, subject, want string }{
		{"token:ci", "", "403 callable 422"}, {"kim", "sub-1", "pending_approval 409 422"}, {"kim", "sub-1", "409 409 422"}, {"sam", "sub-2", "callable 409 422"},
	} {
		if f.by(step.name, step.subject); statuses() != step.want {
			t.Errorf("%s: want %s", step.name, step.want)
		}
	}
}

// If the store lost an approval by two people, one person restores neither it nor anything that
// depends on it.
func TestFourEyesSettle(t *testing.T) {
	for how, settle := range map[string]func(*decide.Service, context.Context) (decide.Reconciliation, error){"restore": (*decide.Service).Restore, "accept": (*decide.Service).Accept} {
		for _, eyes := range []string{"destructive", "off"} {
			t.Run(how+" "+eyes, func(t *testing.T) {
				f := withFourEyes(t)
				before := f.Approvals.Copy()
				both := func() {
					f.by("kim", "sub-1")
					f.decided("db:drop", f.approveIt("db:drop"))
					f.by("sam", "sub-2")
					f.decided("db:drop", f.approveIt("db:drop"))
					f.Sync()
				}
				both()
				if how == "accept" { // the store has the approval, and the catalog has what came after it
					before = f.Approvals.Copy()
					f.decided("db:drop", decide.Decision{Action: approval.ActionBlock, Hash: f.Record("db:drop").CurrentHash})
					f.decided("db:drop", decide.Decision{Action: approval.ActionUnblock, Hash: f.Record("db:drop").CurrentHash})
					f.Sync()
				}
				f.Put(config.Key, strings.Replace(fourEyes, `"destructive", "remember"`, `"`+eyes+`", "remember"`, 1))
				f.Approvals = before
				f.Restart()
				f.Open()
				f.service = f.Console.Service
				f.Sync()
				if s := f.Status("db:drop"); s != lock.PendingApproval {
					t.Fatalf("before the record is settled, db:drop is %q", s)
				}
				out, err := settle(f.service, f.ctx)
				if err != nil || out.Count == 0 {
					t.Fatalf("%+v, %v", out, err)
				}
				if s := f.Status("db:drop"); (s == lock.None) != (eyes == "off") {
					t.Errorf("then db:drop is %q: %+v", s, f.Record("db:drop"))
				}
			})
		}
	}
}

// An approval by one person, from before the rule of two people, is not restored automatically.
func TestFourEyesRemember(t *testing.T) {
	f := withFourEyes(t)
	f.Put(config.Key, strings.Replace(fourEyes, `"destructive", "remember"`, `"off", "remember"`, 1))
	f.Sync()
	approveNow := func() { f.decided("db:drop", f.approveIt("db:drop")) }
	approveNow()
	f.dropAs("Drop all tables.")
	f.Sync()
	approveNow()
	f.Put(config.Key, fourEyes)
	f.dropAs("Drop a table.")
	f.Sync()
	if s := f.Status("db:drop"); s != lock.PendingApproval {
		t.Errorf("db:drop is %q, want it to wait", s)
	}
}
