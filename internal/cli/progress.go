package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

const (
	quietFor  = time.Second // at the beginning: work that ends earlier shows nothing
	drawEvery = 200 * time.Millisecond
	lineEvery = time.Second // at first; the interval doubles up to lineMost
	lineMost  = 30 * time.Second
	barWidth  = 24
	barLine   = 78 // characters of a drawn line
)

// A progress shows the progress of long work: on a terminal as a bar, elsewhere as occasional
// lines. It shows nothing in the first second. It is safe for concurrent use. The caller of begin
// must also call end.
type progress struct {
	w        io.Writer
	terminal bool
	what     string // the work: "syncing"
	one      string // singular of the counted things: "server"
	quiet    time.Duration

	mu          sync.Mutex
	done, total int    // total 0: unknown
	last        string // name of the last finished thing
	began       time.Time
	every       time.Duration
	timer       *time.Timer // nil: it does not run
}

// newProgress returns a progress on w, which draws if w is a terminal.
func newProgress(w io.Writer, terminal bool, what, one string) *progress {
	return &progress{w: w, terminal: terminal, what: what, one: one, quiet: quietFor}
}

// begin starts the progress of total things, or starts it again from zero. total 0: unknown.
func (p *progress) begin(total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	p.done, p.total, p.last, p.began, p.every = 0, total, "", time.Now(), lineEvery
	p.timer = time.AfterFunc(p.quiet, p.show)
}

// step sets the number of finished things, and the last of them. last may be "".
func (p *progress) step(done int, last string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.last = done, last
}

// end removes the drawing and stops the progress.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
}

func (p *progress) stop() {
	if p.timer == nil {
		return
	}
	p.timer.Stop()
	p.timer = nil
	if p.terminal && time.Since(p.began) >= p.quiet {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil { // end was called at this moment
		return
	}
	if p.terminal {
		fmt.Fprintf(p.w, "\r%s\x1b[K", text.Clip(p.bar()+p.line(), barLine))
		p.timer.Reset(drawEvery)
		return
	}
	fmt.Fprintln(p.w, p.line())
	p.timer.Reset(p.every)
	p.every = min(2*p.every, lineMost)
}

// bar returns the progress as a bar.
func (p *progress) bar() string {
	if p.total == 0 {
		return ""
	}
	full := min(barWidth, barWidth*p.done/p.total)
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", barWidth-full) + "] "
}

// line returns the progress in words.
func (p *progress) line() string {
	took := fmt.Sprintf("%d s", int(time.Since(p.began).Seconds()))
	if p.total == 0 {
		return p.what + ": " + took
	}
	s := fmt.Sprintf("%s: %d of %s, %s", p.what, p.done, text.Count(p.total, p.one), took)
	if p.last != "" {
		s += ", " + inLine(p.last)
	}
	return s
}

// sync shows the progress of a sync.
func (p *progress) sync(now catalog.Progress) {
	switch {
	case now.Done == 0 && now.Total > 0:
		p.begin(now.Total)
	case now.Outcome.Recorded():
		p.step(now.Done, fmt.Sprintf("%q is %s", now.Outcome.ServerID, now.Outcome.Status))
	default:
		p.step(now.Done, "")
	}
	if now.Done == now.Total {
		p.end()
	}
}
