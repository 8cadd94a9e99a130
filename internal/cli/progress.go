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
	quietFor  = time.Second // at the beginning: work that is done by then shows nothing
	drawEvery = 200 * time.Millisecond
	lineEvery = time.Second // the first; they become rarer, to one in half a minute
	lineMost  = 30 * time.Second
	barWidth  = 24
	barLine   = 78 // characters of a drawn line
)

// A progress shows how far long work is: on a terminal a bar that is drawn over and over, elsewhere a
// line now and then. It shows nothing in the first second, and nothing of what ended before.
// It is safe for concurrent use. Whoever begins one ends it.
type progress struct {
	w        io.Writer
	terminal bool
	what     string // is done: "syncing"
	one      string // of what there are several: "server"
	quiet    time.Duration

	mu          sync.Mutex
	done, total int    // total 0: nobody knows how much it is
	last        string // what ended last
	began       time.Time
	every       time.Duration
	timer       *time.Timer // nil: it does not run
}

// newProgress returns a progress on w, which is drawn if a terminal shows it.
func newProgress(w io.Writer, terminal bool, what, one string) *progress {
	return &progress{w: w, terminal: terminal, what: what, one: one, quiet: quietFor}
}

// begin starts anew.
func (p *progress) begin(total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	p.done, p.total, p.last, p.began, p.every = 0, total, "", time.Now(), lineEvery
	p.timer = time.AfterFunc(p.quiet, p.show)
}

// step says how much is done, and what was last; "": that does not matter.
func (p *progress) step(done int, last string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.last = done, last
}

// end ends it. What was drawn is removed.
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
	if p.timer == nil { // it ended at this moment
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

// bar returns how much is done as a picture.
func (p *progress) bar() string {
	if p.total == 0 {
		return ""
	}
	full := min(barWidth, barWidth*p.done/p.total)
	return "[" + strings.Repeat("#", full) + strings.Repeat("-", barWidth-full) + "] "
}

// line returns it in words.
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

// sync shows how far a sync is.
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
