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
	maxPrograms  = 64               // that run at once
	maxOfAgent   = 24               // of them for one agent, unless the operator says otherwise
	idleProgram  = 10 * time.Minute // without a call; then a program is ended
	startProgram = 10 * time.Minute // from its start to its first message, at least; then it is replaced before another handshake
	wellProgram  = time.Minute      // a program that lived so long did not end because it was started
	maxSleep     = time.Hour        // that a server goes by what it listed last, while its program does not run
	maxBackoff   = time.Minute      // between two starts of one that ends by itself
	maxTelling   = 8                // messages to one program at once that nobody waits for
	exitPatience = time.Second      // the same, when this process ends
	stopPatience = 5 * time.Second  // with a program that is to end; see [process.Process.Stop]
	installTime  = 10 * time.Second // for a program that is to end while it is being installed
)

// Programs are the servers that run as programs of this process: one for each owner, as
// sessions are.
type programs struct {
	host    *process.Host
	log     *slog.Logger
	idle    time.Duration // without a call; then a program is ended
	start   time.Duration // from its start to its first message, at least
	max     int           // that run at once
	ofAgent func() int    // of them for one agent

	mu    sync.Mutex
	slots map[entryKey]*slot
	all   map[*program]bool  // that have not ended yet
	lost  map[entryKey]int64 // whose program was ended to make room, and when (Unix, in ns)
	full  time.Time          // since when starts are refused because all programs are in use; zero: none is
}

func newPrograms(log *slog.Logger, ofAgent func() int) *programs {
	if ofAgent == nil {
		ofAgent = func() int { return maxOfAgent }
	}
	return &programs{
		host: process.NewHost(maxPrograms), log: log, idle: idleProgram, start: startProgram, max: maxPrograms, ofAgent: ofAgent,
		slots: map[entryKey]*slot{}, all: map[*program]bool{}, lost: map[entryKey]int64{},
	}
}

// A slot is where the program of one owner runs. It is guarded by the lock of all.
type slot struct {
	spec    process.Program // of the program that runs here or ran last
	running *program        // nil: none
	users   int             // operations that use the program, or will
	evicted *program        // whose end makes room for the program of this slot; nil: none

	begun time.Time // when the last one was started

	ends  int        // of programs that ended by themselves, without one between that was well
	last  *exitError // how the last of them ended
	after time.Time  // no program is started before

	listed  outcome.Outcome // of the last load here that went well
	listing *Command        // that it was made with; nil: there was none
}

// errGone is a session whose program has ended.
var errGone = errors.New("the program of this session has ended")

// find returns the program that a request is for. It is started if it does not run, if need be once
// another one has ended. If the program of the session has ended, the error is [errGone].
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

// look is find that does not wait. It returns the other program that has to end first, if there is
// one.
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

// slot returns the slot of a key. The lock is held.
func (ps *programs) slot(k entryKey) *slot {
	s := ps.slots[k]
	if s == nil {
		ps.forgetOld()
		s = &slot{}
		ps.slots[k] = s
	}
	return s
}

// hold notes that an operation begins that uses the program of a key, so that it is not ended to
// make room, and returns what notes the end of the operation.
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

// forgetOld drops the slots that say nothing any more.
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
		clean: t.redactor.text, telling: make(chan struct{}, maxTelling), streams: map[int64]*programStream{}, tokens: map[string]*programStream{}, started: time.Now(), used: time.Now(),
	}
	process, err := t.programs.host.Start(t.program, process.Options{
		Line: p.line, MaxLine: maxResponse - eventOverhead, Log: p.log, Clean: t.redactor.text, Finish: p.finishTime,
	})
	if err != nil {
		return nil, err
	}
	p.process.Store(process)
	p.log.LogAttrs(context.Background(), slog.LevelInfo, "program started")
	return p, nil
}

// watch sees to the end of a program: when nobody has used it for long, or by itself.
func (ps *programs) watch(s *slot, p *program) {
	process := p.process.Load()
	for ended := false; !ended; {
		idle := time.NewTimer(ps.idle - p.unused())
		select {
		case <-process.Done():
			ended = true
		case <-idle.C:
			ps.mu.Lock()
			over := p.unused() >= ps.idle
			if over && s.running == p {
				s.running = nil // or it would be given to somebody
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
	exit := p.over()    // whoever was given the program meanwhile asks for it again
	if s.running != p { // it was to end
		p.log.LogAttrs(context.Background(), slog.LevelInfo, "program ended", slog.String("how", exit.Error()))
		return
	}
	s.running = nil
	if exit.Lived >= wellProgram && !exit.mute {
		s.ends = 0
	}
	wait := time.Duration(0) // one that ended for the first time is started again at once
	if s.ends++; s.ends > 1 {
		wait = min(time.Second<<min(s.ends-2, 10), maxBackoff)
	}
	s.last, s.after = exit, time.Now().Add(wait)
	p.log.LogAttrs(context.Background(), slog.LevelWarn, "program ended by itself", slog.String("how", exit.Error()), text.Ms("not_started_again_for", wait))
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
	mute bool // it never said anything
}

// Error begins with what an operator can do, if the program's last words show it.
func (e *exitError) Error() string {
	if do := advice(e.Said); do != "" {
		return do + "; " + e.ExitError.Error()
	}
	return e.ExitError.Error()
}

// errNeedsCommand is a server that is a program where none may be started.
var errNeedsCommand = errors.New("programs are not started here: that takes --allow-commands")

// A programTransport makes exchanges with one program as if it were behind HTTP: the messages
// that come for a request until its answer are an event stream, and a session is the life of the
// program. So all that is done for a server behind HTTP is done for a program too.
type programTransport struct {
	programs *programs
	key      entryKey
	shared   bool // callers of different owners use it
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
