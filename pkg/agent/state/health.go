package state

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A Health is the facts about a State that its operator wants to know, for the
// admin API and the metrics. Its errors are never shown to an agent.
// [Health.Reasons] puts into words what is wrong.
type Health struct {
	At time.Time // when it was looked at

	Config    Part // Version: SHA-256 of mcp_config.json
	Policy    Part // Version: SHA-256 of policy.cedar
	Catalog   Part // Version: SHA-256 of the snapshot
	Approvals Part // Version: when the newest decision that was seen was made, or else the catalog, RFC 3339

	// Expired says that approvals, or what is stopped, could not be read for so long that every
	// tool whose server is enabled and which no rule denies is shown as unknown.
	Expired bool

	Lost      bool     // the approval store lost records that the catalog knows, and no sync has put them back yet
	Restored  int      // approval records that were put back and that nobody has settled yet
	Forgotten []string // servers of which store and catalog lost together what was decided, and that nobody has settled yet
	Rebuilt   []string // servers whose tools come from their approval records

	Sync    Syncs   // how syncs end
	Servers Servers // how the configured servers are

	Audit         error // why lines of the audit cannot be written
	AuditRequired bool  // so that calls are refused then
	AuditBytes    int64 // of all its files
	AuditLimit    int64 // of those; 0: there is none

	FullSince time.Time // since when calls are refused because all processes are in use; zero: none is
	Processes int       // of servers that may run

	Capacity *capacity.Facts // what the process takes; nil: nothing is bounded

	// Warnings are things that are allowed and look wrong, one line each, with the file first.
	Warnings []string

	first map[string]time.Time // when each reason was first seen, by code
}

// A Part is how one part of a State was last read.
type Part struct {
	Version string    // of what is in use; "": nothing is, or an empty policy
	Stored  string    // of the file that is stored and refused; "": none is
	InUse   bool      // something is in use, however old
	ReadAt  time.Time // when it was last known to be what the store holds
	Stale   bool      // the store holds something else, or may
	Err     error     // why it is stale or missing; for the log and the admin API
}

// Syncs are how the last syncs ended.
type Syncs struct {
	At     time.Time        // when the last one ended that worked; zero: none is known
	Every  time.Duration    // how often one is due; 0: not known
	Failed *catalog.Failure // nil: none has failed since
}

// Servers are how the configured servers are.
type Servers struct {
	Configured int
	Enabled    int
	Tried      int      // enabled, and a sync has asked them
	Available  int      // enabled, and loaded by the last sync
	Stopped    int      // enabled, and stopped
	Away       []string // names of those that were tried, did not load, and are not stopped
	Tools      int      // of all that are configured
	Items      int      // prompts and resources of all that are configured
	Refused    []string // names of those that list what is not taken and have to fix it
	Others     bool     // and some of that is no tool
	Unread     []string // names of those of which a list could not be read
}

// countServers counts the servers.
func countServers(servers []Server, stops *stopped) Servers {
	c := Servers{Configured: len(servers)}
	for _, s := range servers {
		c.Tools += s.Tools
		c.Items += s.Items
		if !s.Config.Enabled {
			continue
		}
		c.Enabled++
		if s.Outcome.Status != "" {
			c.Tried++
		}
		_, isStopped := stops.Server(s.Config.Name)
		switch {
		case s.Outcome.Status == outcome.Available:
			c.Available++
		case s.Outcome.Status != "" && !isStopped:
			c.Away = append(c.Away, s.Config.Name)
		}
		if isStopped {
			c.Stopped++
		}
		if slices.ContainsFunc(s.Outcome.Refused, func(r outcome.Refusal) bool { return r.Reason != outcome.RefusedTask }) {
			c.Refused = append(c.Refused, s.Config.Name)
			c.Others = c.Others || slices.ContainsFunc(s.Outcome.Refused, func(r outcome.Refusal) bool { return r.Kind != tool.Tool })
		}
		if len(s.Outcome.Unread) > 0 {
			c.Unread = append(c.Unread, s.Config.Name)
		}
	}
	return c
}

