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

// Limits and intervals of open streams.
const (
	maxStreamsOfCaller  = 64 // of an agent, or of one user of it
	maxStreamsInAll     = 256
	maxStreamsOfSession = 4

	lookEvery    = 2 * time.Second  // interval between checks whether a list has changed
	confirmEvery = 30 * time.Second // interval between checks that the credential is still valid
	fullTime     = 5 * time.Second  // a refused stream may try again after this time
)

// A notifyStream is a stream that reports changes until its client disconnects.
type notifyStream struct {
	out          eventWriter
	subscription json.RawMessage // the id of the request that opened it; nil: a session's stream
	changes      []change        // the changes to report
	lists        gateway.Lists   // the lists of the last report
	asked        []string        // resources in the request of a subscription
	watched      resourceHashes  // the readable resources, whose changes to report
	askedTasks   []string        // tasks in the request of a subscription
	tasks        []*watchedTask  // the readable tasks, whose changes to report

	owner session.Owner
	once  sync.Once
	ended chan struct{} // closed when the stream has to end
	gone  chan struct{} // closed when another stream may take its place
}

// end ends the stream.
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

// A change is a change of a list.
type change struct {
	filter string // the member of subscriptions/listen's filter
	method string // of the notification
	list   func(gateway.Lists) string
}

// changes are all changes that a stream can report.
var changes = []change{
	{"toolsListChanged", mcp.NotificationToolsChanged, func(l gateway.Lists) string { return l.Tools }},
	{"promptsListChanged", mcp.NotificationPromptsChanged, func(l gateway.Lists) string { return l.Prompts }},
	{"resourcesListChanged", mcp.NotificationResourcesChanged, func(l gateway.Lists) string { return l.Resources }},
}

// offeredOf returns the changes that a session with these offers declares to its caller. It selects
// them from the argument all.
func offeredOf(all []change, offers gateway.Offers) []change {
	return slices.DeleteFunc(slices.Clone(all), func(c change) bool {
		return c.method == mcp.NotificationPromptsChanged && !offers.Prompts || c.method == mcp.NotificationResourcesChanged && !offers.Resources
	})
}

// notifyStreams bounds the open streams.
type notifyStreams struct {
	mu      sync.Mutex
	streams []*notifyStream // open streams, the oldest first
}

// take reserves a place for a stream of the owner, and give releases it. If no place is free,
// [capacity.Yield] selects a stream to end, and take waits for the place of that stream. take
// reports whether it has a place.
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

// try works like take, but does not wait. If a stream has to end first, try returns that stream.
func (h *notifyStreams) try(s *notifyStream) (other *notifyStream, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := s.owner.QuotaKey()
	own, places := 0, make([]capacity.Place, len(h.streams))
	for i, o := range h.streams {
		holder := o.owner.QuotaKey()
		if holder == key && o.owner.User == s.owner.User {
			own++
		}
		places[i] = capacity.Place{Holder: holder, Size: 1, Busy: o.ends(), Last: int64(i)}
	}
	switch {
	case own >= maxStreamsOfCaller:
		return nil, false
	case len(h.streams) < maxStreamsInAll:
		h.streams = append(h.streams, s)
		return nil, true
	}
	if i := capacity.Yield(places, key, 1); i >= 0 {
		return h.streams[i], false
	}
	return nil, false
}

func (h *notifyStreams) give(s *notifyStream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams = slices.DeleteFunc(h.streams, func(o *notifyStream) bool { return o == s })
	close(s.gone)
}

// owner returns the sender of the request and its client session.
func (q *request) owner() session.Owner {
	o := q.agent.Owner()
	if q.token != nil {
		o.Client = q.token.id
	}
	return o
}

