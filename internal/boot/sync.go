package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/object"
)

// A SyncEvent is what started a sync, as far as it matters.
type SyncEvent struct {
	Trigger string // schedule, config, admin or invoke
	Key     string // of the object that changed; "": none did
}

// configPrefix is where what a sync reads lies. What it writes lies elsewhere: an event
// about that must not start another one.
const configPrefix = "config/"

// Wanted reports whether the event asks for a sync.
func (e SyncEvent) Wanted() bool {
	return e.Trigger != "config" || strings.HasPrefix(e.Key, configPrefix)
}

// ParseSyncEvent takes the schedule's event, an object event in EventBridge's shape
// and in S3's own, and whatever a direct invocation holds. Any JSON is an event.
func ParseSyncEvent(payload []byte) (SyncEvent, error) {
	if len(payload) == 0 {
		return SyncEvent{Trigger: "invoke"}, nil
	}
	if !json.Valid(payload) {
		return SyncEvent{}, errors.New("event is not JSON")
	}
	var e struct {
		Source string `json:"source"`
		Event  string `json:"Event"` // of the message by which S3 tries out a new notification
		Detail struct {
			Object struct {
				Key string `json:"key"`
			} `json:"object"`
		} `json:"detail"`
		Records []struct {
			Source string `json:"eventSource"`
			S3     struct {
				Object struct {
					Key string `json:"key"`
				} `json:"object"`
			} `json:"s3"`
		} `json:"Records"`
	}
	if json.Unmarshal(payload, &e) != nil {
		return SyncEvent{Trigger: "invoke"}, nil //nolint:nilerr // JSON of another form is somebody's own, and asks for a sync
	}
	switch {
	case e.Source == "aws.events" || e.Source == "aws.scheduler":
		return SyncEvent{Trigger: "schedule"}, nil
	case e.Source == "aws.s3":
		return SyncEvent{Trigger: "config", Key: e.Detail.Object.Key}, nil
	case e.Source == "portcullis.admin":
		return SyncEvent{Trigger: "admin"}, nil
	case e.Event == "s3:TestEvent":
		return SyncEvent{Trigger: "config"}, nil
	}
	out := SyncEvent{Trigger: "invoke"}
	for _, r := range e.Records {
		if r.Source != "aws:s3" {
			continue
		}
		key, err := url.QueryUnescape(r.S3.Object.Key) // that shape, unlike EventBridge's, has it encoded
		if err != nil {
			return SyncEvent{}, fmt.Errorf("event: object key: %w", err)
		}
		if out = (SyncEvent{"config", key}); out.Wanted() {
			break
		}
	}
	return out, nil
}

// A SyncResult is what the sync function answers: numbers and codes, nothing that a
// server wrote.
type SyncResult struct {
	Result     string         `json:"result"` // ok or skipped
	Trigger    string         `json:"trigger"`
	Config     string         `json:"config,omitempty"` // version of the config that was used
	Stale      bool           `json:"config_stale,omitempty"`
	Faults     []string       `json:"config_faults,omitempty"` // why the stored config is not in use
	OldPolicy  bool           `json:"policy_stale,omitempty"`
	Tools      int            `json:"tools"`
	New        int            `json:"new"`
	Changed    int            `json:"changed"`
	Unasked    int            `json:"unasked,omitempty"` // servers that there was no time for
	Stored     bool           `json:"stored"`
	Superseded bool           `json:"superseded,omitempty"`
	DurationMS int64          `json:"duration_ms"`
	Servers    []SyncedServer `json:"servers,omitempty"`
}

// A SyncedServer is one server's part of a [SyncResult].
type SyncedServer struct {
	Name   string `json:"name"`
	Status string `json:"status"` // an outcome's, or disabled
	Reason string `json:"reason,omitempty"`
	Tools  int    `json:"tools"`
}

// A SyncHandler runs a sync for each event that asks for one.
type SyncHandler struct{ Program *Program }

// Invoke implements [Handler]. Lambda shows its error to the one who invoked, so that
// holds no cause; the log does.
func (h SyncHandler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	e, err := ParseSyncEvent(payload)
	if err != nil {
		return nil, err
	}
	if !e.Wanted() {
		h.Program.Log.LogAttrs(ctx, slog.LevelInfo, "event asks for no sync", slog.String("trigger", e.Trigger), slog.String("key", e.Key))
		h.Program.count(ctx, h.Program.Metrics.Sync("skipped", 0, 0, 0))
		return json.Marshal(SyncResult{Result: "skipped", Trigger: e.Trigger})
	}
	h.Program.Log.LogAttrs(ctx, slog.LevelInfo, "sync begins", slog.String("trigger", e.Trigger), slog.String("key", e.Key))
	r, err := h.Program.Sync(ctx)
	if err != nil {
		h.Program.Log.LogAttrs(ctx, slog.LevelError, "sync failed", slog.Any("error", err))
		return nil, syncFailure(err)
	}
	return json.Marshal(newSyncResult(e, r))
}

// syncFailure says what of a failure the one who invoked may read.
func syncFailure(err error) error {
	switch {
	case errors.Is(err, catalog.ErrRequired):
		return errors.New("sync failed: a required server did not load; the old catalog stays")
	case isFaults(err):
		return errors.New("sync failed: there is no config that can be used")
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("sync failed: it ran out of time; the old catalog stays")
	}
	return errors.New("sync failed; the log says why")
}

func isFaults(err error) bool {
	_, ok := errors.AsType[config.Faults](err)
	return ok
}

func newSyncResult(e SyncEvent, r catalog.Report) SyncResult {
	out := SyncResult{
		Result: "ok", Trigger: e.Trigger, Config: r.Config, Stale: r.ConfigErr != nil, OldPolicy: r.PolicyErr != nil,
		Tools: r.Tools, New: r.New, Changed: r.Changed, Unasked: r.Unasked, Stored: r.Stored, Superseded: r.Superseded,
		DurationMS: r.Duration.Milliseconds(),
	}
	if errors.Is(r.ConfigErr, object.ErrGone) {
		out.Faults = []string{object.ErrGone.Error()}
	}
	if faults, ok := errors.AsType[config.Faults](r.ConfigErr); ok {
		for _, f := range faults {
			out.Faults = append(out.Faults, f.String())
		}
	}
	for _, s := range r.Servers {
		status := string(s.Outcome.Status)
		if !s.Enabled {
			status = "disabled"
		}
		out.Servers = append(out.Servers, SyncedServer{s.Name, status, s.Outcome.Reason, s.Tools})
	}
	return out
}
