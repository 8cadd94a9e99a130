package decide

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/auditevent"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// An AuditPage is a page of the audit: who did what, newest first. It merges audit events of
// people, decisions about items and, where this process can read them, calls of agents.
type AuditPage struct {
	Lines   []audit.Line     `json:"lines" nullable:"false"`
	Entries []approval.Entry `json:"entries" nullable:"false" doc:"the lines about tools, prompts and resources, in the form of earlier versions"`
	Missing []string         `json:"missing,omitempty" doc:"parts of the audit that could not be read; the page does not include them"`
	Partial bool             `json:"partial,omitempty" doc:"the request read as many lines as it may before the page was full, because the filter excludes many lines; next continues there"`
	Calls   string           `json:"calls,omitempty" doc:"where the lines of agents' calls are, if this page does not include them"`
	Next

	Syncs map[int]*SyncLines `json:"-"` // lines that have all lines of a sync about a server, by their index
}

// The names of the audit's parts that people read.
const (
	partItems  = "decisions about tools, prompts and resources"
	partEvents = "sign-ins, tokens, stops, syncs and versions of the operator's files"
	partCalls  = "agents' calls"
)

const (
	linesRead  = 200 // lines that one read of a part requests if a filter excludes lines
	linesReads = 5   // maximum number of such reads for each part of a page

	linesOfItems = 20_000 // lines about items that one read may request; the first sync of a large catalog writes as many

	// Lines of calls are stored in the order in which they were written, not in the order of their
	// times. lateness is the maximum time by which a line may be older than the line before it.
	lateness = 2 * time.Second
)

// An auditCursor holds the position at the end of a page: the last line of each part. The position
// "" is before the first line, "-" is after the last.
type auditCursor struct {
	Items, Events, Calls audit.Cursor

	// Time is the time of the page's last line; zero before the first page. Later pages exclude
	// newer lines.
	Time time.Time
}

const exhausted audit.Cursor = "-"

// An auditLine is a line with its entry if the line is about an item.
type auditLine struct {
	audit.Line
	entry *approval.Entry
}

// A part is one source of the audit with the state of reading it.
type part struct {
	name string
	at   *audit.Cursor // after the last line that take returned
	read func(ctx context.Context, after audit.Cursor, limit int) ([]auditLine, audit.Cursor, error)

	most int // a read after a read without a line may examine up to this many lines; 0: no more than the first

	buf   []auditLine
	next  audit.Cursor // after the last line that was read
	begun bool
	reads int
	err   error
}

// fill reads until buf has a line, the part ends or a read fails. It returns false if that takes
// more than maxReads reads.
func (p *part) fill(ctx context.Context, limit, maxReads int) bool {
	for len(p.buf) == 0 && p.err == nil && *p.at != exhausted {
		if p.reads++; p.reads > maxReads {
			return false
		}
		from := *p.at
		if p.begun {
			from = p.next
		}
		p.buf, p.next, p.err = p.read(ctx, from, max(limit, min(limit<<(2*(p.reads-1)), p.most)))
		switch p.begun = true; {
		case p.err != nil:
		case len(p.buf) == 0 && p.next == "":
			*p.at = exhausted
		case len(p.buf) == 0:
			*p.at = p.next
		}
	}
	return true
}

// take removes the first line of buf and returns it.
func (p *part) take() auditLine {
	l := p.buf[0]
	p.buf = p.buf[1:]
	if *p.at = l.Cursor; len(p.buf) == 0 && p.next == "" {
		*p.at = exhausted
	}
	return l
}

// merge passes the lines of all parts to yield, newest first. It stops when yield returns false or
// when a part would need more than maxReads reads. It reports whether it passed all lines.
func merge(
	ctx context.Context, parts []*part, limit, maxReads int, yield func(auditLine) bool,
) (end bool) {
	for {
		var newest *part
		for _, p := range parts {
			if !p.fill(ctx, limit, maxReads) {
				return false
			}
			if len(p.buf) > 0 && (newest == nil || p.buf[0].Time.After(newest.buf[0].Time)) {
				newest = p
			}
		}
		if newest == nil {
			return true
		}
		if !yield(newest.take()) {
			return false
		}
	}
}

// Audit returns a page of the lines that the filter chooses. The page names the parts that could
// not be read; if no part could be read, Audit fails.
func (d *Service) Audit(ctx context.Context, f audit.Filter, p Paging) (AuditPage, error) {
	return d.auditPage(ctx, f, p, nil)
}

