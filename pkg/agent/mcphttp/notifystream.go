package mcphttp

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
)

// Bounds on streams that are held open, and how often one is looked after.
const (
	maxStreamsOfCaller  = 64 // an agent, or one user of it
	maxStreamsInAll     = 256
	maxStreamsOfSession = 4

	lookEvery    = 2 * time.Second  // at whether a list has changed
	confirmEvery = 30 * time.Second // that the credential is still good
	fullTime     = 5 * time.Second  // after which one that was too many may come again
)

// A notifyStream is a stream that is open until its client goes: it tells of changes.
type notifyStream struct {
	out          eventWriter
	subscription json.RawMessage // the id of the request that asks for it; nil: it is a session's
	wanted       []change        // what is told
	lists        gateway.Lists   // as they were told last
	asked        []string        // resources that a subscription asks for
	watched      resourceHashes  // those of them that it is told of

	owner session.Owner
	once  sync.Once
	ended chan struct{} // closed when it has to end
	gone  chan struct{} // closed when its place is free again
}

// end makes the stream end.
func (s *notifyStream) end() { s.once.Do(func() { close(s.ended) }) }

// ends reports whether the stream has to end.
func (s *notifyStream) ends() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// A change is of a list.
type change struct {
	wanted string // in the filter of subscriptions/listen
	method string // of the notification
	list   func(gateway.Lists) string
}

// changes are those that can be told.
var changes = []change{
	{"toolsListChanged", mcp.NotificationToolsChanged, func(l gateway.Lists) string { return l.Tools }},
	{"promptsListChanged", mcp.NotificationPromptsChanged, func(l gateway.Lists) string { return l.Prompts }},
	{"resourcesListChanged", mcp.NotificationResourcesChanged, func(l gateway.Lists) string { return l.Resources }},
}

// offeredOf returns those of the changes that are declared to the caller of a session.
func offeredOf(all []change, offers gateway.Offers) []change {
	return slices.DeleteFunc(slices.Clone(all), func(c change) bool {
		return c.method == mcp.NotificationPromptsChanged && !offers.Prompts || c.method == mcp.NotificationResourcesChanged && !offers.Resources
	})
}

// notifyStreams bounds the streams that are held open.
type notifyStreams struct {
	mu   sync.Mutex
	held []*notifyStream // the oldest first
}

// take takes a place for a stream of the owner; give gives it back. If all places are taken, a
// stream ends by [capacity.Yield], and take waits until its place is free. It reports whether there
// is a place.
func (h *notifyStreams) take(ctx context.Context, owner session.Owner, s *notifyStream) bool {
	s.owner, s.ended, s.gone = owner, make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithTimeout(ctx, fullTime)
	defer cancel()
	for {
		other, ok := h.try(s)
		if other == nil {
			return ok
		}
		other.end()
		select {
		case <-other.gone:
		case <-ctx.Done():
			return false
		}
	}
}

// try is take that does not wait. It returns the stream that has to end first, if there is one.
func (h *notifyStreams) try(s *notifyStream) (other *notifyStream, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := s.owner.QuotaKey()
	own, places := 0, make([]capacity.Place, len(h.held))
	for i, o := range h.held {
		holder := o.owner.QuotaKey()
		if holder == key && o.owner.User == s.owner.User {
			own++
		}
		places[i] = capacity.Place{Holder: holder, Size: 1, Busy: o.ends(), Last: int64(i)}
	}
	switch {
	case own >= maxStreamsOfCaller:
		return nil, false
	case len(h.held) < maxStreamsInAll:
		h.held = append(h.held, s)
		return nil, true
	}
	if i := capacity.Yield(places, key, 1); i >= 0 {
		return h.held[i], false
	}
	return nil, false
}

func (h *notifyStreams) give(s *notifyStream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = slices.DeleteFunc(h.held, func(o *notifyStream) bool { return o == s })
	close(s.gone)
}

// owner returns the sender and its client session.
func (q *request) owner() session.Owner {
	o := q.agent.Owner()
	if q.token != nil {
		o.Client = q.token.id
	}
	return o
}

