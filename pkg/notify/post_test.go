package notify_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/notify"
	"github.com/portcullis-mcp/portcullis/pkg/notify/notifytest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A post office for tests.
func newPost(box notify.Box, log *local.Buffer, events ...string) *notify.Post {
	return &notify.Post{
		Box: box, Log: slog.New(slog.NewTextHandler(log, nil)),
		Targets: func() []config.Notify {
			if events == nil {
				return nil
			}
			return []config.Notify{{Type: "slack", Events: events}}
		},
	}
}

func TestPost(t *testing.T) {
	box, log := new(notifytest.Mem), new(local.Buffer)
	p := newPost(box, log, "request")
	var woken []string
	p.Wake = func(_ context.Context, id string) error { woken = append(woken, id); return nil }
	p.Tell(t.Context(), notify.Event{Kind: notify.Decided, Request: "R-1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the request has been answered
	e := notify.Event{Kind: notify.Asked, Request: "R-7KQ2M4XD", Agent: "ci"}
	p.Tell(ctx, e)
	p.Tell(ctx, e)
	list, err := box.Pending(t.Context())
	require.OK(t, err)
	if len(list) != 1 || list[0].Event.Request != e.Request || len(woken) != 2 || woken[0] != list[0].Event.ID || woken[1] != woken[0] {
		t.Errorf("Pending = %+v, woken %q", list, woken)
	}
	if log.String() != "" {
		t.Errorf("log: %s", log)
	}
}

// Nothing fails because people cannot be told; the log says so.
func TestPostThatFails(t *testing.T) {
	box, log := new(notifytest.Mem), new(local.Buffer)
	p := newPost(box, log, "request")
	box.OnPut = func(notify.Event) error { return errors.New("no room") }
	p.Wake = func(context.Context, string) error { t.Error("woken for nothing"); return nil }
	p.Tell(t.Context(), notify.Event{Kind: notify.Asked, Request: "R-1"})
	if !strings.Contains(log.String(), "people are not told") || !strings.Contains(log.String(), "no room") {
		t.Errorf("log: %s", log)
	}
	box.OnPut = nil
	p.Wake = func(context.Context, string) error { return errors.New("no function") }
	p.Tell(t.Context(), notify.Event{Kind: notify.Asked, Request: "R-1"})
	list, err := box.Pending(t.Context())
	require.OK(t, err)
	if len(list) != 1 || !strings.Contains(log.String(), "with the next sync") {
		t.Errorf("Pending = %+v; log: %s", list, log)
	}
	p.Box = stuck{}
	began := time.Now()
	p.Tell(t.Context(), notify.Event{Kind: notify.Asked, Request: "R-2"})
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it waits %v for a store that does not answer", took)
	}
}

// stuck is an outbox that does not answer.
type stuck struct{}

func (stuck) Put(ctx context.Context, _ notify.Event) error {
	<-ctx.Done()
	return ctx.Err()
}

// Without a target nothing is read or written.
func BenchmarkTellNobody(b *testing.B) {
	box := new(notifytest.Mem)
	box.OnPut = func(notify.Event) error { b.Error("put"); return nil }
	p := newPost(box, new(local.Buffer))
	b.ReportAllocs()
	for b.Loop() {
		p.Tell(b.Context(), notify.Event{Kind: notify.Asked, Request: "R-1"})
	}
}

func TestTellNobodyCostsNothing(t *testing.T) {
	box := new(notifytest.Mem)
	box.OnPut = func(notify.Event) error { t.Error("put"); return nil }
	p := newPost(box, new(local.Buffer))
	e, ctx := notify.Event{Kind: notify.Asked, Request: "R-1"}, t.Context()
	if n := testing.AllocsPerRun(100, func() { p.Tell(ctx, e) }); n > 0 || box.Reads() > 0 {
		t.Errorf("%v allocations, %d reads", n, box.Reads())
	}
}