func (src *sources) health(now time.Time, o Options) Health {
	unread := cmp.Or(src.feed.Err, src.stops.err)
	out := Health{
		At:        now,
		Config:    part(src.config),
		Policy:    part(src.policy),
		Catalog:   Part{InUse: src.snap != nil, ReadAt: src.snapAt, Err: src.snapErr, Stale: src.snapErr != nil},
		Approvals: Part{InUse: src.snap != nil, ReadAt: src.feed.ReadAt, Err: unread, Stale: unread != nil},
		Expired:   src.expired(now, o.ApprovalHold) || src.stops.expired(now, o.ApprovalHold),
		Lost:      src.lost,
		Sync:      Syncs{Every: o.SyncEvery},
	}
	if src.config.Value != nil {
		out.Warnings = warnings(config.Key, src.config.Value.Warnings)
		out.AuditRequired = src.config.Value.Audit.Required && o.Audit != nil
		if src.config.Value.Audit.Required && o.Audit == nil {
			out.Warnings = append(out.Warnings, config.Key+": audit.required has no effect here: the log is kept after a call was answered, and no call waits for it.")
		}
	}
	out.Warnings = append(out.Warnings, warnings(policy.Key, src.policy.Value.Warnings())...)
	if src.snap != nil {
		out.Catalog.Version = src.snap.SHA256()
		cur := src.snap.Current()
		out.Sync.At, out.Sync.Failed = cur.SyncedAt, cur.Failed
		out.Restored, out.Forgotten, out.Rebuilt = cur.Restored, cur.Forgotten, cur.Rebuilt
	}
	if d := src.feed.Decisions; d != nil && !d.Newest.IsZero() {
		out.Approvals.Version = d.Newest.UTC().Format(time.RFC3339Nano)
	}
	return out
}

// part is how one of the operator's files was last read.
func part[T any](s object.Source[T]) Part {
	return Part{Version: s.Version, Stored: s.Stored, InUse: s.Value != nil, ReadAt: s.ReadAt, Err: cmp.Or(s.Unread, s.Refused), Stale: s.Stale()}
}

// warnings returns what looks wrong in a file, one line each.
func warnings(file string, faults config.Faults) []string {
	out := make([]string, len(faults))
	for i, f := range faults {
		out[i] = f.In(file)
	}
	return out
}

// failure returns the newer of two failures, unless a sync has worked since.
func (s Syncs) failure(own *catalog.Failure) *catalog.Failure {
	f := s.Failed
	if own != nil && own.At.After(s.At) && (f == nil || own.At.After(f.At)) {
		f = own
	}
	return f
}

// logChanges writes one line for each part whose error is not the one of the last
// refresh, and one for those that can be read again.
func (l *Loader) logChanges(ctx context.Context, before, after Health) {
	if after.Lost && !before.Lost {
		l.o.Log.LogAttrs(ctx, slog.LevelError, "the approval store lost records that the tool catalog knows; the next sync puts them back")
	}
	var again []string
	for _, p := range []struct {
		name    string
		was, is Part
	}{
		{"config", before.Config, after.Config},
		{"policy", before.Policy, after.Policy},
		{"catalog", before.Catalog, after.Catalog},
		{"approvals", before.Approvals, after.Approvals},
	} {
		was, is := p.was.Err, p.is.Err
		switch {
		case is != nil && (was == nil || was.Error() != is.Error()):
			l.o.Log.LogAttrs(ctx, slog.LevelWarn, "state cannot be refreshed",
				slog.String("part", p.name), slog.Bool("older_in_use", p.is.InUse), slog.Any("error", is))
		case is == nil && was != nil:
			again = append(again, p.name)
		}
	}
	if len(again) > 0 {
		l.o.Log.LogAttrs(ctx, slog.LevelInfo, "state is refreshed again", slog.String("parts", strings.Join(again, ",")))
	}
}

// missing reports whether err says that there is no such object.
func missing(err error) bool { return errors.Is(err, object.ErrNotFound) }
