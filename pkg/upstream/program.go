package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/linereader"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/process"
)

// A program is one process of a server. It receives all requests of its owner on its standard
// input. The request id in a line of its output shows to which request the line belongs.
type program struct {
	key     entryKey      // of its slot
	gone    chan struct{} // closed when another program may start in its place
	claimed bool          // reserved for a waiting slot; guarded by programs.mu

	shared   bool   // owners share it
	id       string // of its session
	log      *slog.Logger
	command  *Command
	changed  func() // gets the notification that a list has changed
	started  time.Time
	patience time.Duration                   // from start to first message
	clean    func(string) string             // removes secrets before a text is logged
	note     func(Message)                   // keeps a message for operators
	telling  chan struct{}                   // a token for each message that is sent without waiting
	process  atomic.Pointer[process.Process] // nil until it has started

	mu      sync.Mutex
	used    time.Time                 // by the last call
	opened  bool                      // it has answered initialize
	spoke   bool                      // it has sent JSON-RPC
	garbage int                       // lines without JSON-RPC
	streams map[int64]*programStream  // by the id of their request
	tokens  map[string]*programStream // by their progress token
}

// sessionID returns the id of the session, "" before it is open.
func (p *program) sessionID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.opened {
		return ""
	}
	return p.id
}

// spent reports whether a handshake needs another process, because this process has had its
// handshake or has been silent too long.
func (p *program) spent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened || !p.spoke && time.Since(p.started) > p.patience
}

// isStarting reports whether the program has written nothing yet and its start time is not over.
func (p *program) isStarting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.spoke && time.Since(p.started) <= p.patience
}

// finishTime returns how long a program may finish its work before it has to end. A program that
// ends during its installation would leave an incomplete cache.
func (p *program) finishTime() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := filepath.Base(p.command.Path)
	switch strings.TrimSuffix(name, filepath.Ext(name)) {
	case "npx", "npm", "pnpm", "bunx", "uvx", "uv", "pipx":
		if !p.spoke {
			return installTime
		}
	}
	return 0
}

// use records a use of the program. A sync does not keep the program alive.
func (p *program) use(load bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !load {
		p.used = time.Now()
	}
}

// unused returns the time since the last call of the program.
func (p *program) unused() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.streams) > 0 {
		return 0
	}
	return time.Since(p.used)
}

// lastUse returns the time when the last use began, as Unix time in ns.
func (p *program) lastUse() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used.UnixNano()
}

func (p *program) stop() { p.process.Load().Stop(context.Background(), stopPatience) }

// endRequests ends the open requests of an ended program, and returns how it ended.
func (p *program) endRequests() *exitError {
	exit := p.ended(p.process.Load().Exit())
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.streams {
		s.end(exit)
	}
	p.streams, p.tokens = nil, nil
	return exit
}

func (p *program) ended(exit *process.ExitError) *exitError {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &exitError{ExitError: exit, mute: !p.spoke}
}

// exchange sends a message. For a request, the response contains the program's messages for it.
func (p *program) exchange(ctx context.Context, x *exchange, m outgoing) (*http.Response, error) {
	var s *programStream
	if m.id != 0 {
		var err error
		if s, err = p.open(ctx, m); err != nil {
			return nil, err
		}
	}
	sent, err := p.process.Load().Send(ctx, m.line)
	x.sent = sent
	if err != nil {
		if s != nil {
			_ = s.Close()
		}
		if exit, ok := errors.AsType[*process.ExitError](err); ok {
			return nil, p.ended(exit)
		}
		return nil, err
	}
	if s == nil {
		return x.respond(http.StatusAccepted, nil, http.NoBody), nil
	}
	h := http.Header{"Content-Type": {"text/event-stream"}}
	if m.method == mcp.MethodInitialize {
		h.Set(mcp.HeaderSession, p.id)
	}
	return x.respond(http.StatusOK, h, s), nil
}

// open opens the stream of a request.
func (p *program) open(ctx context.Context, m outgoing) (*programStream, error) {
	s := &programStream{p: p, ctx: ctx, outgoing: m, news: make(chan struct{}, 1)}
	s.line = nil // already sent
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streams == nil {
		return nil, errGone
	}
	p.streams[m.id] = s
	if m.token != "" {
		p.tokens[m.token] = s
	}
	return s, nil
}

// drop forgets a stream.
func (p *program) drop(s *programStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.streams, s.id)
	if p.tokens[s.token] == s {
		delete(p.tokens, s.token)
	}
}

