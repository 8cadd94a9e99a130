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
	maxStderrLine = 4 << 10 // bytes that are read of a line
	maxLogged     = 512     // characters that are logged of it
	lastLines     = 24      // that are kept: a stack trace hides the line that says what is wrong
	shownLines    = 3       // of these, in the text of an [ExitError]

	// As many lines may come at once, and as many in each minute; what is more is counted.
	stderrBurst = 100
)

// A stderrLog writes the lines of a program's standard error to the log, so many of them in a
// minute and no more.
type stderrLog struct {
	log   *slog.Logger
	clean func(string) string

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
	lost := s.count > stderrBurst
	if lost && s.count%stderrBurst != 0 {
		return // nor is it cleaned, which costs more than reading it
	}
	said := string(l.Data)
	if s.clean != nil {
		said = s.clean(said)
	}
	if said = text.Clip(strings.TrimSpace(said), maxLogged); said == "" {
		return
	}
	s.lines = append(s.lines, said)
	s.lines = s.lines[max(0, len(s.lines)-lastLines):]
	if !lost {
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "program wrote to its standard error", slog.String("line", said))
	}
}

// tellLost logs how many lines of the last minute were not.
func (s *stderrLog) tellLost() {
	if lost := s.count - stderrBurst; lost > 0 {
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "program wrote more to its standard error than is logged", slog.Int("lines", lost))
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
