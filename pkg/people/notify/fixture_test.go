package notify_test

import (
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/document/documenttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify/notifytest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit/audittest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// signing is the secret of the test webhooks.
var signing = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))

// A message is a message that a stub received.
type message struct {
	header http.Header
	body   string
}

// A stub receives messages over HTTP, and answers as the test requires.
type stub struct {
	*httptest.Server
	mu     sync.Mutex
	got    []message
	answer func(n int, w http.ResponseWriter) // nil: 200; n counts from 0
}

func newStub(t *testing.T) *stub {
	s := &stub{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, message{r.Header, string(body)})
		if s.answer != nil {
			s.answer(len(s.got)-1, w)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *stub) messages() []message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func (s *stub) says(answer func(n int, w http.ResponseWriter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// status returns a handler that always answers with the code.
func status(code int) func(int, http.ResponseWriter) {
	return func(_ int, w http.ResponseWriter) { w.WriteHeader(code) }
}

// An office is an outbox with its sender and a clock.
type office struct {
	*notifytest.Clock
	docs    *documenttest.Store
	box     *notify.Outbox
	sender  *notify.Sender
	options notify.SenderOptions
	events  *audittest.Mem
	log     *local.Buffer
	secrets map[string]string
	paused  []time.Duration
	targets []config.Notify
}

// Secret implements [secret.Source].
func (o *office) Secret(_ context.Context, ref string) (string, error) {
	v, ok := o.secrets[ref]
	switch {
	case !ok:
		return "", secret.ErrNotFound
	case v == "":
		return "", io.ErrUnexpectedEOF
	}
	return v, nil
}

func newOffice(t *testing.T, targets ...config.Notify) *office {
	t.Helper()
	o := &office{Clock: new(notifytest.Clock), events: new(audittest.Mem), log: new(local.Buffer), secrets: map[string]string{}, targets: targets}
	o.docs = &documenttest.Store{Now: o.Now}
	o.box = notify.NewOutbox(o.docs, o.Now)
	var mu sync.Mutex
	o.options = notify.SenderOptions{
		Targets: func() []config.Notify { return o.targets }, Secrets: o, Rule: egress.Rule{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		BaseURL: "https://gate.example.com", Agent: "portcullis/test", Events: o.events, Log: slog.New(slog.NewTextHandler(o.log, nil)), Now: o.Now,
		Pause: func(_ context.Context, d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			o.paused = append(o.paused, d)
		},
	}
	o.sender = notify.NewSender(o.box, o.options)
	return o
}

func (o *office) put(t *testing.T, events ...notify.Event) {
	t.Helper()
	for _, e := range events {
		require.OK(t, o.box.Put(t.Context(), e))
	}
}

func (o *office) send(t *testing.T) notify.SendReport {
	t.Helper()
	sent, err := o.sender.Send(t.Context())
	require.OK(t, err)
	return sent
}

func (o *office) open(t *testing.T) []notify.Notice {
	t.Helper()
	list, _, err := o.box.Pending(t.Context())
	require.OK(t, err)
	return list
}

// checkLog fails if the log has secrets or addresses.
func (o *office) checkLog(t *testing.T, addresses ...string) {
	t.Helper()
	for _, what := range append(addresses, "127.0.0.1", signing, "hooks") {
		if strings.Contains(o.log.String(), what) {
			t.Errorf("the log has %q: %s", what, o.log)
		}
		for _, l := range o.events.Lines() {
			if strings.Contains(l.Note, what) {
				t.Errorf("the audit has %q: %s", what, l.Note)
			}
		}
	}
}

func slack(url string, events ...string) config.Notify {
	if events == nil {
		events = config.NotifyEvents()
	}
	return config.Notify{Type: "slack", URL: secret.New(url), Events: events}
}

func webhook(url string) config.Notify {
	return config.Notify{Type: "webhook", URL: secret.New(url), Secret: secret.New(signing), Events: config.NotifyEvents()}
}
