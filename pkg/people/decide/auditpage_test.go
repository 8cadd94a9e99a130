package decide_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// calls are the lines of agents' calls, newest last.
type calls struct {
	lines []audit.Line
	most  int // maximum number of lines that one call reads; 0: all
	reads int
	err   error
}

func (c *calls) add(at time.Time, agent, tool string) {
	c.lines = append(
		c.lines,
		audit.Line{
			V:        1,
			Time:     at,
			Kind:     audit.KindCall,
			Agent:    agent,
			Tool:     tool,
			Decision: audit.Allowed,
		},
	)
}

func (c *calls) Read(
	_ context.Context,
	f audit.Filter,
	after audit.Cursor,
	limit int,
) (out []audit.Line, next audit.Cursor, err error) {
	if c.reads++; c.err != nil {
		return nil, "", c.err
	}
	from := len(c.lines)
	if after != "" {
		if _, err := fmt.Sscan(string(after), &from); err != nil {
			return nil, "", audit.ErrCursor
		}
	}
	for n := from - 1; n >= 0; n-- {
		if len(out) == limit || c.most > 0 && from-n > c.most {
			return out, next, nil
		}
		l := c.lines[n]
		l.Cursor = audit.Cursor(fmt.Sprint(n))
		if next = l.Cursor; f.Wants(l) {
			out = append(out, l)
		}
	}
	return out, "", nil
}

// An auditFixture is a fixture whose audit has lines of every part: calls, events and decisions.
type auditFixture struct {
	*fixture
	calls *calls
}

func newAuditFixture(t testing.TB) *auditFixture {
	t.Helper()
	f := newQueue(t)
	d := &auditFixture{f, &calls{}}
	f.Decide.Calls = d.calls
	d.service = decide.New(f.States, f.Approvals, f.Decide)
	return d
}

// act adds lines to each part of the audit: two calls, an event, and a decision about the first
// item, which act disables if n is even and enables if n is odd.
func (d *auditFixture) act(n int) {
	d.T.Helper()
	d.calls.add(d.Clock.Now(), "ci", "web:fetch")
	for _, err := range []error{
		d.service.Record(d.ctx, audit.Line{Action: audit.ActionTokenMade, Subject: fmt.Sprintf("token:t%d", n)}),
		decideOnce(d, []string{approval.ActionDisable, approval.ActionEnable}[n%2]),
	} {
		require.OK(d.T, err)
	}
	d.calls.add(d.Clock.Now(), "kim's agent", "retrieve_tools")
}

func decideOnce(d *auditFixture, action string) error {
	id := d.service.View(d.ctx).ID(0)
	_, err := d.service.Decide(d.ctx, id, decide.Decision{Action: action, Note: "=1+1"})
	return err
}

// summary returns a line in short form.
func summary(l audit.Line) string {
	return strings.Join(
		[]string{
			l.Time.Format("15:04:05.000000000"),
			l.Kind,
			l.Agent + l.Actor,
			l.Action + l.Decision,
			l.Tool + l.Subject,
		},
		" ",
	)
}

// walk returns the lines of all pages. It calls between before each page except the first.
func (d *auditFixture) walk(f audit.Filter, limit int, between func()) (all []string) {
	d.T.Helper()
	for p := (decide.Paging{Limit: limit}); ; between() {
		page, err := d.service.Audit(d.ctx, f, p)
		if err != nil || len(page.Lines) > limit || page.Missing != nil {
			d.T.Fatalf("%d lines, missing %v, %v", len(page.Lines), page.Missing, err)
		}
		for _, l := range page.Lines {
			all = append(all, summary(l))
		}
		if p.After = page.Next.Next; p.After == "" {
			return all
		}
		if len(all) > 5000 {
			d.T.Fatal("no page is the last page")
		}
	}
}

