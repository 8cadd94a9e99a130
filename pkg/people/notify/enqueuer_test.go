package notify_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// newEnqueuer returns an enqueuer with one receiver for the events. Without events, it has no
// receiver.
func newEnqueuer(docs document.Store, log *local.Buffer, events ...string) *notify.Enqueuer {
	return &notify.Enqueuer{
		Box: notify.NewOutbox(docs, nil), Log: slog.New(slog.NewTextHandler(log, nil)),
		Targets: func() []config.Notify {
			if events == nil {
				return nil
			}
			return []config.Notify{{Type: "slack", Events: events}}
		},
	}
}

func TestPost(t *testing.T) {
	docs, log := new(documenttest.Store), new(local.Buffer)
	p := newEnqueuer(docs, log, "request")
	var woken []string
	p.Wake = func(_ context.Context, id string) error { woken = append(woken, id); return nil }
	p.Notify(t.Context(), notify.Event{Kind: notify.Decided, Request: "R-1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as after the answer to a request
	e := notify.Event{Kind: notify.RequestMade, Request: "R-7KQ2M4XD", Agent: "ci"}
	p.Notify(ctx, e)
	p.Notify(ctx, e)
	list, _, err := p.Box.Pending(t.Context())
	require.OK(t, err)
	if len(list) != 1 || list[0].Event.Request != e.Request || len(woken) != 2 || woken[0] != list[0].Event.ID || woken[1] != woken[0] {
		t.Errorf("Pending = %+v, woken %q", list, woken)
	}
	if log.String() != "" {
		t.Errorf("log: %s", log)
	}
}

// If a notification fails, nothing else fails, and the error is logged.
func TestPostThatFails(t *testing.T) {
	docs, log := new(documenttest.Store), new(local.Buffer)
	p := newEnqueuer(docs, log, "request")
	docs.OnPut = func(context.Context, []document.Doc) (bool, error) { return false, errors.New("no room") }
	p.Wake = func(context.Context, string) error { t.Error("unexpected Wake"); return nil }
	p.Notify(t.Context(), notify.Event{Kind: notify.RequestMade, Request: "R-1"})
	if !strings.Contains(log.String(), "notice not delivered") || !strings.Contains(log.String(), "no room") {
		t.Errorf("log: %s", log)
	}
	docs.OnPut = nil
	p.Wake = func(context.Context, string) error { return errors.New("no function") }
	p.Notify(t.Context(), notify.Event{Kind: notify.RequestMade, Request: "R-1"})
	list, _, err := p.Box.Pending(t.Context())
	require.OK(t, err)
	if len(list) != 1 || !strings.Contains(log.String(), "waits for the next sync") {
		t.Errorf("Pending = %+v; log: %s", list, log)
	}
}

func TestPostToASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := new(documenttest.Store)
		docs.OnPut = func(ctx context.Context, _ []document.Doc) (bool, error) { <-ctx.Done(); return false, ctx.Err() }
		began := time.Now()
		newEnqueuer(docs, new(local.Buffer), "request").Notify(t.Context(), notify.Event{Kind: notify.RequestMade, Request: "R-2"})
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("Notify waits %v for a store that does not answer, want 3 s", took)
		}
	})
}

func TestTellNobodyCostsNothing(t *testing.T) {
	docs := new(documenttest.Store)
	docs.OnPut = func(context.Context, []document.Doc) (bool, error) { t.Error("put"); return false, nil }
	docs.OnDocs, docs.OnList = noReads(t), func(context.Context, string) error { t.Error("list"); return nil }
	p := newEnqueuer(docs, new(local.Buffer))
	e, ctx := notify.Event{Kind: notify.RequestMade, Request: "R-1"}, t.Context()
	if n := testing.AllocsPerRun(100, func() { p.Notify(ctx, e) }); n > 0 {
		t.Errorf("Notify without receivers makes %v allocations, want 0", n)
	}
}
