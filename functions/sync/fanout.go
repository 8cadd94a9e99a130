package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

// A record is a message as Lambda hands it out.
type record struct {
	ID     string `json:"messageId"`
	Body   string `json:"body"`
	Source string `json:"eventSource"`
}

// parseRecords returns the messages of an event of SQS; none, if it is an event of another kind.
func parseRecords(payload []byte) ([]record, error) {
	if len(payload) == 0 {
		return nil, nil
	}
	if !json.Valid(payload) {
		return nil, errors.New("event is not JSON")
	}
	var e struct {
		Records []record `json:"Records"`
	}
	if json.Unmarshal(payload, &e) != nil {
		return nil, nil //nolint:nilerr // JSON of another form is somebody's own
	}
	for _, r := range e.Records {
		if r.Source != "aws:sqs" {
			return nil, fmt.Errorf("event of %q: this function takes messages of its queue", r.Source)
		}
	}
	return e.Records, nil
}

// A workHandler asks the servers that messages name. Its error has a message come again, and in the end
// put aside.
type workHandler struct {
	do  func(context.Context, catalog.Job) (catalog.LoadReport, error) // [catalog.Syncer.Work]
	log *slog.Logger
}

// Invoke implements [lambda.Handler].
func (h workHandler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	records, err := parseRecords(payload)
	if err == nil && len(records) == 0 {
		err = errors.New("event holds no message: this function takes those of the work queue alone; to start a sync invoke the sync function")
	}
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if err := h.work(ctx, r); err != nil {
			h.log.LogAttrs(ctx, slog.LevelError, "servers not loaded", slog.String("message_id", r.ID), slog.Any("error", err))
			if errors.Is(err, catalog.ErrJob) {
				return nil, errors.New("message cannot be read; the log says why")
			}
			return nil, errors.New("servers not loaded to their end; what was found is kept, the message comes again, and the log says why")
		}
	}
	return []byte("null"), nil
}

func (h workHandler) work(ctx context.Context, r record) error {
	j, err := catalog.ParseJob([]byte(r.Body))
	if err != nil {
		return err
	}
	report, err := h.do(ctx, j)
	h.log.LogAttrs(ctx, slog.LevelInfo, "servers loaded", slog.String("message_id", r.ID), slog.String("round", j.Round.ID()), slog.Int("servers", len(report.Servers)),
		slog.Int("skipped", len(report.Skipped)), slog.Int("unasked", report.Unasked), slog.Int("stored", report.Put), slog.Int("recovered", report.Recovered))
	return err
}

// An assembleHandler makes the catalog whenever a message comes, or somebody invokes it.
type assembleHandler struct {
	assemble func(context.Context) (catalog.Report, error)
	log      *slog.Logger
}

// Invoke implements [lambda.Handler]. An assembly that fails is counted as a failed sync and is no
// error of the message: that would come again after minutes, and hold back those behind it. The next round asks for
// another.
func (h assembleHandler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	records, err := parseRecords(payload)
	if err != nil {
		return nil, err
	}
	e := event{trigger: "invoke"}
	for _, r := range records {
		e.trigger = "round"
		// Whatever it says, it was put where assemblies are asked for.
		if _, err := catalog.ParseJob([]byte(r.Body)); err != nil {
			h.log.LogAttrs(ctx, slog.LevelError, "message cannot be read; the catalog is assembled all the same", slog.String("message_id", r.ID), slog.Any("error", err))
		}
	}
	report, err := h.assemble(ctx)
	if err == nil {
		return json.Marshal(newResult(e, report))
	}
	h.log.LogAttrs(ctx, slog.LevelError, "catalog not assembled", slog.Any("error", err))
	if len(records) > 0 && ctx.Err() == nil {
		return json.Marshal(result{Result: "failed", Trigger: e.trigger})
	}
	return nil, syncFailure(err)
}
