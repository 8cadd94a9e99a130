package admin_test

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/admintest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// linesOf returns the lines of a JSON lines file.
func linesOf(t *testing.T, body string) (out []audit.Line) {
	t.Helper()
	for line := range strings.Lines(body) {
		out = append(out, require.JSON[audit.Line](t, line))
	}
	return out
}

func TestAuditFiles(t *testing.T) {
	h := newFixture(t)
	admintest.Into[decide.Tool](h.Fixture, "/admin/tools/mail/send/approve", approveBody(h.Hash("mail/send")))
	admintest.Into[decide.Tool](h.Fixture, "/admin/tools/fs/read_file/disable", `{"note":"=1+1\nand \"more\""}`)
	page := admintest.Into[decide.AuditPage](h.Fixture, "/admin/audit?limit=200", "")

	w := h.Send("/admin/audit.jsonl", "")
	got := linesOf(t, w.Body)
	if w.Status != http.StatusOK || len(got) != len(page.Lines) || got[0].Action != "disable" || got[0].Tool != "fs:read_file" || got[0].Source == "" || got[0].Note != page.Lines[0].Note {
		t.Errorf("%d, %d lines, want %d: %+v", w.Status, len(got), len(page.Lines), got)
	}
	if d := w.Header.Get("Content-Disposition"); !strings.HasPrefix(d, `attachment; filename="portcullis-audit-`) || !strings.HasSuffix(d, `.jsonl"`) {
		t.Errorf("Content-Disposition: %s", d)
	}
	w = h.Send("/admin/audit.csv?server=fs&actor=ann", "", admintest.Browser) // like a link on the page
	rows, err := csv.NewReader(strings.NewReader(w.Body)).ReadAll()
	if err != nil || w.Status != http.StatusOK || len(rows) != 2 || !strings.Contains(strings.Join(rows[1], "|"), "|'=1+1\nand \"more\"|") || !strings.HasPrefix(w.Header.Get("Content-Type"), "text/csv") {
		t.Errorf("%d %q %v", w.Status, rows, err)
	}
	w = h.Send("/admin/audit.csv?actor=nobody", "")
	if rows, err := csv.NewReader(strings.NewReader(w.Body)).ReadAll(); err != nil || len(rows) != 1 {
		t.Errorf("for an unknown actor: %q, %v", rows, err)
	}
	if got := admintest.Into[struct{ Entries []approval.Entry }](h.Fixture, "/admin/audit?actor=ann", "").Entries; len(got) != 2 || got[0].Tool != "read_file" || got[0].Rev == 0 {
		t.Errorf("in the form of earlier versions: %+v", got)
	}
}

// An incomplete file is marked: by the HTTP status if no line was sent yet, otherwise by its last
// line.
func TestAuditFileIncomplete(t *testing.T) {
	h := newFixture(t)
	for n := range 450 {
		require.OK(t, h.Deeds.PutEvent(t.Context(), audit.Line{V: 1, Time: h.Clock.Now().Add(time.Duration(n)), Kind: audit.KindEvent, Action: audit.ActionLogin, Actor: "kim"}))
	}
	n := 0
	h.Deeds.OnRead = func() error {
		if n++; n > 1 {
			return errors.New("arn:swordfish")
		}
		return nil
	}
	w := h.Send("/admin/audit.jsonl", "")
	got := linesOf(t, w.Body)
	last := got[len(got)-1]
	if w.Status != http.StatusOK || last.Kind != audit.KindIncomplete || len(got) < 100 || len(got) > 300 || !strings.Contains(last.Note, fmt.Sprintf("after these %d", len(got)-1)) || strings.Contains(w.Body, "swordfish") {
		t.Errorf("%d, %d lines, the last %+v", w.Status, len(got), last)
	}
	if !strings.Contains(h.Log.String(), "swordfish") {
		t.Error("the log lacks the cause")
	}
	// A request with the until that the last line names returns the rest of the file.
	h.Deeds.OnRead = nil
	_, until, _ := strings.Cut(last.Note, "until=")
	rest := linesOf(t, h.Send("/admin/audit.jsonl?until="+until, "").Body)
	all := linesOf(t, h.Send("/admin/audit.jsonl", "").Body)
	if len(got)-1+len(rest)-1 != len(all) { // one line is in both
		t.Errorf("%d and then %d lines, want %d in total", len(got)-1, len(rest), len(all))
	}
	h.Approvals.OnAudit = func(context.Context, string) error { return errors.New("arn:swordfish") }
	for _, name := range []string{"csv", "jsonl"} {
		if detail := h.Problem(http.StatusInternalServerError, "/admin/audit."+name, ""); strings.Contains(detail, "swordfish") {
			t.Errorf("%s: %s", name, detail)
		}
	}
}

// If a proxy buffers answers, the file ends before it is longer than an answer may be.
func TestAuditFileBehindProxy(t *testing.T) {
	h := newFixture(t)
	h.Decide.HoldsAnswers = true
	h.Open()
	note := strings.Repeat("x", 4000)
	for n := range 1500 {
		require.OK(t, h.Deeds.PutEvent(t.Context(), audit.Line{V: 1, Time: h.Clock.Now().Add(time.Duration(n)), Kind: audit.KindEvent, Action: audit.ActionStop, Note: note}))
	}
	w := h.Send("/admin/audit.csv", "")
	if n := len(w.Body); n < 4<<20 || n > 5<<20 || !strings.Contains(w.Body[n-400:], "incomplete") || !strings.Contains(w.Body[n-400:], "as long as an answer may be") {
		t.Errorf("%d bytes that end in %s", n, w.Body[n-400:])
	}
}

// A file of a long audit takes little memory.
func TestAuditFileMemory(t *testing.T) {
	h := newFixture(t)
	c := &manyCalls{n: 40_000, at: h.Clock.Now()}
	h.Decide.Calls = c
	h.Open()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	err := h.Console.Service.EachLine(t.Context(), audit.Filter{Kind: audit.KindCall}, func(audit.Line) error {
		if n++; n == 30_000 {
			runtime.GC()
			runtime.ReadMemStats(&after)
		}
		return nil
	})
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); err != nil || n != c.n || grown > 4<<20 {
		t.Errorf("%d lines, %v; the heap grew by %d bytes", n, err, grown)
	}
}

// manyCalls has n lines.
type manyCalls struct {
	n  int
	at time.Time
}

func (c *manyCalls) Read(_ context.Context, _ audit.Filter, after audit.Cursor, limit int) (out []audit.Line, next audit.Cursor, err error) {
	from := c.n
	if after != "" {
		if _, err := fmt.Sscan(string(after), &from); err != nil {
			return nil, "", err
		}
	}
	for n := from - 1; n >= 0 && len(out) < limit; n-- {
		next = audit.Cursor(fmt.Sprint(n))
		out = append(out, audit.Line{V: 1, Time: c.at.Add(time.Duration(n)), Kind: audit.KindCall, Agent: "ci", Tool: "fs:read_file", Cursor: next})
	}
	if next == "0" {
		next = ""
	}
	return out, next, nil
}