func TestAuditMerges(t *testing.T) {
	d := newAuditFixture(t)
	for n := range 4 {
		d.act(n)
	}
	want := d.walk(audit.Filter{}, 200, func() {})
	sorted := slices.Clone(want)
	slices.SortStableFunc(sorted, func(a, b string) int { return strings.Compare(b[:18], a[:18]) })
	if d := cmp.Diff(sorted, want); d != "" {
		t.Errorf("the lines are not newest first (-sorted +got):\n%s", d)
	}
	for _, some := range []string{"call ci allowed web:fetch", "call kim's agent allowed retrieve_tools", "deed ann token_made token:t3", "deed ann disable", "deed sync baseline"} {
		if !strings.Contains(strings.Join(want, "\n"), some) {
			t.Errorf("%q is missing in\n%s", some, strings.Join(want, "\n"))
		}
	}
	for _, limit := range []int{1, 2, 3, 7, len(want) - 1, len(want)} {
		n := 100
		got := d.walk(audit.Filter{}, limit, func() { n++; d.act(n) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pages of %d lines, while others write (-want +got):\n%s", limit, diff)
		}
		want = d.walk(audit.Filter{}, 200, func() {})
	}
	var each []string
	if err := d.service.EachLine(d.ctx, audit.Filter{}, func(l audit.Line) error { each = append(each, summary(l)); return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, each); diff != "" {
		t.Errorf("EachLine differs from Audit (-Audit +EachLine):\n%s", diff)
	}
}

func TestAuditFilters(t *testing.T) {
	d := newAuditFixture(t)
	start := d.Clock.Now()
	for n := range 3 {
		d.act(n)
	}
	all := d.walk(audit.Filter{}, 200, func() {})
	for name, test := range map[string]struct {
		f    audit.Filter
		want func(string) bool
	}{
		"agent":    {audit.Filter{Actor: "ci"}, func(s string) bool { return strings.Contains(s, " ci ") }},
		"person":   {audit.Filter{Actor: "ann"}, func(s string) bool { return strings.Contains(s, " ann ") }},
		"action":   {audit.Filter{Action: "disable"}, func(s string) bool { return strings.Contains(s, " disable ") }},
		"decision": {audit.Filter{Action: "allowed"}, func(s string) bool { return strings.Contains(s, " allowed ") }},
		"server":   {audit.Filter{Server: "web"}, func(s string) bool { return strings.Contains(s, " web:") }},
		"tool":     {audit.Filter{Tool: "web:fetch"}, func(s string) bool { return strings.HasSuffix(s, " web:fetch") }},
		"calls":    {audit.Filter{Kind: audit.KindCall}, func(s string) bool { return strings.Contains(s, " call ") }},
		"events":   {audit.Filter{Kind: audit.KindEvent}, func(s string) bool { return strings.Contains(s, " deed ") }},
		"since":    {audit.Filter{Since: start}, func(s string) bool { return s[:18] >= start.UTC().Format("15:04:05.000000000") }},
		"until":    {audit.Filter{Until: start}, func(s string) bool { return s[:18] < start.UTC().Format("15:04:05.000000000") }},
		"no sync":  {audit.Filter{NoSync: true}, func(s string) bool { return !strings.Contains(s, " sync ") }},
		"nobody":   {audit.Filter{Actor: "nobody"}, func(string) bool { return false }},
	} {
		var want []string
		for _, s := range all {
			if test.want(s) {
				want = append(want, s)
			}
		}
		if (len(want) == 0) != (name == "nobody") || len(want) == len(all) {
			t.Errorf(
				"the filter %s matches %d of %d lines; only the filter nobody may match none, and none may match all",
				name,
				len(want),
				len(all),
			)
		}
		for _, limit := range []int{1, 3, 200} {
			if diff := cmp.Diff(want, d.walk(test.f, limit, func() {})); diff != "" {
				t.Errorf("filter %s, pages of %d lines (-want +got):\n%s", name, limit, diff)
			}
		}
	}
}

// A page costs one read of each part, and for decisions one read of each server.
func TestAuditReads(t *testing.T) {
	d := newAuditFixture(t)
	for n := range 30 {
		d.act(n)
	}
	items := 0
	d.Approvals.OnAudit = func(context.Context, string) error { items++; return nil }
	d.calls.reads = 0
	d.Deeds.Reads()
	page, err := d.service.Audit(d.ctx, audit.Filter{}, decide.Paging{Limit: 50})
	if err != nil || len(page.Lines) != 50 {
		t.Fatalf("%d lines, %v", len(page.Lines), err)
	}
	if servers := len(d.service.View(d.ctx).Servers()); items != servers || d.calls.reads != 1 ||
		d.Deeds.Reads() != 1 {
		t.Errorf(
			"%d reads of decisions, want one for each of %d servers; %d reads of calls, want 1",
			items,
			servers,
			d.calls.reads,
		)
	}
	// A filter without matches ends after a bounded number of reads.
	for n := range 3000 {
		d.calls.add(d.Clock.Now().Add(time.Duration(n)), "ci", "web:fetch")
	}
	d.calls.reads, d.calls.most = 0, 300
	none, p := audit.Filter{Tool: "web:none", Kind: audit.KindCall}, decide.Paging{Limit: 50}
	page, err = d.service.Audit(d.ctx, none, p)
	if err != nil || d.calls.reads > 5 || !page.Partial {
		t.Errorf("%d reads, partial %v, %v", d.calls.reads, page.Partial, err)
	}
	for p.After = page.Next.Next; p.After != ""; p.After = page.Next.Next { // page by page, the caller still reaches the end
		if page, err = d.service.Audit(d.ctx, none, p); err != nil {
			t.Fatal(err)
		}
	}
}

// A page finds the lines of people among many lines of a sync in a bounded number of reads. The
// pages with folded syncs have all lines once.
func TestAuditAfterALargeSync(t *testing.T) {
	d := newAuditFixture(t)
	d.act(0)
	var tools []string
	for n := range 3000 {
		tools = append(tools, fmt.Sprintf(`{"name":"tool_%04d"}`, n))
	}
	d.Serve("web", tools...)
	d.Sync()
	reads := 0
	d.Approvals.OnAudit = func(context.Context, string) error { reads++; return nil }
	page, err := d.service.Audit(d.ctx, audit.Filter{NoSync: true}, decide.Paging{Limit: 50})
	if servers := len(d.service.View(d.ctx).Servers()); err != nil || page.Partial ||
		len(page.Lines) < 4 ||
		reads > 5*servers {
		t.Errorf(
			"%d lines, partial %v, after %d reads, %v",
			len(page.Lines),
			page.Partial,
			reads,
			err,
		)
	}
	all := 0
	require.OK(
		t,
		d.service.EachLine(d.ctx, audit.Filter{}, func(audit.Line) error { all++; return nil }),
	)
	lines, rows := 0, 0
	for p := (decide.Paging{Limit: 50}); ; {
		page, err := d.service.FoldedAudit(d.ctx, audit.Filter{}, p)
		require.OK(t, err)
		rows += len(page.Lines)
		for n := range page.Lines {
			lines++
			if s := page.Syncs[n]; s != nil {
				lines += s.Lines - 1
			}
		}
		if p.After = page.Next.Next; p.After == "" {
			break
		}
	}
	if lines != all || rows > 30 || all < 3000 {
		t.Errorf("%d rows for %d of %d lines", rows, lines, all)
	}
}

func TestAuditWithoutAPart(t *testing.T) {
	d := newAuditFixture(t)
	d.act(0)
	d.calls.err = errors.New("swordfish")
	page, err := d.service.Audit(d.ctx, audit.Filter{}, decide.Paging{Limit: 50})
	if err != nil || len(page.Lines) == 0 || len(page.Missing) != 1 ||
		page.Missing[0] != "agents' calls" {
		t.Errorf("missing %v, %v", page.Missing, err)
	}
	if err := d.service.EachLine(d.ctx, audit.Filter{}, func(audit.Line) error { return nil }); err == nil {
		t.Error("EachLine without the calls returns no error")
	}
	d.Deeds.OnRead = func() error { return errors.New("swordfish") }
	d.Approvals.OnAudit = func(context.Context, string) error { return errors.New("swordfish") }
	if _, err := d.service.Audit(d.ctx, audit.Filter{}, decide.Paging{Limit: 50}); err == nil {
		t.Error("Audit returns no error although it could read no part")
	}
	if log := d.Log.String(); !strings.Contains(log, "swordfish") {
		t.Errorf("log: %s", log)
	}
}

func TestAuditWithoutCalls(t *testing.T) {
	f := newFixture(t)
	f.Decide.CallStore = "s3://bucket/audit/"
	service := decide.New(f.States, f.Approvals, f.Decide)
	page, err := service.Audit(f.ctx, audit.Filter{}, decide.Paging{Limit: 50})
	if err != nil || page.Calls != "s3://bucket/audit/" {
		t.Errorf("calls are in %q, %v", page.Calls, err)
	}
	if page, err = service.Audit(f.ctx, audit.Filter{Kind: audit.KindEvent}, decide.Paging{Limit: 50}); err != nil ||
		page.Calls != "" {
		t.Errorf("only events: calls in %q, %v", page.Calls, err)
	}
	if page, err = service.Audit(f.ctx, audit.Filter{Kind: audit.KindCall}, decide.Paging{Limit: 50}); err != nil ||
		page.Calls == "" ||
		len(page.Lines) != 0 {
		t.Errorf("only calls: calls in %q, %d lines, %v", page.Calls, len(page.Lines), err)
	}
}

func TestAuditQuery(t *testing.T) {
	now := time.Date(2026, 11, 22, 14, 30, 0, 0, time.UTC)
	for said, want := range map[string]string{
		"": "0001-01-01T00:00:00Z", "24h": "2026-11-21T14:30:00Z", "7d": "2026-11-15T14:30:00Z", "90m": "2026-11-22T13:00:00Z", "2026-11-20": "2026-11-20T00:00:00Z",
		"2026-11-20T08:00": "2026-11-20T08:00:00Z", "2026-11-20T08:00:00+02:00": "2026-11-20T06:00:00Z", "2026-11-20T08:00:00.5Z": "2026-11-20T08:00:00.5Z",
	} {
		f, err := decide.AuditQuery{Since: said}.Filter(now)
		if got := f.Since.Format(time.RFC3339Nano); err != nil || got != want {
			t.Errorf("since %q is %s, %v; want %s", said, got, err, want)
		}
	}
	for _, said := range []string{"yesterday", "-1h", "-3d", "2026-13-01", "99999999d", "\u202e", strings.Repeat("9", 60)} {
		if _, err := (decide.AuditQuery{Until: said}).Filter(now); err == nil {
			t.Errorf("until %q is accepted", said)
		}
	}
	if _, err := (decide.AuditQuery{Sync: "x"}).Filter(now); err == nil {
		t.Error("sync x is accepted")
	}
	if _, err := (decide.AuditQuery{Kind: "x"}).Filter(now); err == nil {
		t.Error("kind x is accepted")
	}
}
