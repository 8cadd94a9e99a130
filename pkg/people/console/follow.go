package console

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

const followPath = "/admin/audit/follow"

// Times of a stream of audit lines.
const (
	followOverlap = 2 * time.Second  // a stream begins with lines from before its page; the page skips lines that it has
	recheckEvery  = 2 * time.Second  // the rights of the reader are this old at most
	quietTime     = 15 * time.Second // time between two comments
	slowTime      = 10 * time.Second // how long a write may wait for the reader
)

// An auditStream writes audit lines as server-sent events, until a write fails.
type auditStream struct {
	c      *Console
	r      *http.Request
	w      http.ResponseWriter
	filter audit.Filter

	checked time.Time // when the reader's rights were checked
	err     error
}

// followAudit sends new lines that the filter selects, as rows of the page. It ends when the reader
// leaves or reads too slowly, when the reader may no longer read the audit, and when the program
// ends. The browser then connects again, and gets the lines since its last line.
func (c *Console) followAudit(w http.ResponseWriter, r *http.Request) {
	_, f, _, err := c.auditQuery(r)
	if err != nil {
		c.failed(w, r, "follow the audit", err)
		return
	}
	follower := c.o.Service.AuditFeed().Follow()
	if follower == nil || !capacity.Hold(r.Context()) {
		if follower != nil {
			follower.Close()
		}
		c.deny(
			w,
			r,
			http.StatusServiceUnavailable,
			"too many people follow the audit now; load the page again to see new lines",
		)
		return
	}
	defer follower.Close()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // tells nginx to pass on each event immediately
	f.Until = time.Time{}
	s := &auditStream{c: c, r: r, w: w, filter: f, checked: time.Now()}
	s.write("retry: 3000\n\n")
	s.resume(r.Context(), r.Header.Get("Last-Event-ID"))
	quiet := time.NewTimer(quietTime)
	defer quiet.Stop()
	for s.err == nil {
		select {
		case <-r.Context().Done():
			return
		case <-c.o.Ending:
			return
		case l := <-follower.Lines:
			if !f.Wants(l) {
				continue
			}
			s.line(l)
		case <-quiet.C:
			if s.isAllowed() {
				s.write(": waiting\n\n")
			}
		}
		if n := follower.TakeLost(); n > 0 {
			s.event("gap", "", text.Count(n, "line")+
				" could not be sent in time. Load the page again to see them.")
		}
		quiet.Reset(quietTime)
	}
}

// resume sends the lines since the last event that the reader got. Without such an event, it
// sends the lines since the filter's start.
func (s *auditStream) resume(ctx context.Context, last string) {
	f := s.filter
	if at, err := time.Parse(time.RFC3339Nano, last); err == nil && at.After(f.Since) {
		f.Since = at.Add(-followOverlap)
	}
	page, err := s.c.o.Service.Audit(ctx, f, decide.Paging{Limit: maxRows})
	if err != nil {
		_ = s.c.o.Service.Explain(ctx, "follow the audit", err) // Explain logs the error
	}
	if err != nil || page.Next.Next != "" || len(page.Missing) > 0 {
		s.event("gap", "", "Some earlier lines were not sent. Load the page again to see them.")
	}
	for _, l := range slices.Backward(page.Lines) {
		s.line(l)
	}
}

// line sends a line as a row of the page.
func (s *auditStream) line(l audit.Line) {
	if !s.isAllowed() {
		return
	}
	root := rootOf(s.r)
	root = strings.TrimPrefix(root, "../") // the page is one level above the stream
	row := auditRowOf(root, s.c.o.Service.View(s.r.Context()), l)
	row.File = withQuery(
		root+"admin/audit.jsonl",
		url.Values{},
		"since",
		l.Time.UTC().Format(time.RFC3339Nano),
	)
	var b bytes.Buffer
	if err := templates()["audit"]().ExecuteTemplate(&b, "auditrow", row); err != nil {
		s.c.o.Log.LogAttrs(
			s.r.Context(),
			slog.LevelError,
			"page not written",
			slog.String("page", "audit row"),
			slog.Any("error", err),
		)
		return
	}
	s.event("line", l.Time.UTC().Format(time.RFC3339Nano), b.String())
}

// isAllowed reports whether the reader may still read. If not, it ends the stream. It looks at the
// reader's session or credential again if it has not for some time. This does not count as a use
// of the session.
func (s *auditStream) isAllowed() bool {
	if s.err != nil {
		return false
	}
	if now := time.Now(); now.Sub(s.checked) >= recheckEvery {
		s.checked = now
		again := s.r.Clone(s.r.Context())
		again.Header.Set("If-None-Match", "following")
		who, err := s.c.caller(again)
		_, stopped := s.c.o.Service.Stopped(s.r.Context(), who.Agent)
		if err != nil || stopped || who.Rights.Role < requiredRole(http.MethodGet, followPath) {
			s.c.o.Log.LogAttrs(
				s.r.Context(),
				slog.LevelInfo,
				"stream of the audit ended: its reader may no longer read",
				slog.Any("error", err),
			)
			s.event("end", "", "You may no longer read the audit here. Sign in again.")
			s.err = cmp.Or(s.err, http.ErrAbortHandler)
		}
	}
	return s.err == nil
}

// event sends an event. The id names a line, from which a later stream continues.
func (s *auditStream) event(kind, id, data string) {
	var b strings.Builder
	fmt.Fprintf(&b, "event: %s\n", kind)
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	for line := range strings.Lines(data) {
		fmt.Fprintf(&b, "data: %s\n", strings.TrimRight(line, "\r\n"))
	}
	s.write(b.String() + "\n")
}

func (s *auditStream) write(text string) {
	if s.err != nil {
		return
	}
	rc := http.NewResponseController(s.w)
	_ = rc.SetWriteDeadline(time.Now().Add(slowTime)) // a writer without a connection does not wait
	if _, s.err = s.w.Write([]byte(text)); s.err == nil {
		s.err = rc.Flush()
	}
}
