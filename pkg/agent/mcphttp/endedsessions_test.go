package mcphttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	objects "github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
)

// startOn returns a gateway that starts with a store, and its log.
func startOn(t testing.TB, store objects.Store) (http.Handler, *logbook) {
	log := new(logbook)
	o := laptop()
	o.Ended = mcphttp.NewEndedSessions(store, log.logger())
	o.Ended.Read(t.Context())
	return newHandler(t, &backend{}, o), log
}

func remove(t testing.TB, h http.Handler, id string) reply {
	return send(h, in(id, httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/mcp", nil)))
}

// ends checks that a DELETE ends a session.
func ends(t testing.TB, h http.Handler, id string) {
	t.Helper()
	if got := remove(t, h, id); got.status != http.StatusNoContent {
		t.Errorf("DELETE = %d %s", got.status, got.body)
	}
}

func list(t testing.TB, h http.Handler, id string) reply {
	return send(h, in(id, legacy.request(t, "tools/list", ``)))
}

func TestSessionDeleteOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(objecttest.Mem)
		var looks atomic.Int64
		store.OnGet = func(context.Context, string) error { looks.Add(1); return nil }
		store.OnPut = func(context.Context, string, []byte) (bool, error) { looks.Add(1); return false, nil }
		h, _ := startOn(t, store)
		ended, other := begin(t, h, ``), begin(t, h, ``)
		looks.Store(0)
		list(t, h, other).wantResult(t)
		if n := looks.Load(); n != 0 {
			t.Errorf("a request of a session reads the store %d times, want 0", n)
		}
		ends(t, h, ended)
		h, _ = startOn(t, store)
		list(t, h, ended).wantError(t, 404, -32001, "7")
		remove(t, h, ended).wantError(t, 404, -32001, "")
		list(t, h, other).wantResult(t)

		time.Sleep(25 * time.Hour)
		later := begin(t, h, ``)
		remove(t, h, later)
		o, err := store.Get(t.Context(), mcphttp.EndedKey, "")
		if err != nil || strings.Count(string(o.Data), "expires") != 1 {
			t.Errorf("got %s, %v; want only the unexpired session", o.Data, err)
		}
		if strings.Contains(string(o.Data), later) {
			t.Errorf("a session id is stored: %s", o.Data)
		}
	})
}

// Two processes with one store keep each other's entries.
func TestSessionDeleteInTwoProcesses(t *testing.T) {
	store := new(objecttest.Mem)
	a, _ := startOn(t, store)
	b, _ := startOn(t, store)
	var ids []string
	for range 4 {
		for _, h := range []http.Handler{a, b} {
			id := begin(t, h, ``)
			ends(t, h, id)
			ids = append(ids, id)
		}
	}
	c, _ := startOn(t, store)
	for _, id := range ids {
		list(t, c, id).wantError(t, 404, -32001, "7")
	}
}

func TestSessionDeleteNotStored(t *testing.T) {
	for _, kept := range []bool{false, true} {
		store := new(objecttest.Mem)
		full := true
		store.OnPut = func(context.Context, string, []byte) (bool, error) {
			if full {
				return kept, errors.New("no space left on device")
			}
			return false, nil
		}
		h, _ := startOn(t, store)
		id := begin(t, h, ``)
		got := remove(t, h, id)
		got.wantError(t, 503, 503, "")
		for _, says := range []string{"the session has ended", "could not store", "if it restarts before 20", "the session id works again", "send DELETE again"} {
			if !strings.Contains(got.body, says) {
				t.Errorf("DELETE says %s, not %q", got.body, says)
			}
		}
		if strings.Contains(got.body, "no space") || got.header.Get("Retry-After") != "5" {
			t.Errorf("DELETE = %v %s", got.header, got.body)
		}
		list(t, h, id).wantError(t, 404, -32001, "7")
		if !kept { // as the answer says, the id works after a restart
			h, _ := startOn(t, store)
			list(t, h, id).wantResult(t)
		}
		full = false
		ends(t, h, id)
		remove(t, h, id).wantError(t, 404, -32001, "")
		h, _ = startOn(t, store)
		list(t, h, id).wantError(t, 404, -32001, "7")
	}
}

