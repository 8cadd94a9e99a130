package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/object"
)

const (
	// keepSuperseded is how long the object of a superseded snapshot stays.
	keepSuperseded = 24 * time.Hour

	// maxSuperseded is how many stay, as long as each has been superseded for longer than
	// inFlight: a server that changes at each sync would fill the store. Whoever has read the
	// old current.json loads the snapshot within seconds, and looks at current.json again
	// after half a minute.
	maxSuperseded = 32
	inFlight      = 15 * time.Minute

	// maxListed bounds the list itself, should objects not be removable.
	maxListed = 1000
)

// supersede adds to cur the snapshot that the one with this SHA-256 replaces, and removes the
// objects of those that were replaced long ago. It reports whether the snapshot itself was among
// the replaced, so that another sync may be removing it.
func (r *run) supersede(ctx context.Context, cur *Current, sha256 string) (again bool) {
	list := slices.Clone(r.prev.Superseded)
	if old := r.prev.SHA256; old != "" && old != sha256 {
		list = slices.DeleteFunc(list, func(s Superseded) bool { return s.SHA256 == old })
		list = append(list, Superseded{old, cur.SyncedAt})
	}
	for i, s := range list {
		age := cur.SyncedAt.Sub(s.At)
		switch {
		case s.SHA256 == sha256:
			again = true
		case age < inFlight, age < keepSuperseded && len(list)-i <= maxSuperseded, !r.remove(ctx, s.SHA256):
			cur.Superseded = append(cur.Superseded, s)
		}
	}
	cur.Superseded = cur.Superseded[max(0, len(cur.Superseded)-maxListed):]
	return again
}

// remove removes the object of a snapshot that was replaced as of the catalog that this run goes on
// from, and reports whether it is gone. If that catalog has moved, nothing is removed: the snapshot
// may be in use again.
func (r *run) remove(ctx context.Context, sha256 string) bool {
	if _, err := r.objects.Get(ctx, CurrentKey, r.ifMatch); !errors.Is(err, object.ErrNotModified) {
		return false
	}
	err := r.objects.Delete(ctx, Key(sha256))
	if err != nil {
		r.o.Log.LogAttrs(ctx, slog.LevelWarn, "superseded catalog not removed", slog.String("snapshot", sha256), slog.Any("error", err))
	}
	return err == nil
}

// storeMissing stores the object of s again if a concurrent sync removed it.
func storeMissing(ctx context.Context, objects object.Store, s *Snapshot) error {
	_, err := objects.Get(ctx, Key(s.sha256), "")
	if errors.Is(err, object.ErrNotFound) {
		_, err = objects.Put(ctx, Key(s.sha256), s.blob, "")
	}
	if err != nil {
		return fmt.Errorf("store catalog %s: %w", s.sha256, err)
	}
	return nil
}