// hold tells a client of changes until it goes, its agent is stopped, its credential is taken no
// more, its place is needed, or the program ends. It refuses before it writes.
func (h *handler) hold(w http.ResponseWriter, r *http.Request, q *request, s *notifyStream) *mcp.Error {
	isFull := !h.holder.take(r.Context(), q.owner(), s)
	if !isFull {
		defer h.holder.give(s)
	}
	if isFull || !capacity.Hold(r.Context()) {
		refused := refuse(http.StatusTooManyRequests, "too many streams are held open")
		refused.RetryAfter = fullTime
		return refused
	}
	if err := h.open(r, q); err != nil {
		return err
	}
	s.lists, s.out.w = q.session.Lists(s.lists), w
	s.wanted = offeredOf(s.wanted, q.session.Offers())
	if len(s.asked) > 0 && q.session.Offers().Resources {
		s.watched = h.readAll(r.Context(), r, q, s.asked, true)
	}
	defer h.live.hold(q.token, s)()
	q.begun = true
	s.out.begin()
	if s.subscription != nil {
		s.out.event(s.acknowledged())
	}
	h.watch(r, q, s)
	if s.subscription != nil {
		s.out.event(envelope(s.subscription, "result"), h.listened(s.subscription), closing)
	}
	s.out.finish(nil)
	return nil
}

// watch tells of changes until the stream ends.
func (h *handler) watch(r *http.Request, q *request, s *notifyStream) {
	look, confirm, again := time.NewTicker(lookEvery), time.NewTicker(confirmEvery), time.NewTicker(readEvery)
	defer look.Stop()
	defer confirm.Stop()
	defer again.Stop()
	ctx, leave := h.backend.While(r.Context(), q.agent)
	defer leave()
	var reading chan resourceHashes // nil: nothing is being read
	for s.out.err == nil {
		if s.out.idle() >= keepAlive {
			s.out.comment()
		}
		s.out.flush()
		select {
		case <-ctx.Done(): // the client is gone, or the agent stopped
			return
		case <-h.opts.Ending:
			return
		case <-s.ended:
			return
		case <-confirm.C:
			if !h.confirmed(r, q) {
				return
			}
		case <-again.C:
			if uris := h.watched(q, s); reading == nil && len(uris) > 0 && h.live.tells(q.token, s) {
				reading = make(chan resourceHashes, 1)
				go func(done chan<- resourceHashes) { done <- h.readAll(ctx, r, q, uris, false) }(reading)
			}
		case now := <-reading:
			reading = nil
			h.update(q, s, now)
		case <-look.C:
			q.deadline = time.Now().Add(lookEvery)
			if h.open(r, q) == nil && h.live.tells(q.token, s) {
				s.tell(q.session.Lists(s.lists))
			}
		}
	}
}

// confirmed reports whether the sender of the request would still be let in as the same agent for the same
// user, and its session goes on.
func (h *handler) confirmed(r *http.Request, q *request) bool {
	now, err := h.auth.Authenticate(r)
	if err != nil || now.Owner() != q.agent.Owner() {
		h.opts.Log.LogAttrs(r.Context(), slog.LevelInfo, "a stream ends with its credential", slog.String("agent", q.agent.ID))
		return false
	}
	return q.token == nil || time.Now().Before(q.token.expires)
}

// tell tells what has changed since it was told last.
func (s *notifyStream) tell(now gateway.Lists) {
	for _, c := range s.wanted {
		if c.list(s.lists) != c.list(now) {
			s.out.event(notification(c.method, s.meta()))
		}
	}
	s.lists = now
}

// meta returns params that name the subscription, if there is one.
func (s *notifyStream) meta() rawjson.Object {
	if s.subscription == nil {
		return rawjson.Object{}
	}
	id := rawjson.Object{{Name: mcp.MetaSubscriptionID, Value: s.subscription}}
	return rawjson.Object{{Name: "_meta", Value: id.Bytes()}}
}

// acknowledged returns the first event of a subscription, which says what will be told.
func (s *notifyStream) acknowledged() []byte {
	filter := rawjson.Object{}
	for _, c := range s.wanted {
		filter.Add(c.wanted, json.RawMessage("true"))
	}
	if uris := slices.DeleteFunc(slices.Clone(s.asked), func(uri string) bool { _, ok := s.watched[uri]; return !ok }); len(uris) > 0 {
		list, _ := rawjson.Encode(uris) // texts cannot fail
		filter.Add("resourceSubscriptions", list)
	}
	return notification(mcp.NotificationAcknowledged, append(s.meta(), rawjson.Member{Name: "notifications", Value: filter.Bytes()}))
}

