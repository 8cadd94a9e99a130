package auditevent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Files records which versions of the operator's files come into use and which are refused. It
// compares contents, so all processes together record each change once. It is safe for concurrent
// use.
type Files struct {
	Events audit.Events
	Audit  *audit.Log       // nil: none
	Now    func() time.Time // nil: time.Now
	Log    *slog.Logger

	// Refused, if set, is called once for each refused version, by the process that records it.
	Refused func(ctx context.Context, r Refused)

	mu   sync.Mutex
	seen map[string]string // state of each file in the last record of this process
}

// A Refused is a version of a file that does not come into use.
type Refused struct {
	Key    string
	Hash   tool.Hash // of the version; "": the file is gone
	At     time.Time
	Faults int
	Stays  bool // an earlier version stays in use
}

// actorFile is the actor of these events, because no signed-in person changes a file.
const actorFile = "config"

// See records changes of the files.
func (f *Files) See(ctx context.Context, h state.Health) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.see(ctx, catalog.ConfigFile.Key, h.Config, audit.ActionConfigTaken, audit.ActionConfigRefused)
	f.see(ctx, catalog.PolicyFile.Key, h.Policy, audit.ActionPolicyTaken, audit.ActionPolicyRefused)
}

func (f *Files) see(ctx context.Context, key string, p state.Part, taken, refused string) {
	l := audit.Line{V: audit.Version, Time: f.now(), Kind: audit.KindEvent, Actor: actorFile, Subject: audit.AboutFile + ":" + key}
	stays := "; an earlier version stays in use"
	if !p.InUse {
		stays = "; none is in use"
	}
	faults, _ := errors.AsType[config.Faults](p.Err)
	switch {
	case p.Stored != "":
		l.Action, l.Hash, l.Note = refused, tool.Hash(p.Stored), text.Count(max(len(faults), 1), "fault")+stays
	case errors.Is(p.Err, object.ErrGone):
		l.Action, l.Note = refused, "the file is gone"+stays
	case p.Version != "" && p.Err == nil:
		l.Action, l.Hash = taken, tool.Hash(p.Version)
	default: // nothing changed
		return
	}
	now := l.Action + " " + string(l.Hash)
	if f.seen[key] == now {
		return
	}
	changed, err := f.Events.PutChange(ctx, l, now)
	if err != nil {
		f.Log.LogAttrs(ctx, slog.LevelError, "file version not stored in the audit", slog.String("file", key), slog.String("action", l.Action), slog.Any("error", err))
		return
	}
	if f.seen == nil {
		f.seen = map[string]string{}
	}
	f.seen[key] = now
	if !changed {
		return
	}
	if err := f.Audit.Write(ctx, l); err != nil {
		f.Log.LogAttrs(ctx, slog.LevelError, "file version not written to the lines of calls", slog.String("file", key), slog.Any("error", err))
	}
	if f.Refused != nil && l.Action == refused {
		f.Refused(ctx, Refused{key, l.Hash, l.Time, max(len(faults), 1), p.InUse})
	}
}

func (f *Files) now() time.Time {
	if f.Now != nil {
		return f.Now().UTC()
	}
	return time.Now().UTC()
}
