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

// A Health contains the facts about a State for the operator, the admin API and the metrics. Agents
// never see its errors. [Health.Reasons] describes the problems.
type Health struct {
	At time.Time // time of these facts

	Config    Part // Version: SHA-256 of mcp_config.json
	Policy    Part // Version: SHA-256 of policy.cedar
	Catalog   Part // Version: SHA-256 of the snapshot
	Approvals Part // Version: time of the newest known decision or otherwise of the catalog, RFC 3339

	// Expired says that the approvals or the stops could not be read for too long. Every tool then
	// counts as unknown if its server is enabled and no rule denies it.
	Expired bool

	Lost      bool     // the approval store lost records that the catalog has, and no sync has restored them
	Restored  int      // restored approval records that no person has confirmed
	Forgotten []string // servers whose decisions are lost, if no person has confirmed this
	Rebuilt   []string // servers whose tools come from approval records

	Sync    Syncs   // results of syncs
	Servers Servers // state of the configured servers

	Audit         error // why audit lines cannot be written
	AuditRequired bool  // if Audit is not nil, calls are refused
	AuditBytes    int64 // size of all audit files
	AuditLimit    int64 // maximum of AuditBytes; 0: none

	FullSince time.Time // since then, calls are refused because all processes are in use; zero: no
	Processes int       // maximum of server processes

	Capacity *capacity.Facts // resources of the process; nil: no limits

	Memory       int // MB of the function that runs this process; 0: it is no function
	MemoryNeeded int // MB that a function should have for the catalog in use

	SyncMemory       int // MB of the function that syncs; 0: not known
	SyncMemoryNeeded int // MB that it should have for the catalog in use

	// Warnings are suspicious but valid settings, one line each, with the file first.
	Warnings []string

	first map[string]time.Time // when each reason was first seen, by code
}

// A Part is the result of the last read of one part of a State.
type Part struct {
	Version string    // the version in use; "": none, or an empty policy
	Stored  string    // version of the stored file if the gateway refused it, otherwise ""
	InUse   bool      // some version is in use, even an old one
	ReadAt  time.Time // when the used version last matched the store
	Stale   bool      // the store has another version, or may have one
	Err     error     // why it is stale or missing; for the log and the admin API
}

// Syncs are the results of the last syncs.
type Syncs struct {
	At     time.Time        // end of the last successful sync; zero: unknown
	Every  time.Duration    // interval of syncs; 0: unknown
	First  bool             // the first sync of this process has not ended
	Failed *catalog.Failure // the last failure; nil: no sync has failed since At
}

// Servers are counts and names of the configured servers.
type Servers struct {
	Configured int
	Enabled    int
	Tried      int      // enabled servers that a sync has tried to load
	Available  int      // enabled servers that the last sync loaded
	Stopped    int      // enabled, and stopped
	Away       []string // names of servers that were tried, did not load, and are not stopped
	Tools      int      // of all configured servers
	Items      int      // prompts and resources of all configured servers
	Refused    []string // names of servers that list unsupported items
	Others     bool     // some of the unsupported items are not tools
	Unread     []string // names of servers with a list that could not be read
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
		Memory:    o.Memory, SyncMemory: o.SyncMemory,
	}
	if src.config.Value != nil {
		out.Warnings = warnings(config.Key, src.config.Value.Warnings)
		out.AuditRequired = src.config.Value.Audit.Required && o.Audit != nil
		if src.config.Value.Audit.Required && o.Audit == nil {
			out.Warnings = append(out.Warnings, config.Key+": audit.required has no effect here: the platform stores the log after the answer, and no call waits for it.")
		}
	}
	out.Warnings = append(out.Warnings, warnings(policy.Key, src.policy.Value.Warnings())...)
	if src.snap != nil {
		out.Catalog.Version = src.snap.SHA256()
		out.MemoryNeeded = catalog.MemoryNeeded(src.snap.Size())
		out.SyncMemoryNeeded = catalog.SyncMemoryNeeded(src.snap.Size())
		cur := src.snap.Current()
		out.Sync.At, out.Sync.Failed = cur.SyncedAt, cur.Failed
		out.Restored, out.Forgotten, out.Rebuilt = cur.Restored, cur.Forgotten, cur.Rebuilt
	}
	if d := src.feed.Decisions; d != nil && !d.Newest.IsZero() {
		out.Approvals.Version = d.Newest.UTC().Format(time.RFC3339Nano)
	}
	return out
}

// part returns the result of the last read of one of the operator's files.
func part[T any](s object.Source[T]) Part {
	return Part{Version: s.Version, Stored: s.Stored, InUse: s.Value != nil, ReadAt: s.ReadAt, Err: cmp.Or(s.Unread, s.Refused), Stale: s.Stale()}
}

// warnings returns the suspicious settings of a file, one line each.
func warnings(file string, faults config.Faults) []string {
	out := make([]string, len(faults))
	for i, f := range faults {
		out[i] = f.In(file)
	}
	return out
}

// failure returns the newer of s.Failed and own. It ignores own if a sync has succeeded since then.
func (s Syncs) failure(own *catalog.Failure) *catalog.Failure {
	f := s.Failed
	if own != nil && own.At.After(s.At) && (f == nil || own.At.After(f.At)) {
		f = own
	}
	return f
}

// logChanges logs each part whose error differs from the last refresh, and one line for the parts
// that the loader can read again.
func (l *Loader) logChanges(ctx context.Context, before, after Health) {
	if after.Lost && !before.Lost {
		l.o.Log.LogAttrs(ctx, slog.LevelError, "the approval store lost records that the tool catalog knows; the next sync puts them back")
	}
	var again []string
	for _, p := range []struct {
		name          string
		before, after Part
	}{
		{"config", before.Config, after.Config},
		{"policy", before.Policy, after.Policy},
		{"catalog", before.Catalog, after.Catalog},
		{"approvals", before.Approvals, after.Approvals},
	} {
		oldErr, newErr := p.before.Err, p.after.Err
		switch {
		case newErr != nil && (oldErr == nil || oldErr.Error() != newErr.Error()):
			l.o.Log.LogAttrs(ctx, slog.LevelWarn, "state cannot be refreshed",
				slog.String("part", p.name), slog.Bool("older_in_use", p.after.InUse), slog.Any("error", newErr))
		case newErr == nil && oldErr != nil:
			again = append(again, p.name)
		}
	}
	if len(again) > 0 {
		l.o.Log.LogAttrs(ctx, slog.LevelInfo, "state is refreshed again", slog.String("parts", strings.Join(again, ",")))
	}
}

// missing reports whether err means that the object does not exist.
func missing(err error) bool { return errors.Is(err, object.ErrNotFound) }