// hold reports changes to a client. It ends when the client goes away, another stream needs the
// place, or the program ends. It also ends when the agent is stopped or the credential is no longer
// valid. It refuses before it writes.
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
	s.changes = offeredOf(s.changes, q.session.Offers())
	if len(s.asked) > 0 && q.session.Offers().Resources {
		s.watched = h.readAll(r.Context(), r, q, s.asked, true)
	}
	if len(s.askedTasks) > 0 && q.session.Offers().Tasks {
		s.tasks = h.watchTasks(r, q, s.askedTasks)
	}
	defer h.live.hold(q.token, s)()
	q.begun = true
	s.out.begin()
	if s.subscription != nil {
		s.out.event(s.acknowledgement())
	}
	h.watch(r, q, s)
	if s.subscription != nil {
		s.out.event(envelope(s.subscription, "result"), h.subscriptionResult(s.subscription), closing)
	}
	s.out.finish(nil)
	return nil
}

// watch reports changes until the stream ends.
func (h *handler) watch(r *http.Request, q *request, s *notifyStream) {
	look, confirm, again := time.NewTicker(lookEvery), time.NewTicker(confirmEvery), time.NewTicker(readEvery)
	defer look.Stop()
	defer confirm.Stop()
	defer again.Stop()
	ctx, leave := h.backend.While(r.Context(), q.agent)
	defer leave()
	var reading chan resourceHashes // nil: no read is under way
	changed := h.opts.Changed()
	check := func() {
		q.deadline = time.Now().Add(lookEvery)
		if h.open(r, q) == nil && h.live.tells(q.token, s) {
			s.tell(q.session.Lists(s.lists))
		}
	}
	polls := h.startPolls(ctx, r, q, s)
	for s.out.err == nil {
		if s.out.idle() >= keepAlive {
			s.out.comment()
		}
		s.out.flush()
		select {
		case <-ctx.Done(): // the client has disconnected, or the agent is stopped
			return
		case <-h.opts.Ending:
			return
		case <-s.ended:
			return
		case <-confirm.C:
			if !h.isStillValid(r, q) {
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
		case <-changed:
			changed = h.opts.Changed() // before the check, so that the stream misses no change
			check()
		case state, ok := <-polls:
			if ok {
				s.tellTask(state)
			} else {
				polls = nil
			}
		case <-look.C:
			if polls == nil {
				polls = h.startPolls(ctx, r, q, s)
			}
			check()
		}
	}
}

// isStillValid reports whether the request's credential still proves the same agent and user, and
// the session has not ended.
func (h *handler) isStillValid(r *http.Request, q *request) bool {
	now, err := h.auth.Authenticate(r)
	if err != nil || now.Owner() != q.agent.Owner() {
		h.opts.Log.LogAttrs(r.Context(), slog.LevelInfo, "a stream ends with its credential", slog.String("agent", q.agent.ID))
		return false
	}
	return q.token == nil || time.Now().Before(q.token.expires)
}

// tell reports the changes since the last report.
func (s *notifyStream) tell(now gateway.Lists) {
	for _, c := range s.changes {
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

// acknowledgement returns the first event of a subscription, which names the changes that it
// reports.
func (s *notifyStream) acknowledgement() []byte {
	filter := rawjson.Object{}
	for _, c := range s.changes {
		filter.Add(c.filter, json.RawMessage("true"))
	}
	if uris := slices.DeleteFunc(slices.Clone(s.asked), func(uri string) bool { _, ok := s.watched[uri]; return !ok }); len(uris) > 0 {
		list, _ := rawjson.Encode(uris) // strings cannot fail
		filter.Add("resourceSubscriptions", list)
	}
	if len(s.tasks) > 0 {
		handles := make([]string, len(s.tasks))
		for i, t := range s.tasks {
			handles[i] = t.handle
		}
		list, _ := rawjson.Encode(handles) // strings cannot fail
		filter.Add("taskIds", list)
	}
	return notification(mcp.NotificationAcknowledged, append(s.meta(), rawjson.Member{Name: "notifications", Value: filter.Bytes()}))
}

// subscriptionResult returns the result of a subscription at its end.
func (h *handler) subscriptionResult(subscription json.RawMessage) json.RawMessage {
	return rawjson.Object{
		{Name: "resultType", Value: json.RawMessage(resultComplete)},
		{Name: "_meta", Value: rawjson.Object{
			{Name: mcp.MetaServerInfo, Value: h.serverInfo}, {Name: mcp.MetaSubscriptionID, Value: subscription},
		}.Bytes()},
	}.Bytes()
}

// listen answers a subscription. A process that does not run between requests cannot report
// changes. So it ends the subscription immediately, with a normal result.
func (h *handler) listen(w http.ResponseWriter, r *http.Request, q *request) *mcp.Error {
	filter := q.msg.Rest.Get("notifications")
	switch {
	case !subscriptions.fits(filter):
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "invalid params"}
	case !isPresent(filter):
		return &mcp.Error{Code: mcp.CodeInvalidParams, Message: "invalid params: missing required 'notifications' field"}
	case isPresent(rawjson.Get(filter, "taskIds")) && !q.has(mcp.ExtensionTasks):
		return mcp.LacksExtension(mcp.ExtensionTasks, "taskIds need "+mcp.ExtensionTasks)
	}
	s := &notifyStream{subscription: q.msg.ID, out: eventWriter{w: w}}
	if h.live == nil {
		q.begun = true
		s.out.begin()
		s.out.event(s.acknowledgement())
		s.out.event(envelope(s.subscription, "result"), h.subscriptionResult(s.subscription), closing)
		s.out.finish(nil)
		return nil
	}
	for _, c := range changes {
		if string(rawjson.Get(filter, c.filter)) == "true" {
			s.changes = append(s.changes, c)
		}
	}
	s.asked = texts(filter, "resourceSubscriptions", maxWatched)
	s.askedTasks = texts(filter, "taskIds", maxTasks)
	return h.hold(w, r, q, s)
}

// texts returns the first texts of a list in a checked filter, at most most.
func texts(filter json.RawMessage, name string, most int) (all []string) {
	list, _ := rawjson.Elements(rawjson.Get(filter, name)) // checked before
	for _, text := range list[:min(len(list), most)] {
		all = append(all, rawjson.Text(text))
	}
	return all
}

// serveSession answers GET, which opens a stream for the session, and DELETE, which ends the
// session. Both methods serve clients of the handshake protocol, if one process answers all
// requests of a session.
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
	case q.token == nil || headers.version >= mcp.VersionModern: // stateless: no such method
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
	if err := h.checkStopped(r, q); err != nil {
		return err
	}
	return h.hold(w, r, q, &notifyStream{changes: changes})
}

// notAllowed refuses a request's HTTP method.
func (h *handler) notAllowed(w http.ResponseWriter) *mcp.Error {
	w.Header().Set("Allow", h.allowed())
	return refuse(http.StatusMethodNotAllowed, "method not allowed")
}

// allowed returns the HTTP methods of the endpoint, except OPTIONS.
func (h *handler) allowed() string {
	if h.live == nil {
		return http.MethodPost
	}
	return "POST, GET, DELETE"
}

// hold registers a stream of a session, and returns a function that unregisters it. If a session
// has more than maxStreamsOfSession, the oldest streams end, because their connections may be dead
// and their client may have connected again.
func (l *liveSessions) hold(t *sessionID, s *notifyStream) (leave func()) {
	if t == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	live := l.get(t)
	live.streams = append(live.streams, s)
	for _, old := range live.streams[:max(0, len(live.streams)-maxStreamsOfSession)] {
		old.end()
	}
	if ended, _ := l.ended.has(t); ended { // the session ended after its id was read
		s.end()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, other := range live.streams {
			if other == s {
				live.streams = append(live.streams[:i:i], live.streams[i+1:]...)
				break
			}
		}
		l.settle(t.id)
	}
}

// tells reports whether s is the stream that reports its session's changes. Only one stream of a
// session reports each change.
func (l *liveSessions) tells(t *sessionID, s *notifyStream) bool {
	if t == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	streams := l.get(t).streams
	return streams[len(streams)-1] == s
}
