package audit

import (
	"context"
	"errors"
)

// A Sink keeps lines. It is safe for concurrent use.
type Sink interface {
	// Write keeps a line as of its return, or says why it could not. It bounds the texts of the line, and
	// the end of ctx does not keep it from writing.
	Write(ctx context.Context, l Line) error
}

// A batcher is a [Sink] that keeps many lines at once for less than one by one.
type batcher interface {
	// WriteAll is [Sink.Write] of each of these lines, in their order. With an error some may be kept.
	WriteAll(ctx context.Context, lines []Line) error
}

// A Readier is a [Sink] that can say beforehand whether it could keep a line.
type Readier interface {
	// Ready returns why a line could not be kept now; nil: there is room for those of all calls that
	// were told so and have not ended yet.
	Ready(ctx context.Context) error
}

// A Log hands each line to all of its sinks. A nil Log has none, and keeps nothing.
type Log struct{ sinks []Sink }

// NewLog returns a Log with these sinks.
func NewLog(sinks ...Sink) *Log { return &Log{sinks} }

// Write hands a line to every sink, whether or not one of them fails.
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

// WriteAll hands lines to every sink, whether or not one of them fails.
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

// Ready returns why a line could not be kept now; nil: every sink that can say so would.
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
