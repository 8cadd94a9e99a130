package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
)

const (
	// keepSuperseded is how long the object of a superseded shard stays.
	keepSuperseded = 24 * time.Hour

	// maxSuperseded is how many superseded shards stay, not counting a shard that was superseded
	// within inFlight. Without a maximum, a server that changes at each sync would fill the store.
	// A reader of the old current.json loads its shards within seconds, and reads current.json
	// again after half a minute.
	maxSuperseded = 32
	inFlight      = 15 * time.Minute

	// maxListed is the maximum length of [Current.Superseded], even if objects cannot be removed.
	maxListed = 1000
)

// supersede adds to cur the shards that next no longer has, and removes objects that were replaced
// long ago. It returns the shards of next that were on the list of replaced shards: another sync
// may remove their objects now.
func (r *run) supersede(ctx context.Context, cur *Current, next *Snapshot) (again []*shard) {
	used := map[string]*shard{}
	for _, part := range next.shards {
		used[part.sha256] = part
	}
	list := slices.Clone(r.prev.Superseded)
	for _, old := range r.prev.Shards {
		if used[old.SHA256] == nil {
			list = slices.DeleteFunc(list, func(s Superseded) bool { return s.SHA256 == old.SHA256 })
			list = append(list, Superseded{old.SHA256, cur.SyncedAt})
		}
	}
	for i, s := range list {
		age := cur.SyncedAt.Sub(s.At)
		switch {
		case used[s.SHA256] != nil:
			again = append(again, used[s.SHA256])
		case age < inFlight, age < keepSuperseded && len(list)-i <= maxSuperseded, !r.remove(ctx, s.SHA256):
			cur.Superseded = append(cur.Superseded, s)
		}
	}
	cur.Superseded = cur.Superseded[max(0, len(cur.Superseded)-maxListed):]
	return again
}

// remove removes the object of a shard that the last catalog has replaced, and reports whether the
// object is gone. If another sync has written current.json since, remove removes nothing: the
// shard may be in use again.
func (r *run) remove(ctx context.Context, sha256 string) bool {
	if _, err := r.objects.Get(ctx, CurrentKey, r.ifMatch); !errors.Is(err, object.ErrNotModified) {
		return false
	}
	err := r.objects.Delete(ctx, Key(sha256))
	if err != nil {
		r.o.Log.LogAttrs(ctx, slog.LevelWarn, "superseded shard of the catalog not removed", slog.String("shard", sha256), slog.Any("error", err))
	}
	return err == nil
}

// storeMissing stores the objects of these shards again if a concurrent sync removed them.
func storeMissing(ctx context.Context, objects object.Store, shards []*shard) error {
	for _, part := range shards {
		_, err := objects.Get(ctx, Key(part.sha256), "")
		if errors.Is(err, object.ErrNotFound) {
			_, err = objects.Put(ctx, Key(part.sha256), part.blob, "")
		}
		if err != nil {
			return fmt.Errorf("store catalog %s: %w", part.sha256, err)
		}
	}
	return nil
}