// line handles one line that the program wrote.
func (p *program) line(l linereader.Line) {
	if l.Long {
		p.tooLong(l)
		return
	}
	o, err := rawjson.Split(l.Data, rawjson.Lenient)
	if err != nil || rawjson.Text(o.Get("jsonrpc")) != "2.0" {
		p.noJSON(l)
		return
	}
	id, method := o.Get("id"), rawjson.Text(o.Get("method"))
	if id == nil && isListChange(method) {
		defer p.changed() // after p.mu is free
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.spoke {
		p.spoke, p.used = true, time.Now() // its start does not count as idle time
	}
	switch {
	case method == "":
		p.reply(id, l.Data)
	case id != nil:
		if s := p.questionStream(); s == nil || !s.add(l.Data, false) {
			p.refuse(id, method)
		}
	default:
		if s := p.concerned(method, o.Get("params")); s != nil {
			s.add(l.Data, false)
		} else if method == mcp.NotificationMessage {
			params, _ := rawjson.Split(o.Get("params"), rawjson.Lenient)
			p.note(logMessage(params, p.clean))
		}
	}
}

// reply passes a reply to its request.
func (p *program) reply(id json.RawMessage, line []byte) {
	n, err := strconv.ParseInt(string(id), 10, 64)
	s := p.streams[n]
	// A program sends an error without an id if it could not read the id of the request.
	if err != nil && len(p.streams) == 1 {
		s = p.sole()
	}
	if s == nil {
		return // it answers no request, or the caller no longer waits
	}
	if s.method == mcp.MethodInitialize && rawjson.Get(line, "result") != nil {
		p.opened = true
	}
	s.add(line, true)
	s.end(io.EOF)
	delete(p.streams, s.id)
}

// sole returns the only open stream, nil if there are none or several.
func (p *program) sole() *programStream {
	if len(p.streams) == 1 {
		for _, s := range p.streams {
			return s
		}
	}
	return nil
}

// questionStream returns the stream for a request of the program, which does not name its call. If
// one owner has several calls, it returns the newest call's stream. If the program is shared, it
// returns a stream only if there is a single call, because an owner must not get another owner's
// questions.
func (p *program) questionStream() *programStream {
	if p.shared {
		return p.sole()
	}
	var newest *programStream
	for id, s := range p.streams {
		if newest == nil || id > newest.id {
			newest = s
		}
	}
	return newest
}

// concerned returns the stream that a notification belongs to, or nil if that is unknown.
func (p *program) concerned(method string, params json.RawMessage) *programStream {
	if method == mcp.NotificationProgress {
		return p.tokens[string(rawjson.Get(params, "progressToken"))]
	}
	return p.questionStream()
}

// refuse sends an error for a request of the program that nobody can answer. It does not wait until
// the program reads the error.
func (p *program) refuse(id json.RawMessage, method string) {
	p.tell(refusalOf(id, method))
}

// tell sends a message without waiting, if few such messages are under way. If the program does not
// read the message, answerTimeout ends the attempt.
func (p *program) tell(line []byte) {
	process := p.process.Load()
	if process == nil {
		return // the program writes before its start is recorded
	}
	select {
	case p.telling <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-p.telling }()
		ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
		defer cancel()
		_, _ = process.Send(ctx, line) // best effort
	}()
}

// leadingID and trailingID match the id of a reply whose middle was cut out.
var (
	leadingID  = regexp.MustCompile(`^\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*([0-9]{1,18})\s*,`)
	trailingID = regexp.MustCompile(`[}\]"]\s*,\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*([0-9]{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// tooLong handles a line that is too long to pass on.
func (p *program) tooLong(l linereader.Line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sole()
	for _, found := range [][][]byte{leadingID.FindSubmatch(l.Data[:min(len(l.Data), 256)]), trailingID.FindSubmatch(l.Tail)} {
		if found != nil {
			n, _ := strconv.ParseInt(string(found[1]), 10, 64)
			s = p.streams[n]
			break
		}
	}
	p.log.LogAttrs(context.Background(), slog.LevelWarn, "program wrote a line that is too long to be passed on",
		slog.Int("bytes", l.Size), slog.Bool("belongs_to_a_request", s != nil))
	if s != nil {
		s.end(errTooLong)
		delete(p.streams, s.id)
	}
}

// maxGarbage is how many lines that are no JSON-RPC are logged for each program.
const maxGarbage = 10

// noJSON handles a line that is no message. Programs print banners and warnings to the wrong
// stream.
func (p *program) noJSON(l linereader.Line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(bytes.TrimSpace(l.Data)) == 0 {
		return
	}
	if p.garbage++; p.garbage <= maxGarbage {
		line := p.clean(string(l.Data[:min(len(l.Data), 512)]))
		p.log.LogAttrs(context.Background(), slog.LevelWarn, "program wrote a line to its standard output that is no JSON-RPC message",
			slog.String("line", text.Quote(line, 200)))
		p.note(Message{Kind: messageStdout, Text: line})
	}
}
