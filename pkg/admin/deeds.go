package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

// ErrStarted is what a [Syncer] returns that started a sync elsewhere and does
// not wait for its end.
var ErrStarted = errors.New("sync started")

// A SyncReport says what a sync found and did.
type SyncReport struct {
	Pending    bool           `json:"pending,omitempty" doc:"the sync was only started (202): synced_at of /admin/servers moves when it has ended; the rest of the report is empty"`
	StartedAt  time.Time      `json:"started_at"`
	DurationMS int64          `json:"duration_ms"`
	Config     string         `json:"config" doc:"version of the config that was used"`
	Faults     []Fault        `json:"config_faults,omitempty" doc:"why the stored config is not in use"`
	Servers    []SyncedServer `json:"servers" nullable:"false"`
	Tools      int            `json:"tools"`
	New        int            `json:"new" doc:"tools that no record knew"`
	Changed    int            `json:"changed" doc:"tools whose definition is not the one last seen"`
	Snapshot   string         `json:"snapshot" doc:"SHA-256 of the catalog"`
	Stored     bool           `json:"stored" doc:"the catalog's object was written"`
	Superseded bool           `json:"superseded" doc:"a sync that began later finished first; its catalog stays"`
}

// A SyncedServer is one server's part of a sync.
type SyncedServer struct {
	Name    string  `json:"name"`
	Enabled bool    `json:"enabled"`
	Outcome Outcome `json:"outcome"`
	Tools   int     `json:"tools"`
	Kept    bool    `json:"kept" doc:"not loaded now: they are its last known definitions"`
	New     int     `json:"new"`
	Changed int     `json:"changed"`
	Gone    int     `json:"gone"`
}

type syncOutput struct {
	Status int
	Body   SyncReport
}

func (a *api) sync(ctx context.Context, _ *struct{}) (*syncOutput, error) {
	if a.syncer == nil {
		return nil, problem(http.StatusNotImplemented, "syncs are not run here")
	}
	r, err := a.syncer.Sync(ctx)
	if errors.Is(err, ErrStarted) {
		return &syncOutput{http.StatusAccepted, SyncReport{Pending: true, StartedAt: a.o.Now().UTC(), Servers: []SyncedServer{}}}, nil
	}
	a.states.Refresh(ctx)
	if err != nil {
		return nil, a.fail(ctx, "sync", syncProblem(r, err))
	}
	return &syncOutput{http.StatusOK, reportOf(r)}, nil
}

// syncProblem says what of a failed sync a caller may read.
func syncProblem(r catalog.Report, err error) error {
	faults := faultsOf(r.ConfigErr)
	switch {
	case errors.Is(err, catalog.ErrRequired):
		p := problem(http.StatusBadGateway, "a required server did not load; the old catalog stays")
		for _, s := range r.Servers {
			if s.Required && s.Enabled && s.Kept {
				p.Errors = append(p.Errors, &huma.ErrorDetail{Location: s.Name, Message: outcomeOf(s.Name, s.Outcome).Message})
			}
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

func reportOf(r catalog.Report) SyncReport {
	out := SyncReport{
		StartedAt: r.StartedAt, DurationMS: r.Duration.Milliseconds(),
		Config: r.Config, Faults: faultsOf(r.ConfigErr), Servers: []SyncedServer{},
		Tools: r.Tools, New: r.New, Changed: r.Changed,
		Snapshot: r.Snapshot, Stored: r.Stored, Superseded: r.Superseded,
	}
	for _, s := range r.Servers {
		out.Servers = append(out.Servers, SyncedServer{
			Name: s.Name, Enabled: s.Enabled, Outcome: outcomeOf(s.Name, s.Outcome),
			Tools: s.Tools, Kept: s.Kept, New: s.New, Changed: s.Changed, Gone: s.Gone,
		})
	}
	return out
}

type auditInput struct {
	Paging
	Server string `query:"server" doc:"only deeds about tools of this server; it need not be configured any more"`
}

type auditOutput struct {
	Body struct {
		Entries []approval.Entry `json:"entries" nullable:"false"`
		Next
	}
}

// audit asks for one server, or for every configured one and merges what they say.
func (a *api) audit(ctx context.Context, in *auditInput) (*auditOutput, error) {
	last, err := in.line()
	if err != nil {
		return nil, err
	}
	servers := []string{in.Server}
	if in.Server == "" {
		servers = nil
		for _, s := range a.states.Load(ctx).View(a.o.Agent).Servers() {
			servers = append(servers, s.Config.Name)
		}
	}
	lists := make([][]approval.Entry, len(servers))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxWriters)
	for i, server := range servers {
		g.Go(func() (err error) {
			lists[i], err = a.approvals.Audit(gctx, server, last.placeOf(server), in.Limit+1)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, a.fail(ctx, "audit", err)
	}
	out := &auditOutput{}
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(x, y approval.Entry) int {
		return cmp.Or(y.Written.Compare(x.Written), cmp.Compare(x.Server, y.Server), cmp.Compare(y.Tool, x.Tool))
	})
	out.Body.Entries = append([]approval.Entry{}, all[:min(in.Limit, len(all))]...)
	if len(all) > in.Limit {
		e := out.Body.Entries[in.Limit-1]
		out.Body.Next.Next = cursorOf("audit", e.Written.Format(time.RFC3339Nano)+"\x00"+e.Server+"\x00"+e.Tool)
	}
	return out, nil
}

// A line names the line of the audit at which a page ends. Lines of all servers are sorted by
// when they were written, then by server.
type line struct {
	approval.Place
	server string
}

// line returns the last line of the page before; the zero line for the first page.
func (p Paging) line() (line, error) {
	entry, err := p.entry("audit")
	if err != nil || entry == "" {
		return line{}, err
	}
	if parts := strings.Split(entry, "\x00"); len(parts) == 3 {
		if written, err := time.Parse(time.RFC3339Nano, parts[0]); err == nil {
			return line{approval.Place{Written: written, Tool: parts[2]}, parts[1]}, nil
		}
	}
	return line{}, errCursor()
}

// placeOf returns where a server's lines go on that stand after l.
func (l line) placeOf(server string) approval.Place {
	switch p := l.Place; {
	case p == (approval.Place{}) || server == l.server:
		return p
	case server < l.server: // all of its lines of that moment were shown
		return approval.Place{Written: p.Written}
	default: // none was
		return approval.Place{Written: p.Written.Add(1)}
	}
}
