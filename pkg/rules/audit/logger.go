package audit

import (
	"context"
	"log/slog"
)

// NewLogger returns a Sink that writes each line to a log whose lines are JSON, where the platform keeps
// the log. It is for what has no line of its own there, which are events.
func NewLogger(log *slog.Logger) Sink { return logger{log} }

type logger struct{ log *slog.Logger }

func (l logger) Write(ctx context.Context, line Line) error {
	l.log.LogAttrs(ctx, slog.LevelInfo, "audit", line.Attrs()...)
	return nil
}