// FoldedAudit is [Service.Audit] with one line for each server that a sync read.
func (d *Service) FoldedAudit(ctx context.Context, f audit.Filter, p Paging) (AuditPage, error) {
	last := map[string]int{} // index of the last line of a sync, by server
	syncs := map[int]*SyncLines{}
	page, err := d.auditPage(ctx, f, p, func(l audit.Line, n int) bool {
		server := l.Server()
		if l.Actor != audit.ActorSync || server == "" {
			return false
		}
		at, seen := last[server]
		if !seen || syncs[at].First.Sub(l.Time) > syncPause {
			at = n
			last[server], syncs[n] = n, &SyncLines{Actions: map[string]int{}}
		}
		s := syncs[at]
		s.First, s.Lines = l.Time, s.Lines+1
		s.Actions[l.Action]++
		return at < n
	})
	page.Syncs = syncs
	return page, err
}

// syncPause is the maximum time between two lines of a server that count as lines of one sync.
const syncPause = time.Minute

// SyncLines are the lines of a sync about one server that a page shows as one line.
type SyncLines struct {
	First   time.Time // time of the oldest line
	Lines   int
	Actions map[string]int // number of lines by action
}

// auditPage is [Service.Audit]. It leaves out a line if fold returns true for the line and the
// number of lines before it. A nil fold leaves out none.
func (d *Service) auditPage(
	ctx context.Context,
	f audit.Filter,
	p Paging,
	fold func(audit.Line, int) bool,
) (AuditPage, error) {
	at, err := p.auditCursor()
	if err != nil {
		return AuditPage{}, err
	}
	out := AuditPage{Lines: []audit.Line{}, Entries: []approval.Entry{}}
	if d.o.Calls == nil && f.Kind != audit.KindEvent {
		out.Calls = d.o.CallStore
	}
	parts, limit := d.parts(ctx, f, &at), p.Limit+1
	if f.Actor+f.Action+f.Tool != "" || f.NoSync || fold != nil {
		limit = linesRead
	}
	more := false
	end := merge(ctx, parts, limit, linesReads, func(l auditLine) bool {
		at.Time = l.Time
		if fold != nil && fold(l.Line, len(out.Lines)) {
			return true
		}
		out.Lines = append(out.Lines, l.Line)
		if l.entry != nil {
			out.Entries = append(out.Entries, *l.entry)
		}
		more = len(out.Lines) == p.Limit
		return !more
	})
	if out.Partial = !end && !more; more && !hasMore(ctx, parts) {
		end = true
	}
	if !end {
		out.Next.Next = at.cursor()
	}
	out.Missing, err = d.missing(ctx, parts)
	return out, err
}

// hasMore reports whether any part has, or may have, another line.
func hasMore(ctx context.Context, parts []*part) bool {
	for _, p := range parts {
		if !p.fill(ctx, 1, linesReads) || len(p.buf) > 0 {
			return true
		}
	}
	return false
}

// missing returns the names of the parts that could not be read, and logs why. It fails if no part
// could be read.
func (d *Service) missing(ctx context.Context, parts []*part) (names []string, err error) {
	var faults []error
	for _, p := range parts {
		if errors.Is(p.err, audit.ErrCursor) {
			return nil, errCursor()
		}
		if p.err != nil {
			d.o.Log.LogAttrs(
				ctx,
				slog.LevelError,
				"part of the audit not read",
				slog.String("part", p.name),
				slog.Any("error", p.err),
			)
			names, faults = append(names, p.name), append(faults, p.err)
		}
	}
	if len(parts) > 0 && len(names) == len(parts) {
		return nil, errors.Join(faults...)
	}
	return names, nil
}

// EachLine calls yield with every line that the filter chooses, newest first. It keeps at most a
// few hundred lines in memory. After an error, older lines are missing.
func (d *Service) EachLine(
	ctx context.Context,
	f audit.Filter,
	yield func(audit.Line) error,
) error {
	var at auditCursor
	var stopped error
	parts := d.parts(ctx, f, &at)
	check := func() error {
		for _, p := range parts {
			if p.err != nil {
				return errors.Join(errors.New(p.name+" cannot be read"), p.err)
			}
		}
		return cmp.Or(stopped, ctx.Err())
	}
	merge(ctx, parts, linesRead, math.MaxInt, func(l auditLine) bool {
		if stopped = check(); stopped == nil {
			stopped = yield(l.Line)
		}
		return stopped == nil
	})
	return check()
}

