package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/process"
)

const (
	maxPrograms  = 64               // that run at the same time
	maxOfAgent   = 24               // for one agent, unless the operator sets another number
	idleProgram  = 10 * time.Minute // without a call, before a program ends
	startProgram = 10 * time.Minute // to the first message; then the next handshake replaces it
	wellProgram  = time.Minute      // a program that lived longer did not fail at its start
	maxSleep     = time.Hour        // how long an ended program's listing stays valid
	maxBackoff   = time.Minute      // between two starts of a program that ends unexpectedly
	maxTelling   = 8                // messages to one program that are sent without waiting
	exitPatience = time.Second      // like stopPatience, when this process exits
	stopPatience = 5 * time.Second  // time before the first signal; see [process.Process.Stop]
	installTime  = 10 * time.Second // for a program that has to end during its installation
)

// A programs holds the servers that run as programs of this process: one program for each owner,
// like sessions.
type programs struct {
	host    *process.Host
	log     *slog.Logger
	idle    time.Duration                  // without a call, before a program ends
	start   time.Duration                  // minimum time from start to first message
	max     int                            // that run at the same time
	ofAgent func() int                     // for one agent
	changed func(string)                   // gets the name of a server whose program reports a changed list
	note    func(server string, m Message) // keeps a message; nil: nobody does

	mu    sync.Mutex
	slots map[entryKey]*slot
	all   map[*program]bool  // that have not ended
	lost  map[entryKey]int64 // sessions whose program ended to make room, and when (Unix, in ns)
	full  time.Time          // since when all programs are in use and starts are refused; zero: not now
}

func newPrograms(log *slog.Logger, ofAgent func() int, changed func(server string)) *programs {
	if ofAgent == nil {
		ofAgent = func() int { return maxOfAgent }
	}
	return &programs{
		note: func(string, Message) {},
		host: process.NewHost(maxPrograms), log: log, idle: idleProgram, start: startProgram, max: maxPrograms, ofAgent: ofAgent,
		changed: changed,
		slots:   map[entryKey]*slot{}, all: map[*program]bool{}, lost: map[entryKey]int64{},
	}
}

// A slot holds the program of one owner. The lock of programs guards it.
type slot struct {
	spec    process.Program // of the current or last program
	running *program        // nil: none
	users   int             // operations that use the program or wait for it
	evicted *program        // program that ends to make room for this slot; nil: none

	begun time.Time // of the last program

	ends  int        // unexpected ends in a row
	last  *exitError // of the last of these ends
	after time.Time  // no start before this time

	listed  outcome.Outcome // by the last successful load
	listing *Command        // the command of that load; nil: none
}

// errGone is a session whose program has ended.
var errGone = errors.New("the program of this session has ended")

