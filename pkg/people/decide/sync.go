package decide

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

// A Syncer updates the catalog; *catalog.Syncer is one.
type Syncer interface {
	Sync(ctx context.Context) (catalog.Report, error)
	// SyncServers works like Sync, but may load only the named servers.
	SyncServers(ctx context.Context, names []string) (catalog.Report, error)
}

// ErrStarted means that a [Syncer] started a sync elsewhere and does not wait for its end.
var ErrStarted = errors.New("sync started")

// A SyncReport says what a sync found and did. It has the parts of a [catalog.Report] that a caller
// may read.
type SyncReport struct {
	Pending    bool           `json:"pending,omitempty" doc:"the sync has only started (202), and the rest of the report is empty. When a catalog with its results exists, synced_at of /admin/servers changes; a sync that is spread over functions changes it several times"`
	StartedAt  time.Time      `json:"started_at"`
	DurationMS int64          `json:"duration_ms"`
	Config     string         `json:"config" doc:"version of the config that was used"`
	Faults     config.Faults  `json:"config_faults,omitempty" doc:"why the stored config is not in use"`
	Servers    []SyncedServer `json:"servers" nullable:"false"`
	catalog.Totals
}

// A SyncedServer is the result of a sync for one server.
type SyncedServer struct {
	Name    string  `json:"name"`
	Enabled bool    `json:"enabled"`
	Outcome Outcome `json:"outcome"`
	catalog.ServerTotals
}

// Sync loads the tools of all servers now. If the syncs run in another process, it only starts one,
// and returns a report with Pending set.
func (d *Service) Sync(ctx context.Context) (SyncReport, error) {
	if d.o.Syncer == nil {
		return SyncReport{}, errNoSyncs
	}
	return d.sync(ctx, "", d.o.Syncer.Sync)
}

var errNoSyncs = Refuse(http.StatusNotImplemented, "this program runs no syncs")

// SyncServer works like [Service.Sync], for one server. The sync may load other servers, too.
func (d *Service) SyncServer(ctx context.Context, name string) (SyncReport, error) {
	if d.o.Syncer == nil {
		return SyncReport{}, errNoSyncs
	}
	s, err := d.findServer(ctx, d.View(ctx), name)
	if err == nil && !s.Config.Enabled {
		err = Refuse(http.StatusConflict,
			"the server is disabled, so it was not loaded; enable it first")
	}
	if err != nil {
		return SyncReport{}, err
	}
	run := func(ctx context.Context) (catalog.Report, error) {
		return d.o.Syncer.SyncServers(ctx, []string{name})
	}
	return d.sync(ctx, audit.AboutServer+":"+name, run)
}

// sync runs a sync. subject is what the audit names; "": every server.
func (d *Service) sync(
	ctx context.Context, subject string, run func(context.Context) (catalog.Report, error),
) (SyncReport, error) {
	// A sync does not change what agents may do, so it runs even without its audit event.
	_ = d.Record(ctx, audit.Line{Action: audit.ActionSync, Subject: subject})
	r, err := run(ctx)
	if errors.Is(err, ErrStarted) {
		return SyncReport{Pending: true, StartedAt: d.o.Now().UTC(), Servers: []SyncedServer{}}, nil
	}
	d.states.Refresh(ctx)
	if err != nil {
		return SyncReport{}, syncError(r, err)
	}
	out := SyncReport{
		StartedAt: r.StartedAt, DurationMS: r.Duration.Milliseconds(), Config: r.Config, Faults: faultsOf(r.ConfigErr),
		Servers: []SyncedServer{}, Totals: r.Totals,
	}
	for _, s := range r.Servers {
		out.Servers = append(
			out.Servers,
			SyncedServer{s.Name, s.Enabled, OutcomeOf(s.Name, s.Outcome), s.ServerTotals},
		)
	}
	return out, nil
}

// syncError returns the error of a failed sync in the form that a caller may read.
func syncError(r catalog.Report, err error) error {
	faults := faultsOf(r.ConfigErr)
	switch {
	case errors.Is(err, catalog.ErrRequired):
		e := &Error{
			Status: http.StatusBadGateway,
			Detail: "a required server did not load; the old catalog stays",
		}
		for _, s := range r.Missing() {
			e.Parts = append(e.Parts, Cause{s.Name, OutcomeOf(s.Name, s.Outcome).Message})
		}
		return e
	case faults != nil:
		e := &Error{Status: http.StatusServiceUnavailable, Detail: "no usable config exists"}
		for _, f := range faults {
			e.Parts = append(e.Parts, Cause{f.Path, f.Message})
		}
		return e
	}
	f := r.Failure(err)
	if f == nil {
		return err
	}
	switch f.Reason { // the log has the error
	case catalog.FailedDisk:
		return &Error{
			Status: http.StatusServiceUnavailable,
			Detail: "there is no space left on the disk; the old catalog stays: free some space; the next sync continues automatically",
		}
	case catalog.FailedTime:
		return &Error{
			Status: http.StatusServiceUnavailable,
			Detail: "the sync ran out of time; the old catalog stays: look in its log for servers that hang, and disable them",
		}
	case catalog.FailedNewer:
		return &Error{
			Status: http.StatusServiceUnavailable,
			Detail: "the stored catalog was made by a newer version of the program, and stays: use that version again, or delete " + catalog.CurrentKey + " to let this version make a new catalog",
		}
	}
	return err
}
