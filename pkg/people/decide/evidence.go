package decide

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

// AuditDays has the files of the audit.
type AuditDays interface {
	// Snapshot returns the files of the days from since until just before until. A zero time is no
	// bound.
	Snapshot(since, until time.Time) (audit.Snapshot, error)
}

// A CallLink is the address of a console in which people read the lines of calls.
type CallLink struct {
	Name  string
	Group string // log group for a query; "": the console needs none
	URL   string
}

// CallLinks returns where people read the lines of calls, if not on the page of the audit.
func (d *Service) CallLinks() []CallLink { return d.o.CallLinks }

// LogQuery returns a query of CloudWatch Logs Insights for the lines of calls that a filter selects.
// The time is set beside the query.
func LogQuery(f audit.Filter) string {
	q := "fields @timestamp, agent, human, tool, decision, status, outcome, request\n| filter audit = 1 and kind = \"call\""
	if f.Actor != "" {
		name := strconv.Quote(f.Actor)
		q += "\n| filter agent = " + name + " or human = " + name
	}
	if f.Action != "" {
		q += "\n| filter decision = " + strconv.Quote(f.Action)
	}
	if f.Server != "" {
		q += "\n| filter tool like /^" + strings.ReplaceAll(regexp.QuoteMeta(f.Server), "/", `\/`) + ":/"
	}
	if f.Tool != "" {
		q += "\n| filter tool = " + strconv.Quote(f.Tool)
	}
	return q + "\n| sort @timestamp desc\n| limit 1000"
}

// checkTime is how long a check of the audit may take.
const checkTime = 30 * time.Second

// AuditFileDays returns the days of which this process has files of the audit, oldest first.
func (d *Service) AuditFileDays(since, until time.Time) ([]string, error) {
	s, err := d.auditFiles(since, until)
	if e, ok := errors.AsType[*Error](err); ok &&
		(e.Status == http.StatusNotFound || e.Status == http.StatusNotImplemented) {
		err = nil
	}
	return s.Days, err
}

// AuditFeed returns the feed of new audit lines; nil: nobody can follow them here.
func (d *Service) AuditFeed() *audit.Feed { return d.o.Feed }

// CheckAudit follows the hashes in the lines of whole days, for at most 30 s. One check runs at a
// time.
func (d *Service) CheckAudit(ctx context.Context, since, until time.Time) (audit.Chain, error) {
	s, err := d.auditFiles(since, until)
	if err != nil {
		return audit.Chain{}, err
	}
	if !d.checking.TryLock() {
		return audit.Chain{}, Refuse(
			http.StatusServiceUnavailable,
			"another check of the audit runs now, and this one was not started: try again in 30 seconds",
		)
	}
	defer d.checking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	return s.Check(ctx)
}

// auditFiles returns the files of whole days.
func (d *Service) auditFiles(since, until time.Time) (audit.Snapshot, error) {
	if d.o.Days == nil {
		return audit.Snapshot{}, Refuse(
			http.StatusNotImplemented,
			"this process has no files of the audit; "+
				"a chain of hashes exists only in the files that portcullis serve writes",
		)
	}
	s, err := d.o.Days.Snapshot(since, until)
	if err == nil && len(s.Days) == 0 {
		err = Refuse(
			http.StatusNotFound,
			"the audit has no file of these days; the config sets in audit.days how long files are kept",
		)
	}
	return s, err
}

// Evidence returns a file name, and a function that writes an archive of whole days of the audit.
func (d *Service) Evidence(
	ctx context.Context,
	since, until time.Time,
) (name string, write func(io.Writer) error, err error) {
	s, err := d.auditFiles(since, until)
	if err != nil {
		return "", nil, err
	}
	st := d.states.Load(ctx)
	e := audit.Evidence{
		Made: d.o.Now(), By: ActorOf(ctx).Name, Gateway: d.o.BaseURL, Version: d.o.Version,
		Settings: map[string]string{
			"config":    st.Health.Config.Version,
			"policy":    st.Health.Policy.Version,
			"four_eyes": d.FourEyes(ctx),
		},
	}
	return s.Name() + ".zip", func(w io.Writer) error { return s.WriteEvidence(ctx, w, e) }, nil
}

// FourEyes returns which definitions need the approvals of two people: off, destructive or all; "":
// no config is known.
func (d *Service) FourEyes(ctx context.Context) string {
	if c := d.states.Load(ctx).Config; c != nil {
		return c.Review.FourEyes
	}
	return ""
}
