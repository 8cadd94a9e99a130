package mcphttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	objects "github.com/portcullis-mcp/portcullis/pkg/base/object"
)

// EndedKey is the storage key of [EndedSessions].
const EndedKey = "sessions/ended.json"

// Limits for the records of ended sessions.
const (
	maxEnded        = 10_000
	maxEndedOfAgent = 2_000

	endedTime = 5 * time.Second // time limit of one read, or of a write with its retries
)

var errFull = errors.New("no room for another ended session")

// EndedSessions stores which sessions their clients have ended, until the session ids expire. A
// session id is sealed and needs no store. Without EndedSessions, a restarted gateway would
// therefore accept the id again.
//
// The store has one document for all processes. Each process reads the document when it starts and
// when it writes, and keeps the entries of the other processes. The zero value stores nothing. A
// nil *EndedSessions means that no session has ended.
type EndedSessions struct {
	store objects.Store
	log   *slog.Logger
	once  sync.Once // reads the document

	mu       sync.RWMutex
	sessions map[string]endedSession // by id
	before   int64                   // Unix time; a session that expires earlier counts as ended

	writing sync.Mutex
	etag    string // of the document
}

type endedSession struct {
	Owner   []byte `json:"owner"`
	Expires int64  `json:"expires"` // Unix time

	stored bool
}

// An endedDocument is the stored form.
type endedDocument struct {
	Before   int64                   `json:"before,omitempty"`
	Sessions map[string]endedSession `json:"sessions"`
}

// NewEndedSessions returns an EndedSessions in a store.
func NewEndedSessions(store objects.Store, log *slog.Logger) *EndedSessions {
	return &EndedSessions{store: store, log: log, etag: objects.IfAbsent}
}

// Read reads the document, on the first call only. If the read fails, it is unknown which sessions
// have ended. Then all earlier sessions count as ended, and their clients begin new sessions.
func (e *EndedSessions) Read(ctx context.Context) {
	if e == nil || e.store == nil {
		return
	}
	e.once.Do(func() {
		if err := e.read(ctx); err != nil {
			e.lose(ctx, err)
		}
	})
}

// read adds the stored sessions to the known ones.
func (e *EndedSessions) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endedTime)
	defer cancel()
	o, err := e.store.Get(ctx, EndedKey, "")
	var doc endedDocument
	switch {
	case errors.Is(err, objects.ErrNotFound):
		e.etag = objects.IfAbsent
		return nil
	case err == nil:
		err = json.Unmarshal(o.Data, &doc)
		if err != nil {
			err = fmt.Errorf("%s: %w: %w", EndedKey, objects.ErrDamaged, err)
		}
	}
	if err == nil || errors.Is(err, objects.ErrDamaged) {
		e.etag = o.ETag
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.before = max(e.before, doc.Before)
	e.add(doc.Sessions)
	return nil
}

// lose handles a failed read of the document.
func (e *EndedSessions) lose(ctx context.Context, err error) {
	e.log.LogAttrs(ctx, slog.LevelError, "ended sessions not read; all earlier sessions are refused", slog.Any("error", err))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.before = time.Now().Add(sessionTime).Unix()
}

// add adds stored ended sessions. The caller holds the lock.
func (e *EndedSessions) add(stored map[string]endedSession) {
	if e.sessions == nil {
		e.sessions = make(map[string]endedSession, len(stored))
	}
	for id, s := range stored {
		s.stored = true
		e.sessions[id] = s
	}
}

// has reports whether the session has ended, and whether the store has its record.
func (e *EndedSessions) has(t *sessionID) (ended, stored bool) {
	if e == nil {
		return false, false
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	s, ok := e.sessions[t.id]
	isLost := t.expires.Unix() <= e.before
	return ok || isLost, !ok || s.stored || e.store == nil
}

// end records and stores the end of a session. After [errFull] the session has not ended. After
// another error the session has ended, but a restart loses the record.
func (e *EndedSessions) end(ctx context.Context, t *sessionID) error {
	if err := e.note(t); err != nil || e.store == nil {
		return err
	}
	e.writing.Lock()
	defer e.writing.Unlock()
	if _, stored := e.has(t); stored { // another write stored this session too
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endedTime) // the client may be gone
	defer cancel()
	isRead := true
	doc, err := document.Retry(ctx, objects.ErrConflict, func() (doc endedDocument, err error) {
		if !isRead {
			if err := e.read(ctx); errors.Is(err, objects.ErrDamaged) {
				e.lose(ctx, err)
			} else if err != nil {
				return doc, err
			}
		}
		doc, isRead = e.document(), false
		data, err := json.Marshal(doc)
		if err != nil {
			return doc, err
		}
		etag, err := e.store.Put(ctx, EndedKey, data, e.etag)
		if err == nil {
			e.etag = etag
		}
		return doc, err
	})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.add(doc.Sessions)
	return nil
}

// note adds the session, if there is room for it.
func (e *EndedSessions) note(t *sessionID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.sessions[t.id]; ok {
		return nil
	}
	own, now := 0, time.Now().Unix()
	for id, s := range e.sessions {
		switch {
		case s.Expires <= now:
			delete(e.sessions, id)
		case bytes.Equal(s.Owner, t.owner[:]):
			own++
		}
	}
	if len(e.sessions) >= maxEnded || own >= maxEndedOfAgent {
		return errFull
	}
	e.add(nil)
	e.sessions[t.id] = endedSession{Owner: t.owner[:], Expires: t.expires.Unix()}
	return nil
}

// document returns the document to store.
func (e *EndedSessions) document() endedDocument {
	e.mu.RLock()
	defer e.mu.RUnlock()
	doc, now := endedDocument{Sessions: map[string]endedSession{}}, time.Now().Unix()
	if e.before > now {
		doc.Before = e.before
	}
	for id, s := range e.sessions {
		if s.Expires > now {
			doc.Sessions[id] = s
		}
	}
	return doc
}

// end ends the session of a DELETE, and returns an error if that failed.
func (h *handler) end(ctx context.Context, t *sessionID) *mcp.Error {
	err := h.opts.Ended.end(ctx, t)
	h.live.end(t)
	until := t.expires.UTC().Format(time.RFC3339)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errFull):
		return refuse(http.StatusTooManyRequests, "the calls and streams of the session have ended, but its id works until "+until+
			": too many ended sessions are remembered already")
	}
	refused := refuse(http.StatusServiceUnavailable, "the session has ended, but the gateway could not store that: if it restarts before "+until+
		", the session id works again; send DELETE again")
	refused.RetryAfter, refused.Err = keyTime, fmt.Errorf("store ended sessions: %w", err)
	return refused
}
