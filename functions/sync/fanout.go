package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

// A record is a message as Lambda delivers it.
type record struct {
	ID     string `json:"messageId"`
	Body   string `json:"body"`
	Source string `json:"eventSource"`
}

// parseRecords returns the messages of an SQS event, or none for an event of another kind.
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
		return nil, nil //nolint:nilerr // any other JSON is a direct invocation
	}
	for _, r := range e.Records {
		if r.Source != "aws:sqs" {
			return nil, fmt.Errorf("event of %q: this function handles only messages of its queue",
				r.Source)
		}
	}
	return e.Records, nil
}

// A workHandler loads the servers that messages name. After an error SQS delivers the message
// again, and finally moves it to the dead-letter queue.
type workHandler struct {
	do  func(context.Context, catalog.Job) (catalog.LoadReport, error) // [catalog.Syncer.Work]
	log *slog.Logger
}

// Invoke implements [lambda.Handler].
func (h workHandler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	records, err := parseRecords(payload)
	if err == nil && len(records) == 0 {
		err = errors.New("event holds no message: this function handles only messages of the " +
			"work queue; to start a sync invoke the sync function")
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
			return nil, errors.New("not all servers were loaded; the results so far are kept, " +
				"SQS delivers the message again, and the log says why")
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

// An assembleHandler assembles the catalog once in each invocation, with messages or without.
type assembleHandler struct {
	assemble func(context.Context) (catalog.Report, error)
	log      *slog.Logger
}

// Invoke implements [lambda.Handler]. A failed assembly counts as a failed sync, but is not an
// error of the message: SQS would deliver the message again after minutes, and delay the messages
// behind it. The next round requests another assembly.
func (h assembleHandler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	records, err := parseRecords(payload)
	if err != nil {
		return nil, err
	}
	e := event{trigger: "invoke"}
	for _, r := range records {
		e.trigger = "round"
		// Even an unreadable message counts: the queue contains only requests for an assembly.
		if _, err := catalog.ParseJob([]byte(r.Body)); err != nil {
			h.log.LogAttrs(ctx, slog.LevelError, "message cannot be read; the catalog is assembled anyway",
				slog.String("message_id", r.ID), slog.Any("error", err))
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
