package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/decide"
)

// ErrStarted is what a [Syncer] returns that started a sync elsewhere and does not wait for its end.
var ErrStarted = errors.New("sync started")

// A SyncReport says what a sync found and did: of a [catalog.Report] what a caller may read.
type SyncReport struct {
	Pending    bool           `json:"pending,omitempty" doc:"the sync was only started (202): synced_at of /admin/servers moves when it has ended; the rest of the report is empty"`
	StartedAt  time.Time      `json:"started_at"`
	DurationMS int64          `json:"duration_ms"`
	Config     string         `json:"config" doc:"version of the config that was used"`
	Faults     config.Faults  `json:"config_faults,omitempty" doc:"why the stored config is not in use"`
	Servers    []SyncedServer `json:"servers" nullable:"false"`
	catalog.Totals
}

// A SyncedServer is one server's part of a sync.
type SyncedServer struct {
	Name    string         `json:"name"`
	Enabled bool           `json:"enabled"`
	Outcome decide.Outcome `json:"outcome"`
	catalog.ServerTotals
}

type syncOutput struct {
	Status int
	Body   SyncReport
}

func (a *api) sync(ctx context.Context) (*syncOutput, error) {
	if a.o.Syncer == nil {
		return nil, problem(http.StatusNotImplemented, "syncs are not run here")
	}
	r, err := a.o.Syncer.Sync(ctx)
	if errors.Is(err, ErrStarted) {
		return &syncOutput{http.StatusAccepted, SyncReport{Pending: true, StartedAt: a.o.Now().UTC(), Servers: []SyncedServer{}}}, nil
	}
	a.states.Refresh(ctx)
	if err != nil {
		return nil, syncProblem(r, err)
	}
	out := SyncReport{
		StartedAt: r.StartedAt, DurationMS: r.Duration.Milliseconds(), Config: r.Config, Faults: decide.FaultsOf(r.ConfigErr),
		Servers: []SyncedServer{}, Totals: r.Totals,
	}
	for _, s := range r.Servers {
		out.Servers = append(out.Servers, SyncedServer{s.Name, s.Enabled, decide.OutcomeOf(s.Name, s.Outcome), s.ServerTotals})
	}
	return &syncOutput{http.StatusOK, out}, nil
}

// syncProblem says what of a failed sync a caller may read.
func syncProblem(r catalog.Report, err error) error {
	faults := decide.FaultsOf(r.ConfigErr)
	switch {
	case errors.Is(err, catalog.ErrRequired):
		p := problem(http.StatusBadGateway, "a required server did not load; the old catalog stays")
		for _, s := range r.Missing() {
			p.Errors = append(p.Errors, &huma.ErrorDetail{Location: s.Name, Message: decide.OutcomeOf(s.Name, s.Outcome).Message})
		}
		return p
	case faults != nil:
		p := problem(http.StatusServiceUnavailable, "there is no config that can be used")
		for _, f := range faults {
			p.Errors = append(p.Errors, &huma.ErrorDetail{Location: f.Path, Message: f.Message})
		}
		return p
	}
	return err
}
