package catalog

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
)

// Values of [Failure.Reason]: why a sync failed.
const (
	FailedConfig   = "config"    // there is no config that can be used
	FailedRequired = "required"  // a required server did not load
	FailedTime     = "time"      // it ran out of time
	FailedDisk     = "disk_full" // there is no space left to store anything
	FailedNewer    = "newer"     // the stored catalog is of a newer version of the program
	FailedStore    = "store"     // a store could not be read or written
)

// failureTime is how long a failed sync tries to record its failure.
const failureTime = 2 * time.Second

// A Failure says that syncs fail. It contains codes and the names of servers. Only the log contains
// the causes.
type Failure struct {
	Since   time.Time `json:"since"` // start of the first failed sync after the last success
	At      time.Time `json:"at"`    // end of the newest failed sync
	Reason  string    `json:"reason"`
	Servers []string  `json:"servers,omitempty"` // required servers that did not load
}

// Failure returns why the reported sync failed, from the error err of this sync. It returns nil if
// err is nil, or if the caller canceled the sync.
func (r Report) Failure(err error) *Failure {
	if err == nil || errors.Is(err, context.Canceled) {
		return nil
	}
	f := &Failure{Since: r.StartedAt, At: r.StartedAt.Add(r.Duration), Reason: FailedStore}
	switch {
	case r.Config == "" && r.ConfigErr != nil:
		f.Reason = FailedConfig
	case errors.Is(err, ErrRequired):
		f.Reason = FailedRequired
		for _, s := range r.Missing() {
			f.Servers = append(f.Servers, s.Name)
		}
	case errors.Is(err, ErrNewer):
		f.Reason = FailedNewer
	case errors.Is(err, context.DeadlineExceeded):
		f.Reason = FailedTime
	case errors.Is(err, syscall.ENOSPC):
		f.Reason = FailedDisk
	}
	return f
}

// keepFailure writes f and the servers' outcomes into current.json, so that every process that
// reads the catalog sees the failure. The catalog stays in use. The write may fail for the same
// reason as the sync. If the sync failed for lack of a config, keepFailure writes nothing. It never
// changes a current.json of a newer program.
func (r *run) keepFailure(ctx context.Context, f *Failure) {
	if f == nil || f.Reason == FailedConfig || f.Reason == FailedNewer {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failureTime)
	defer cancel()
	// A conflict means that another sync ended just now; its result counts.
	if err := r.moveFailure(ctx, *f); err != nil && !errors.Is(err, object.ErrNotFound) && !errors.Is(err, object.ErrConflict) {
		r.o.Log.LogAttrs(ctx, slog.LevelWarn, "failure of the sync not kept", slog.Any("error", err))
	}
}

func (r *run) moveFailure(ctx context.Context, f Failure) error {
	o, match, err := getCurrent(ctx, r.objects, "")
	if err != nil {
		return err
	}
	cur, err := parseCurrent(o.Data)
	if err != nil {
		return err
	}
	if cur.StartedAt.After(r.began) {
		return nil // a sync that began later succeeded
	}
	if cur.Failed != nil {
		f.Since = cur.Failed.Since
	}
	cur.Format, cur.Failed = Format, &f
	if len(r.servers) > 0 {
		cur.Outcomes = r.triedOutcomes()
		cur.Restored = max(cur.Restored, r.report.Recovered)
	}
	data, err := cur.encode()
	if err != nil {
		return err
	}
	_, err = r.objects.Put(ctx, CurrentKey, data, match)
	return err
}
