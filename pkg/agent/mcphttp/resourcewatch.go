package mcphttp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
)

const (
	maxWatched  = 32               // resources that one session, or one subscription, is told of
	readEvery   = 30 * time.Second // after which they are read again
	readTime    = 20 * time.Second // for all of them
	readsAtOnce = 4
)

// resourceHashes are resources, by their URI, with a hash of what they held when they were last
// read. A server tells of changes on a stream of its own, which nobody holds for an agent that may
// be one of many; so they are read now and then, by the way and under the locks of any other read.
type resourceHashes map[string]contents

type contents [sha256.Size]byte

// subscribe begins or ends telling a session of changes of a resource. One that cannot be read is refused
// as its reading is.
func (h *handler) subscribe(ctx context.Context, q *request) (json.RawMessage, error) {
	uri := rawjson.Text(q.msg.Rest.Get("uri"))
	switch {
	case uri == "":
		return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "params.uri is required"}
	case q.token == nil:
		return nil, needsSession("a subscription")
	case q.msg.Method == mcp.MethodUnsubscribe:
		h.live.unsubscribe(q.token, uri)
		return json.RawMessage("{}"), nil
	}
	now, err := readContents(ctx, q.session, uri)
	if err != nil {
		return nil, err
	}
	if !h.live.subscribe(q.token, uri, now) {
		return nil, &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "this session is told of as many resources as it can be: end a subscription first"}
	}
	return json.RawMessage("{}"), nil
}

// needsSession refuses to keep something for a client that has no session.
func needsSession(what string) *mcp.Error {
	return &mcp.Error{Code: mcp.CodeInvalidRequest, Message: what + " is kept in the session that initialize begins: send its id in the header " + mcp.HeaderSession}
}

// readContents returns a hash of what a resource holds.
func readContents(ctx context.Context, s Session, uri string) (contents, error) {
	raw, err := s.GetItem(ctx, mcp.Request{Method: mcp.MethodReadResource, Params: true, URI: uri}, mcp.Client{})
	if err != nil {
		return contents{}, err
	}
	return sha256.Sum256(rawjson.Get(raw, "contents")), nil
}

// readAll reads resources, a few at once, and returns those that could be read. The first time each is
// a call.
func (h *handler) readAll(ctx context.Context, r *http.Request, q *request, uris []string, first bool) resourceHashes {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	out, next := resourceHashes{}, make(chan string)
	for range min(readsAtOnce, len(uris)) {
		wg.Go(func() {
			for uri := range next {
				e := &audit.CallEvent{Line: audit.Line{Tool: uri}}
				s, err := h.session(ctx, r, q, e)
				if err != nil {
					continue
				}
				now, err := readContents(ctx, s, uri)
				if first {
					h.keep(r, q, e, err != nil)
				}
				if err == nil {
					mu.Lock()
					out[uri] = now
					mu.Unlock()
				}
			}
		})
	}
	for _, uri := range uris {
		next <- uri
	}
	close(next)
	wg.Wait()
	return out
}

// changed takes what resources hold now, and returns the URIs of those that held something else.
func (w resourceHashes) changed(now resourceHashes) (uris []string) {
	for _, uri := range slices.Sorted(maps.Keys(now)) {
		if before, ok := w[uri]; ok && before != now[uri] {
			w[uri] = now[uri]
			uris = append(uris, uri)
		}
	}
	return uris
}

// subscribe notes that a session wants to be told of a resource, and reports whether there is room.
func (l *liveSessions) subscribe(t *sessionID, uri string, now contents) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of(t)
	if _, again := s.watched[uri]; !again && len(s.watched) >= maxWatched {
		return false
	}
	if s.watched == nil {
		s.watched = resourceHashes{}
	}
	s.watched[uri] = now
	return true
}

func (l *liveSessions) unsubscribe(t *sessionID, uri string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.sessions[t.id]; s != nil {
		delete(s.watched, uri)
		l.settle(t.id)
	}
}

// subscribed returns the resources that a session wants to be told of.
func (l *liveSessions) subscribed(t *sessionID) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.sessions[t.id]; s != nil {
		return slices.Collect(maps.Keys(s.watched))
	}
	return nil
}

// watched returns the resources that a stream's client is told of.
func (h *handler) watched(q *request, s *notifyStream) []string {
	if q.token != nil {
		return h.live.subscribed(q.token)
	}
	return slices.Collect(maps.Keys(s.watched))
}

// update tells which resources hold something else now.
func (h *handler) update(q *request, s *notifyStream, now resourceHashes) {
	var uris []string
	if q.token != nil {
		uris = h.live.changed(q.token, now)
	} else {
		uris = s.watched.changed(now)
	}
	for _, uri := range uris {
		s.out.event(notification(mcp.NotificationResourceUpdated, append(s.meta(), rawjson.Member{Name: "uri", Value: rawjson.Quote(uri)})))
	}
}

// changed takes what the resources of a session hold now, and returns the URIs of those that have changed.
func (l *liveSessions) changed(t *sessionID, now resourceHashes) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.sessions[t.id]; s != nil {
		return s.watched.changed(now)
	}
	return nil
}
