package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
)

// loadResultFolder is where the object store holds what was found of servers, and planKey what is
// being asked, where many share the work of a sync.
const (
	loadResultFolder = "catalog/servers"
	planKey          = "catalog/planned.json"
)

// loadResultFormat is the number of the form of a [loadResult]; see [Format].
const loadResultFormat = 1

// A loadResult is what one load of a server found, as it lies in the object store: a line of JSON,
// and after it the catalog of this server alone. It is one object, so that no reader sees the
// outcome of one load with the tools of another.
type loadResult struct {
	Format    int             `json:"format"`
	Name      string          `json:"name"`
	Identity  string          `json:"identity"` // as in [ServerState]
	Began     time.Time       `json:"began"`    // when the load began: records are as of then, or later
	Outcome   outcome.Outcome `json:"outcome"`
	Listed    bool            `json:"listed,omitempty"`    // it has listed something under this name
	Restored  int             `json:"restored,omitempty"`  // records that the store had lost and nobody has settled
	Forgotten bool            `json:"forgotten,omitempty"` // as in [ServerState]
	Rebuilt   bool            `json:"rebuilt,omitempty"`   // its tools come from its records
	Since     time.Time       `json:"since"`               // as in [ServerState]
	Baselines []string        `json:"baselines,omitempty"` // of its place; as in [Current]

	catalog *Snapshot
	etag    string
}

// loadResultKey returns where what was found of a server lies. Not every name can be one of an
// object.
func loadResultKey(server string) string {
	key := loadResultFolder + "/" + server + ".found"
	if object.CheckKey(key) != nil {
		key = loadResultFolder + "/=" + object.Version([]byte(server)) + ".found"
	}
	return key
}

func (f loadResult) encode() ([]byte, error) {
	head, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{head, f.catalog.Encode()}, []byte("\n")), nil
}

// parseLoadResult reads what encode returns.
func parseLoadResult(data []byte) (f loadResult, err error) {
	head, blob, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return f, fmt.Errorf("%w: it is cut off", ErrUnusable)
	}
	if err := json.Unmarshal(head, &f); err != nil {
		return f, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if f.Format > loadResultFormat {
		return f, fmt.Errorf("%w: form %d, this program knows %d", ErrNewer, f.Format, loadResultFormat)
	}
	f.catalog, err = Decode(blob)
	return f, err
}

// readLoadResult returns what was found of a server. If nothing is there that can be used, the
// result has only the ETag of the object, or [object.IfAbsent] without one.
func (r *run) readLoadResult(ctx context.Context, server string) (f loadResult, err error) {
	o, err := r.objects.Get(ctx, loadResultKey(server), "")
	if errors.Is(err, object.ErrNotFound) {
		return loadResult{etag: object.IfAbsent}, nil
	}
	if err == nil {
		f, err = parseLoadResult(o.Data)
	}
	switch f.etag = o.ETag; {
	case errors.Is(err, ErrUnusable) || errors.Is(err, object.ErrDamaged),
		err == nil && f.Name != server:
		r.o.Log.LogAttrs(ctx, slog.LevelError,
			"what was found of a server cannot be used, and is replaced",
			slog.String("server", server), slog.Any("error", err))
		return loadResult{etag: o.ETag}, nil
	case err != nil:
		return f, fmt.Errorf("read what was found of %q: %w", server, err)
	}
	return f, nil
}

// noteBaselines notes which first lists were taken, as the stored result says.
func (r *run) noteBaselines(f loadResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range f.Baselines {
		r.taken[key] = true
	}
}

// isBase reports whether f is what the last catalog has of the server, or newer.
func (r *run) isBase(f loadResult) bool {
	k, ok := r.known[f.Name]
	return !ok || k.Found != "" || f.Began.After(r.prev.StartedAt)
}

// put stores what was found of l, unless a load that began later has done so.
func (u *unit) put(ctx context.Context, l *serverRun) (put bool, err error) {
	f := loadResult{
		Format: loadResultFormat, Name: l.server.Name, Identity: l.key, Began: u.began, Outcome: l.outcome,
		Listed: l.listed, Restored: l.restored, Forgotten: l.forgot, Rebuilt: l.rebuilt, Since: l.since,
	}
	u.mu.Lock()
	for _, key := range (ServerState{Place: l.place}).baselines() {
		if u.taken[key] {
			f.Baselines = append(f.Baselines, key)
		}
	}
	u.mu.Unlock()
	held := u.loadResults[l.server.Name]
	if l.input.Same && held.catalog != nil && u.bases[l.server.Name] == held.catalog {
		f.catalog = held.catalog
	} else if f.catalog, err = Rebuild(u.baseOf(l.server.Name), Input{Servers: []ServerInput{l.input}}); err != nil {
		return false, err
	}
	data, err := f.encode()
	if err != nil {
		return false, err
	}
	return document.Retry(ctx, object.ErrConflict, func() (put bool, err error) {
		if f.etag != "" { // another process has stored something since
			if held, err = u.readLoadResult(ctx, f.Name); err != nil {
				return false, err
			}
			if held.catalog != nil && !held.Began.Before(u.began) {
				return false, nil
			}
		}
		f.etag = held.etag
		if _, err := u.objects.Put(ctx, loadResultKey(f.Name), data, held.etag); err != nil {
			return false, fmt.Errorf("store what was found of %q: %w", f.Name, err)
		}
		return true, nil
	})
}

// isLoadResultKey reports whether key is that of something found.
func isLoadResultKey(key string) bool {
	return strings.HasPrefix(key, loadResultFolder+"/") && strings.HasSuffix(key, ".found")
}
