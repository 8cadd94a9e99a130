package process

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/linereader"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

const (
	maxStderrLine = 4 << 10 // bytes of a line to read
	maxLogged     = 512     // characters of it to log
	lastLines     = 24      // to keep: a stack trace hides the line with the error
	shownLines    = 3       // of these, in the text of an [ExitError]

	// The log accepts this many lines at once, and this many each minute. It counts the others.
	stderrBurst = 100
)

// A stderrLog logs the lines of a program's standard error, with a limit per minute.
type stderrLog struct {
	log   *slog.Logger
	clean func(string) string
	wrote func(string)

	mu    sync.Mutex
	lines []string
	since time.Time // when the minute began
	count int       // of lines in it
}

func (s *stderrLog) line(l linereader.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.since) >= time.Minute {
		s.tellLost()
		s.since, s.count = now, 0
	}
	s.count++
	isOver := s.count > stderrBurst
	if isOver && s.count%stderrBurst != 0 {
		return // skip the cleaning, which costs more than reading
	}
	output := string(l.Data)
	if s.clean != nil {
		output = s.clean(output)
	}
	if output = text.Clip(strings.TrimSpace(output), maxLogged); output == "" {
		return
	}
	s.lines = append(s.lines, output)
	s.lines = s.lines[max(0, len(s.lines)-lastLines):]
	if s.wrote != nil {
		s.wrote(output)
	}
	if !isOver {
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "program wrote to its standard error", slog.String("line", output))
	}
}

// tellLost logs how many lines of the last minute were not logged.
func (s *stderrLog) tellLost() {
	if lost := s.count - stderrBurst; lost > 0 {
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "standard error of program exceeded the log limit", slog.Int("lines", lost))
	}
}

func (s *stderrLog) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellLost()
	s.count = 0
}

// last returns the last lines, each quoted.
func (s *stderrLog) last() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, line := range s.lines {
		out = append(out, fmt.Sprintf("%q", line))
	}
	return out
}
