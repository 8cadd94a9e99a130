package console_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/people/console"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// auditDays returns a folder of the audit with these lines.
func auditDays(t testing.TB, lines ...audit.Line) *audit.Dir {
	t.Helper()
	d, err := audit.OpenDir(
		filepath.Join(t.TempDir(), "audit"),
		&audit.DirOptions{Now: func() time.Time { return lines[0].Time }},
	)
	require.OK(t, err)
	t.Cleanup(func() { require.OK(t, d.Close()) })
	require.OK(t, d.WriteAll(t.Context(), lines))
	return d
}

// A reader is the browser of a person who follows the audit.
type reader struct {
	mu     sync.Mutex
	said   strings.Builder
	header http.Header
	status int
	stuck  chan struct{} // while it is open, a write waits; nil: no write waits
}

func (r *reader) Header() http.Header  { return r.header }
func (r *reader) WriteHeader(code int) { r.status = code }
func (r *reader) Flush()               {}

func (r *reader) Write(b []byte) (int, error) {
	if r.stuck != nil {
		<-r.stuck
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.Write(b)
}

// text returns what the reader got since the last call.
func (r *reader) text() string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.said.Reset()
	return r.said.String()
}

// A stream is a console with a feed, and the rights of its caller.
type stream struct {
	*fixture
	feed   *audit.Feed
	rights identity.Rights
	ending chan struct{}
	all    http.Handler
}

func newStream(t *testing.T) *stream {
	s := &stream{
		fixture: newFixture(t),
		feed:    &audit.Feed{},
		rights:  identity.Rights{Role: identity.Viewer},
		ending:  make(chan struct{}),
	}
	s.Decide.Feed = s.feed
	s.Console.Ending, s.Console.Now, s.Decide.Now = s.ending, time.Now, time.Now
	s.Console.Actor = func(*http.Request) (decide.Actor, error) { return decide.Actor{Name: "vic", Rights: s.rights}, nil }
	s.Open()
	s.all = console.New(s.Console)
	return s
}

// start lets r follow the audit. The returned function ends this.
func (s *stream) start(r *reader, query, last string) (leave func()) {
	s.T.Helper()
	r.header = http.Header{}
	ctx, cancel := context.WithCancel(s.T.Context())
	req, err := http.NewRequestWithContext(
		ctx,
		http.MethodGet,
		s.URL+"/admin/audit/follow"+query,
		nil,
	)
	require.OK(s.T, err)
	req.Header.Set("Last-Event-ID", last)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.all.ServeHTTP(r, req)
	}()
	return func() { cancel(); <-done }
}

// line writes a line to the feed.
func (s *stream) line(l audit.Line) {
	l.V, l.Kind, l.Time = 1, audit.KindEvent, time.Now()
	require.OK(s.T, s.feed.Write(s.T.Context(), l))
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.keep(audit.Line{Time: time.Now(), Actor: "old", Action: audit.ActionLogin})
		time.Sleep(time.Minute)
		since := time.Now()
		s.keep(audit.Line{Time: time.Now(), Actor: "recent", Action: audit.ActionLogin})
		r := &reader{}
		leave := s.start(r, "?sync=hide&since="+since.UTC().Format(time.RFC3339Nano), "")
		if got := r.text(); !strings.HasPrefix(got, "retry: 3000\n\nevent: line\nid: ") ||
			!strings.Contains(got, "<b>recent</b>") ||
			strings.Contains(got, "old") ||
			r.header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%v: %s", r.header, got)
		}
		s.line(audit.Line{Actor: "sync", Action: "observe", Tool: "fs:x"})
		s.line(
			audit.Line{
				Actor:   "kim",
				Action:  audit.ActionStop,
				Subject: "agent:token:ci",
				Note:    "a\r\n\r\nevent: end\ndata: <script>x</script>",
			},
		)
		got := r.text()
		if strings.Count(got, "event:") != 2 || strings.Count(got, "\nevent:") != 0 ||
			strings.Contains(got, "<script>") ||
			!strings.Contains(
				got,
				`<a href="../admin/agents?agent=token%3Aci">agent:token:ci</a>`,
			) {
			t.Errorf("%s", got)
		}
		time.Sleep(16 * time.Second)
		if got := r.text(); got != ": waiting\n\n" {
			t.Errorf("after a quiet time: %q", got)
		}
		leave()

		// A later stream begins with the lines since the last one.
		r = &reader{}
		leave = s.start(
			r,
			"?since=1999-01-01",
			since.Add(-30*time.Second).UTC().Format(time.RFC3339Nano),
		)
		if got := r.text(); strings.Contains(got, "old") || !strings.Contains(got, "recent") {
			t.Errorf("%s", got)
		}
		close(s.ending)
		synctest.Wait()
		leave()
	})
}

// A reader who may no longer read gets no line after two seconds.
func TestFollowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		r, quiet := &reader{}, &reader{}
		leave, leaveQuiet := s.start(
			r,
			"?since=0s",
			"",
		), s.start(
			quiet,
			"?since=0s&actor=nobody",
			"",
		)
		_ = r.text()
		s.rights = identity.Rights{}
		time.Sleep(2 * time.Second)
		s.line(audit.Line{Actor: "kim", Action: audit.ActionLogin})
		if got := r.text(); got != "event: end\ndata: You may no longer read the audit here. Sign in again.\n\n" {
			t.Errorf("%s", got)
		}
		time.Sleep(15 * time.Second)
		if got := quiet.text(); !strings.HasSuffix(
			got,
			"event: end\ndata: You may no longer read the audit here. Sign in again.\n\n",
		) {
			t.Errorf("without lines: %s", got)
		}
		leave()
		leaveQuiet()
		refused := &reader{}
		s.start(refused, "", "")()
		if refused.status != http.StatusForbidden {
			t.Errorf("without a role: %d", refused.status)
		}
	})
}

// A slow reader loses lines and learns how many; others get every line. Too many readers are
// refused.
func TestFollowWithManyReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		slow := &reader{stuck: make(chan struct{})}
		leave := []func(){s.start(slow, "?since=0s", "")}
		var all []*reader
		for range audit.MaxFollowers - 1 {
			r := &reader{}
			all, leave = append(all, r), append(leave, s.start(r, "?since=0s", ""))
		}
		for range 200 {
			synctest.Wait()
			s.line(audit.Line{Actor: "kim", Action: audit.ActionLogin})
		}
		for n, r := range all {
			if got := strings.Count(r.text(), "event: line"); got != 200 {
				t.Errorf("reader %d got %d lines", n, got)
			}
		}
		close(slow.stuck)
		if got := slow.text(); strings.Count(got, "event: line") != 128 ||
			!strings.Contains(got, "data: 72 lines could not be sent in time.") {
			t.Errorf("the slow reader got %d lines: %.500s", strings.Count(got, "event: line"), got)
		}
		more := &reader{}
		s.start(more, "", "")()
		if more.status != http.StatusServiceUnavailable ||
			!strings.Contains(more.text(), "too many people follow the audit") {
			t.Errorf("one reader too many: %d", more.status)
		}
		for _, l := range leave {
			l()
		}
	})
}
