package audit

import (
	"context"
	"errors"
)

// A Sink keeps lines. It is safe for concurrent use.
type Sink interface {
	// Write keeps a line, or returns the reason why it cannot. It shortens long texts of the line.
	// It writes even if ctx has ended.
	Write(ctx context.Context, l Line) error
}

// A batcher is a [Sink] that writes many lines in one operation, which costs less than one write
// for each.
type batcher interface {
	// WriteAll writes each line as [Sink.Write] does, in order. If it returns an error, it may have
	// kept some lines.
	WriteAll(ctx context.Context, lines []Line) error
}

// A Readier is a [Sink] that can report before a call whether it could keep a line.
type Readier interface {
	// Ready returns the reason why a line could not be kept now. nil: there is space for the lines
	// of all calls that got nil from Ready and have not ended.
	Ready(ctx context.Context) error
}

// A Log writes each line to all of its sinks. A nil Log has no sinks, and keeps nothing.
type Log struct{ sinks []Sink }

// NewLog returns a Log with these sinks.
func NewLog(sinks ...Sink) *Log { return &Log{sinks} }

// Write writes a line to every sink, even if one of them fails.
func (l *Log) Write(ctx context.Context, line Line) error {
	if l == nil {
		return nil
	}
	faults := make([]error, len(l.sinks))
	for i, s := range l.sinks {
		faults[i] = s.Write(ctx, line)
	}
	return errors.Join(faults...)
}

// WriteAll writes lines to every sink, even if one of them fails.
func (l *Log) WriteAll(ctx context.Context, lines []Line) error {
	if l == nil || len(lines) == 0 {
		return nil
	}
	var faults []error
	for _, s := range l.sinks {
		if b, ok := s.(batcher); ok {
			faults = append(faults, b.WriteAll(ctx, lines))
			continue
		}
		for _, line := range lines {
			faults = append(faults, s.Write(ctx, line))
		}
	}
	return errors.Join(faults...)
}

// Ready returns the reason why a line could not be kept now. nil: every [Readier] among the sinks
// could keep a line.
func (l *Log) Ready(ctx context.Context) error {
	if l == nil {
		return nil
	}
	for _, s := range l.sinks {
		if r, ok := s.(Readier); ok {
			if err := r.Ready(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