// If the store is unreadable, all earlier sessions count as ended.
func TestEndedSessionsUnread(t *testing.T) {
	for name, damage := range map[string]func(store *objecttest.Mem){
		"out of reach": func(store *objecttest.Mem) {
			store.OnGet = func(context.Context, string) error { return errors.New("input/output error") }
		},
		"damaged": func(store *objecttest.Mem) {
			store.OnGet = func(context.Context, string) error { return objects.ErrDamaged }
		},
		"not JSON": func(store *objecttest.Mem) {
			if _, err := store.Put(t.Context(), mcphttp.EndedKey, []byte(`{"sessions":`), ""); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := new(objecttest.Mem)
				h, _ := startOn(t, store)
				open, ended := begin(t, h, ``), begin(t, h, ``)
				remove(t, h, ended)
				damage(store)
				time.Sleep(time.Minute)
				h, log := startOn(t, store)
				list(t, h, open).wantError(t, 404, -32001, "7")
				list(t, h, ended).wantError(t, 404, -32001, "7")
				if !strings.Contains(log.String(), "ended sessions not read; all earlier sessions are refused") {
					t.Errorf("log = %s", log)
				}
				time.Sleep(time.Second)
				later, next := begin(t, h, ``), begin(t, h, ``)
				list(t, h, later).wantResult(t)
				store.OnGet = nil
				ends(t, h, next)
				h, _ = startOn(t, store) // it reads the stored sessions again
				for _, id := range []string{open, ended, next} {
					list(t, h, id).wantError(t, 404, -32001, "7")
				}
				list(t, h, later).wantResult(t)
			})
		})
	}
}

// One agent cannot use up the room of other agents. When its own room is full, it gets an error.
func TestEndedSessionsOfOneAgent(t *testing.T) {
	o := laptop()
	o.Ended = new(mcphttp.EndedSessions)
	for i := range 2_000 {
		if err := mcphttp.NoteEnded(o.Ended, identity.Agent{Way: "jwt", ID: "ann"}); err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
	}
	h := newAuthHandler(t, &backend{}, sayers{}, o)
	end := func(who string) (got reply, id string) {
		id = send(h, as(who, protocols[0].request(t, "initialize", `"capabilities":{}`))).header.Get("Mcp-Session-Id")
		return send(h, as(who, in(id, httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/mcp", nil)))), id
	}
	got, id := end("jwt ann")
	got.wantError(t, 429, 429, "")
	if !strings.Contains(got.body, "its id works until 20") {
		t.Errorf("DELETE = %s", got.body)
	}
	send(h, as("jwt ann", in(id, legacy.request(t, "tools/list", ``)))).wantResult(t)
	if got, _ := end("jwt bob"); got.status != http.StatusNoContent {
		t.Errorf("DELETE of another agent = %d %s", got.status, got.body)
	}
}

func TestEndedSessionsOfAll(t *testing.T) {
	var doc strings.Builder
	for i := range 9_999 {
		fmt.Fprintf(&doc, `,"%d":{"owner":"b3RoZXI=","expires":%d}`, i, time.Now().Add(time.Hour).Unix())
	}
	store := new(objecttest.Mem)
	if _, err := store.Put(t.Context(), mcphttp.EndedKey, []byte(`{"sessions":{`+doc.String()[1:]+`}}`), ""); err != nil {
		t.Fatal(err)
	}
	h, _ := startOn(t, store)
	ends(t, h, begin(t, h, ``))
	id := begin(t, h, ``)
	remove(t, h, id).wantError(t, 429, 429, "")
	list(t, h, id).wantResult(t)
}