func (at auditCursor) cursor() string {
	return text.NewCursor(
		"audit",
		at.Time.Format(time.RFC3339Nano),
		string(at.Items),
		string(at.Events),
		string(at.Calls),
	)
}

// auditCursor returns the position at which the page begins.
func (p Paging) auditCursor() (at auditCursor, err error) {
	entry, err := p.entry("audit", 4)
	if err != nil || entry[0] == "" {
		return at, err
	}
	at = auditCursor{
		Items:  audit.Cursor(entry[1]),
		Events: audit.Cursor(entry[2]),
		Calls:  audit.Cursor(entry[3]),
	}
	if at.Time, err = time.Parse(time.RFC3339Nano, entry[0]); err != nil {
		return at, errCursor()
	}
	return at, nil
}

// parts returns the parts of the audit that may have lines for the filter.
func (d *Service) parts(ctx context.Context, f audit.Filter, at *auditCursor) (parts []*part) {
	begun := at.Time
	// until returns the filter's Until for this page. It excludes lines that are newer than the
	// last line of the previous page by more than lateness.
	until := func(lateness time.Duration) time.Time {
		latest := begun.Add(lateness + 1)
		if begun.IsZero() || !f.Until.IsZero() && f.Until.Before(latest) {
			return f.Until
		}
		return latest
	}
	late := until(lateness)
	f.Until = until(0)
	lines := func(name string, at *audit.Cursor, kind string, until time.Time, read func(context.Context, audit.Filter, audit.Cursor, int) ([]audit.Line, audit.Cursor, error)) *part {
		f := f
		f.Kind, f.Until = kind, until
		return &part{
			name: name,
			at:   at,
			read: func(ctx context.Context, after audit.Cursor, limit int) (out []auditLine, next audit.Cursor, err error) {
				all, next, err := read(ctx, f, after, limit)
				for _, l := range all {
					out = append(out, auditLine{Line: l})
				}
				return out, next, err
			},
		}
	}
	if f.Kind != audit.KindCall {
		most := linesOfItems / max(1, len(d.View(ctx).Servers()))
		parts = append(
			parts,
			&part{
				name: partItems,
				at:   &at.Items,
				most: most,
				read: func(ctx context.Context, after audit.Cursor, limit int) ([]auditLine, audit.Cursor, error) {
					return d.itemLines(ctx, f, after, limit)
				},
			},
		)
		if d.o.Events != nil {
			parts = append(
				parts,
				lines(partEvents, &at.Events, audit.KindEvent, f.Until, d.o.Events.Events),
			)
		}
	}
	if f.Kind != audit.KindEvent && d.o.Calls != nil {
		parts = append(parts, lines(partCalls, &at.Calls, f.Kind, late, d.calls))
	}
	return parts
}

// calls reads the lines of calls and the lines that the audit's files have about themselves. It
// skips audit events, because other parts have them.
func (d *Service) calls(
	ctx context.Context,
	f audit.Filter,
	after audit.Cursor,
	limit int,
) ([]audit.Line, audit.Cursor, error) {
	all, next, err := d.o.Calls.Read(ctx, f, after, limit)
	return slices.DeleteFunc(
		all,
		func(l audit.Line) bool { return l.Kind == audit.KindEvent },
	), next, err
}

// itemLines returns lines about items, as [audit.Events.Events] returns audit events. One read
// examines at most limit lines of each server.
func (d *Service) itemLines(
	ctx context.Context,
	f audit.Filter,
	after audit.Cursor,
	limit int,
) (out []auditLine, next audit.Cursor, err error) {
	last, err := parseLine(string(after))
	if err != nil {
		return nil, "", audit.ErrCursor
	}
	if until := (line{Cursor: approval.Cursor{Written: f.Until}}); !f.Until.IsZero() &&
		(after == "" || until.Written.Before(last.Written)) {
		last = until
	}
	servers := []string{f.Server}
	if f.Server == "" {
		servers = namesOf(d.View(ctx))
	}
	all, more, err := d.entries(ctx, servers, last, limit)
	if err != nil {
		return nil, "", err
	}
	for _, e := range all {
		l := auditevent.LineOf(e)
		if l.Cursor = audit.Cursor(line{e.Cursor(), e.Server}.text()); l.Time.Before(f.Since) {
			return out, "", nil
		}
		if next = l.Cursor; f.Wants(l) {
			out = append(out, auditLine{l, &e})
		}
	}
	if !more {
		next = ""
	}
	return out, next, nil
}