// find returns the program for a request. If the program does not run, find starts it. If another
// program has to end first, find waits. If the program of the session has ended, the error is
// [errGone].
func (t programTransport) find(ctx context.Context, session string, opens bool) (*program, error) {
	for {
		p, other, err := t.look(session, opens)
		if other == nil {
			return p, err
		}
		select {
		case <-other.gone:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look works like find, but does not wait. If another program has to end first, look returns it as
// other.
func (t programTransport) look(session string, opens bool) (p, other *program, err error) {
	ps := t.programs
	ps.mu.Lock()
	defer ps.mu.Unlock()
	s := ps.slot(t.key)
	p = s.running
	changed := !reflect.DeepEqual(s.spec, t.program)
	if changed {
		s.spec, s.ends, s.after = t.program, 0, time.Time{}
	}
	if p != nil && (changed || opens && p.spent()) {
		s.running = nil
		go p.stop()
		p = nil
	}
	switch {
	case session != "" && (p == nil || p.sessionID() != session):
		return nil, nil, errGone
	case p != nil:
		p.use(t.key.load)
		return p, nil, nil
	case time.Now().Before(s.after):
		return nil, nil, s.last
	}
	if other, err = ps.makeRoom(s, t.key); other != nil || err != nil {
		return nil, other, err
	}
	if p, err = t.start(); err != nil {
		return nil, nil, err
	}
	s.running, s.begun, ps.all[p] = p, time.Now(), true
	go ps.watch(s, p)
	return p, nil, nil
}

// slot returns the slot of a key. The caller holds the lock.
func (ps *programs) slot(k entryKey) *slot {
	s := ps.slots[k]
	if s == nil {
		ps.forgetOld()
		s = &slot{}
		ps.slots[k] = s
	}
	return s
}

// hold records that an operation uses the program of a key, so that the program does not end to
// make room. It returns a function that records the end of the operation.
func (ps *programs) hold(k entryKey) (release func()) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	s := ps.slot(k)
	s.users++
	return func() {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		s.users--
		if s.running != nil {
			s.running.use(k.load)
		}
	}
}

// forgetOld drops slots without useful state.
func (ps *programs) forgetOld() {
	for k, s := range ps.slots {
		if s.running == nil && s.users == 0 && time.Since(s.after) > maxBackoff && time.Since(s.listed.CheckedAt) > maxSleep {
			delete(ps.slots, k)
		}
	}
}

// start starts the program.
func (t programTransport) start() (*program, error) {
	p := &program{
		key: t.key, gone: make(chan struct{}), shared: t.shared, id: rand.Text(), log: t.programs.log.With(slog.String("server", t.key.Server)),
		command: t.command, patience: max(t.programs.start, t.timeout),
		clean: t.redactor.text, note: func(m Message) { t.programs.note(t.key.Server, m) }, telling: make(chan struct{}, maxTelling), streams: map[int64]*programStream{}, tokens: map[string]*programStream{}, started: time.Now(), used: time.Now(),
	}
	p.changed = func() { t.programs.noteListChange(t.key.Server) }
	process, err := t.programs.host.Start(t.program, process.Options{
		Line: p.line, MaxLine: maxResponse - eventOverhead, Log: p.log, Clean: t.redactor.text, Finish: p.finishTime,
		Wrote: func(line string) { p.note(Message{Kind: messageStderr, Text: line}) },
	})
	if err != nil {
		return nil, err
	}
	p.process.Store(process)
	p.log.LogAttrs(context.Background(), slog.LevelInfo, "program started")
	p.note(Message{Kind: messageProgram, Text: "started"})
	return p, nil
}

// watch ends an idle program, and handles the unexpected end of a program.
func (ps *programs) watch(s *slot, p *program) {
	process := p.process.Load()
	for ended := false; !ended; {
		idle := time.NewTimer(ps.idle - p.unused())
		select {
		case <-process.ExitChannel():
			ended = true
		case <-idle.C:
			ps.mu.Lock()
			over := p.unused() >= ps.idle
			if over && s.running == p {
				s.running = nil // first, so that no new request gets it
			}
			ps.mu.Unlock()
			if over {
				p.stop()
			}
		}
		idle.Stop()
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.all, p)
	close(p.gone)
	exit := p.endRequests() // a new request of p now gets errGone and finds another program
	if s.running != p {     // the gateway ended the program
		p.log.LogAttrs(context.Background(), slog.LevelInfo, "program ended", slog.String("how", exit.Error()))
		p.note(Message{Kind: messageProgram, Text: "ended by the gateway"})
		return
	}
	s.running = nil
	if exit.Lived >= wellProgram && !exit.mute {
		s.ends = 0
	}
	wait := time.Duration(0) // after the first unexpected end, it starts again immediately
	if s.ends++; s.ends > 1 {
		wait = min(time.Second<<min(s.ends-2, 10), maxBackoff)
	}
	s.last, s.after = exit, time.Now().Add(wait)
	how := "exit status 0"
	if err := exit.Unwrap(); err != nil {
		how = err.Error()
	}
	p.note(Message{Kind: messageProgram, Text: "ended unexpectedly: " + how})
	p.log.LogAttrs(context.Background(), slog.LevelWarn, "program ended unexpectedly", slog.String("how", exit.Error()), text.Ms("not_started_again_for", wait))
}

// end ends the program of a session.
func (t programTransport) end(session string) {
	ps := t.programs
	ps.mu.Lock()
	var p *program
	for _, s := range ps.slots {
		if session != "" && s.running != nil && s.running.sessionID() == session {
			p, s.running = s.running, nil
		}
	}
	ps.mu.Unlock()
	if p != nil {
		p.stop()
	}
}

// An exitError is a program that has ended.
type exitError struct {
	*process.ExitError
	mute bool // it never wrote a message
}

// Error begins with advice for the operator, if the program's last lines show a known cause.
func (e *exitError) Error() string {
	if do := advice(e.Stderr); do != "" {
		return do + "; " + e.ExitError.Error()
	}
	return e.ExitError.Error()
}

// errNeedsCommand refuses a server that is a program if programs are not enabled.
var errNeedsCommand = errors.New("the gateway starts no programs without --allow-commands")

// A programTransport makes exchanges with one program as if the program were behind HTTP. The
// program's messages for a request, up to the answer, are an event stream. A session lasts as long
// as the program. So all code for servers behind HTTP also works for programs.
type programTransport struct {
	programs *programs
	key      entryKey
	shared   bool // several owners use it
	redactor *scrubber
	program  process.Program
	command  *Command      // that the program comes from
	timeout  time.Duration // of a call
}

// Do makes one exchange.
func (t programTransport) Do(req *http.Request) (*http.Response, error) {
	x := beginExchange(req)
	session := req.Header.Get(mcp.HeaderSession)
	if req.Method == http.MethodDelete {
		t.end(session)
		return x.respond(http.StatusOK, nil, http.NoBody), nil
	}
	m, err := readOutgoing(req)
	if err != nil {
		return nil, err
	}
	var resp *http.Response
	for range 2 { // a program may end between the two steps
		var p *program
		if p, err = t.find(req.Context(), session, m.opens()); err != nil {
			break
		}
		if resp, err = p.exchange(req.Context(), x, m); !errors.Is(err, errGone) {
			return resp, err
		}
	}
	if errors.Is(err, errGone) {
		return x.respond(http.StatusNotFound, nil, http.NoBody), nil
	}
	return nil, err
}