// listened returns the result of a subscription, which is its end.
func (h *handler) listened(subscription json.RawMessage) json.RawMessage {
	return rawjson.Object{
		{Name: "resultType", Value: json.RawMessage(resultComplete)},
		{Name: "_meta", Value: rawjson.Object{
			{Name: mcp.MetaServerInfo, Value: h.serverInfo}, {Name: mcp.MetaSubscriptionID, Value: subscription},
		}.Bytes()},
	}.Bytes()
}

// listen answers a subscription. Where nothing runs between requests that could tell of a change,
// it ends at once and in good order.
func (h *handler) listen(w http.ResponseWriter, r *http.Request, q *request) *mcp.Error {
	wanted := q.msg.Rest.Get("notifications")
	switch {
	case !subscriptions.fits(wanted):
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "invalid params"}
	case !given(wanted):
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "invalid params: missing required 'notifications' field"}
	}
	s := &notifyStream{subscription: q.msg.ID, out: eventWriter{w: w}}
	if h.live == nil {
		q.begun = true
		s.out.begin()
		s.out.event(s.acknowledged())
		s.out.event(envelope(s.subscription, "result"), h.listened(s.subscription), closing)
		s.out.finish(nil)
		return nil
	}
	for _, c := range changes {
		if string(rawjson.Get(wanted, c.wanted)) == "true" {
			s.wanted = append(s.wanted, c)
		}
	}
	list, _ := rawjson.Elements(rawjson.Get(wanted, "resourceSubscriptions")) // it was checked
	for _, uri := range list[:min(len(list), maxWatched)] {
		s.asked = append(s.asked, rawjson.Text(uri))
	}
	return h.hold(w, r, q, s)
}

// serveSession answers GET, which opens a stream for the session, and DELETE, which ends it. Both
// are for clients of the handshake protocol, where one process answers all of a session's requests.
func (h *handler) serveSession(w http.ResponseWriter, r *http.Request, q *request) *mcp.Error {
	headers, err := readHeaders(r.Header)
	if err == nil {
		err = h.checkHost(r)
	}
	if err == nil {
		q.token, err = h.readSession(r, q.agent)
	}
	switch {
	case err != nil:
		return err
	case q.token == nil || headers.version >= mcp.VersionModern: // which has neither
		return h.notAllowed(w)
	case r.Method == http.MethodDelete:
		if err := h.end(r.Context(), q.token); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	case !accepts(r.Header, eventStream):
		return refuse(http.StatusNotAcceptable, "the answer is text/event-stream")
	}
	if err := h.stopped(r, q); err != nil {
		return err
	}
	return h.hold(w, r, q, &notifyStream{wanted: changes})
}

// notAllowed refuses a request's HTTP method.
func (h *handler) notAllowed(w http.ResponseWriter) *mcp.Error {
	w.Header().Set("Allow", h.allowed())
	return refuse(http.StatusMethodNotAllowed, "method not allowed")
}

// allowed returns the HTTP methods that the endpoint has, but for OPTIONS.
func (h *handler) allowed() string {
	if h.live == nil {
		return http.MethodPost
	}
	return "POST, GET, DELETE"
}

// hold notes a stream of a session, and returns what ends that. Of more than maxStreamsOfSession
// the oldest end: their connections may be dead, and their client has come again.
func (l *liveSessions) hold(t *sessionID, s *notifyStream) (leave func()) {
	if t == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.of(t)
	known.held = append(known.held, s)
	for _, old := range known.held[:max(0, len(known.held)-maxStreamsOfSession)] {
		old.end()
	}
	if ended, _ := l.ended.has(t); ended { // since its id was read
		s.end()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, other := range known.held {
			if other == s {
				known.held = append(known.held[:i:i], known.held[i+1:]...)
				break
			}
		}
		l.settle(t.id)
	}
}

// tells reports whether a stream is the one of its session's that tells of changes: each is told once.
func (l *liveSessions) tells(t *sessionID, s *notifyStream) bool {
	if t == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.of(t).held
	return known[len(known)-1] == s
}
