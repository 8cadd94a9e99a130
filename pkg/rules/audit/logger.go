package audit

import (
	"context"
	"log/slog"
)

// NewLogger returns a Sink that writes each line to a JSON log, for platforms that keep the log. It
// is for events, which such a log would otherwise lack.
func NewLogger(log *slog.Logger) Sink { return logger{log} }

type logger struct{ log *slog.Logger }

func (l logger) Write(ctx context.Context, line Line) error {
	l.log.LogAttrs(ctx, slog.LevelInfo, "audit", line.Attrs()...)
	return nil
}
