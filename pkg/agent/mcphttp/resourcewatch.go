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
	maxWatched  = 32               // resources of one session or subscription
	readEvery   = 30 * time.Second // the interval between reads
	readTime    = 20 * time.Second // time limit of all reads together
	readsAtOnce = 4
)

// resourceHashes maps the URI of a resource to a hash of its contents at the last read. The gateway
// could get changes from a server only on an open stream, and does not hold a stream open for each
// agent. Instead it reads the resources at intervals, and each read passes the same locks as any
// other read.
type resourceHashes map[string]contents

type contents [sha256.Size]byte

// subscribe begins or ends a session's subscription to a resource. If the resource cannot be read,
// subscribe returns the refusal of the read.
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
		return nil, &mcp.Error{Code: mcp.CodeInvalidRequest, Message: "this session has the maximum number of resource subscriptions: end one first"}
	}
	return json.RawMessage("{}"), nil
}

// needsSession returns the refusal of a client without a session. what names the state that the
// client wants to change.
func needsSession(what string) *mcp.Error {
	return &mcp.Error{Code: mcp.CodeInvalidRequest, Message: what + " is kept in the session that initialize begins: send its id in the header " + mcp.HeaderSession}
}

// readContents returns a hash of a resource's contents.
func readContents(ctx context.Context, s Session, uri string) (contents, error) {
	raw, err := s.GetItem(ctx, mcp.Request{Method: mcp.MethodReadResource, Params: true, URI: uri}, mcp.Client{})
	if err != nil {
		return contents{}, err
	}
	return sha256.Sum256(rawjson.Get(raw, "contents")), nil
}

// readAll reads resources, a few at once, and returns the hashes of the readable resources. If
// first is set, each read counts as a call.
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

// changed stores the new contents of resources, and returns the URIs of the changed resources.
func (w resourceHashes) changed(now resourceHashes) (uris []string) {
	for _, uri := range slices.Sorted(maps.Keys(now)) {
		if before, ok := w[uri]; ok && before != now[uri] {
			w[uri] = now[uri]
			uris = append(uris, uri)
		}
	}
	return uris
}

// subscribe adds a resource to a session's subscriptions, and reports whether there is room.
func (l *liveSessions) subscribe(t *sessionID, uri string, now contents) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.get(t)
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

// subscribed returns the resources of a session's subscriptions.
func (l *liveSessions) subscribed(t *sessionID) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.sessions[t.id]; s != nil {
		return slices.Collect(maps.Keys(s.watched))
	}
	return nil
}

// watched returns the resources that a stream reports.
func (h *handler) watched(q *request, s *notifyStream) []string {
	if q.token != nil {
		return h.live.subscribed(q.token)
	}
	return slices.Collect(maps.Keys(s.watched))
}

// update reports the resources whose contents have changed.
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

// changed stores the new contents of a session's resources, and returns the URIs of the changed
// resources.
func (l *liveSessions) changed(t *sessionID, now resourceHashes) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.sessions[t.id]; s != nil {
		return s.watched.changed(now)
	}
	return nil
}
