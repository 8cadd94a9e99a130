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

// Objects of a sync that many processes share. The folder loadResultFolder has the load result of
// each server. The object planKey has the servers that were sent to workers.
const (
	loadResultFolder = "catalog/servers"
	planKey          = "catalog/planned.json"
)

// loadResultFormat is the format number of a [loadResult]; see [Format].
const loadResultFormat = 1

// A loadResult is the stored result of one load of a server. It has a line of JSON and then a
// catalog that contains only this server. It is one object, so that no reader sees the outcome of
// one load with the tools of another.
type loadResult struct {
	Format    int             `json:"format"`
	Name      string          `json:"name"`
	Identity  string          `json:"identity"` // as in [ServerState]
	Began     time.Time       `json:"began"`    // start of the load, before its records were read
	Outcome   outcome.Outcome `json:"outcome"`
	Listed    bool            `json:"listed,omitempty"`    // the server has listed something under this name
	Restored  int             `json:"restored,omitempty"`  // restored records that wait for a person
	Forgotten bool            `json:"forgotten,omitempty"` // as in [ServerState]
	Rebuilt   bool            `json:"rebuilt,omitempty"`   // as in [Current]
	Since     time.Time       `json:"since"`               // as in [ServerState]
	Baselines []string        `json:"baselines,omitempty"` // of [serverRun].place; as in [Current]

	catalog *Snapshot
	etag    string
}

// loadResultKey returns the object key of a server's load result. Not every server's name is valid
// in a key.
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
		return f, fmt.Errorf("%w: format %d, this program reads %d", ErrNewer, f.Format, loadResultFormat)
	}
	f.catalog, err = Decode(blob)
	return f, err
}

// readLoadResult returns the load result of a server. Without a usable result, f has only the ETag
// of the object, or [object.IfAbsent] if there is no object.
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
			"load result of a server unusable, replaced",
			slog.String("server", server), slog.Any("error", err))
		return loadResult{etag: o.ETag}, nil
	case err != nil:
		return f, fmt.Errorf("read load result of %q: %w", server, err)
	}
	return f, nil
}

// noteBaselines adds the baselines of f to the run: these first lists of the server were used.
func (r *run) noteBaselines(f loadResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range f.Baselines {
		r.taken[key] = true
	}
}

// isBase reports whether the last catalog has the content of f, or f is newer than that catalog.
func (r *run) isBase(f loadResult) bool {
	k, ok := r.known[f.Name]
	return !ok || k.Found != "" || f.Began.After(r.prev.StartedAt)
}

// put stores the load result of l, unless the stored result is of a load that began later.
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
		if f.etag != "" { // not the first attempt: another process has stored a result
			if held, err = u.readLoadResult(ctx, f.Name); err != nil {
				return false, err
			}
			if held.catalog != nil && !held.Began.Before(u.began) {
				return false, nil
			}
		}
		f.etag = held.etag
		if _, err := u.objects.Put(ctx, loadResultKey(f.Name), data, held.etag); err != nil {
			return false, fmt.Errorf("store load result of %q: %w", f.Name, err)
		}
		return true, nil
	})
}

// isLoadResultKey reports whether key belongs to a load result.
func isLoadResultKey(key string) bool {
	return strings.HasPrefix(key, loadResultFolder+"/") && strings.HasSuffix(key, ".found")
}
