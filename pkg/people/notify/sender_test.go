package notify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/base/document"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt/bolttest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// event returns the nth event. The sender joins requests into one message, but not this event,
// because it is about a server.
func event(n int) notify.Event {
	return notify.Event{ID: fmt.Sprint("e", n), Kind: notify.ServerDown, Server: fmt.Sprint("s", n), Path: "/admin/servers/s"}
}

func TestEachTargetGetsItsEvents(t *testing.T) {
	all, few := newStub(t), newStub(t)
	o := newOffice(t, slack(all.URL), slack(few.URL, "new", "decided"))
	for i, e := range samples() {
		e.ID = fmt.Sprint(i)
		o.put(t, e)
	}
	sent := o.send(t)
	if n, m := len(all.messages()), len(few.messages()); n != len(samples()) || m != 8 || sent.Told != n+m || sent.Left > 0 {
		t.Errorf("the target of all events got %d messages, the other %d; report %+v", n, m, sent)
	}
	if again := o.send(t); again != (notify.SendReport{}) {
		t.Errorf("a second Send reports %+v, want nothing sent", again)
	}
}

// A target with servers gets only the events about them: not another server's, and none without a
// server. If many requests wait, its one message counts the requests that it may get.
func TestTargetsOfServers(t *testing.T) {
	all, git := newStub(t), newStub(t)
	narrow := slack(git.URL)
	narrow.Servers = []string{"git", "s1"}
	o := newOffice(t, slack(all.URL), narrow)
	o.put(t, event(1), event(2), notify.Event{Kind: notify.ConfigRefused, File: "config/policy.cedar"})
	if sent := o.send(t); sent.Told != 4 || sent.Left > 0 || len(git.messages()) != 1 || !strings.Contains(git.messages()[0].body, "`s1`") {
		t.Errorf("%+v; the target of the servers got %+v", sent, git.messages())
	}
	for i := range 30 {
		o.put(t, notify.Event{Kind: notify.RequestMade, Server: []string{"git", "pay", "pay"}[i%3], Request: fmt.Sprint("R-", i)})
	}
	o.put(t, notify.Event{Kind: notify.RequestMade, Server: "pay", Request: "R-LAST"})
	sent := o.send(t)
	for _, at := range []struct {
		stub *stub
		want string
	}{{all, "31 requests wait"}, {git, "10 requests wait"}} {
		if got := at.stub.messages(); !strings.Contains(got[len(got)-1].body, at.want) {
			t.Errorf("want %q, got %s", at.want, got[len(got)-1].body)
		}
	}
	if sent.Told != 2 || sent.Left > 0 {
		t.Errorf("%+v, want one message for each target", sent)
	}
}

// Without targets, Send does not read the outbox.
func TestSendToNobody(t *testing.T) {
	o := newOffice(t)
	o.put(t, event(1))
	o.docs.OnList = func(context.Context, string) error { t.Error("the outbox is listed"); return nil }
	o.send(t)
}

// A target that is down delays no other target, and gets the missed messages when it is back.
func TestTargetThatIsDown(t *testing.T) {
	up, down := newStub(t), newStub(t)
	down.says(status(503))
	o := newOffice(t, webhook(down.URL), slack(up.URL))
	o.put(t, event(1), event(2), event(3))
	sent := o.send(t)
	if len(up.messages()) != 3 || len(down.messages()) != 3 || sent.Told != 3 || sent.Left != 3 {
		t.Errorf("up got %d messages and down %d, want 3 and 3 (three "+
			"attempts of the first message); report %+v", len(up.messages()), len(down.messages()), sent)
	}
	if o.send(t); len(down.messages()) != 3 {
		t.Error("the target is tried again within a minute")
	}
	o.Pass(time.Minute + time.Second)
	o.send(t)
	down.says(nil)
	o.Pass(3 * time.Minute)
	before := len(down.messages())
	if sent := o.send(t); sent.Told != 3 || sent.Left > 0 || len(down.messages()) != before+3 {
		t.Errorf("after the target is up again: report %+v, %d messages",
			sent, len(down.messages())-before)
	}
	if len(up.messages()) != 3 {
		t.Errorf("the other target got %d messages", len(up.messages()))
	}
	all := down.messages()
	if first := all[0].header.Get("Webhook-Id"); all[1].header.Get("Webhook-Id") != first || all[before].header.Get("Webhook-Id") != first || all[before+1].header.Get("Webhook-Id") == first {
		t.Error("want one id for the attempts of one event, and another id for the next event")
	}
	if !strings.Contains(o.log.String(), "notify[0] (webhook)") || !strings.Contains(o.log.String(), "it answers 503") {
		t.Errorf("log: %s", o.log)
	}
	o.checkLog(t, up.URL, down.URL)
}

func TestRetryAfter(t *testing.T) {
	busy := newStub(t)
	o := newOffice(t, slack(busy.URL))
	busy.says(func(n int, w http.ResponseWriter) {
		switch n {
		case 0:
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		case 1:
			w.Header().Set("Retry-After", o.Now().Add(11*time.Second).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	o.put(t, event(1))
	sent := o.send(t)
	if sent.Told != 1 || len(o.paused) != 2 || o.paused[0] < 7*time.Second || o.paused[0] > 8*time.Second || o.paused[1] < 10*time.Second || o.paused[1] > 13*time.Second {
		t.Errorf("%+v after pauses of %v", sent, o.paused)
	}
	busy.says(func(_ int, w http.ResponseWriter) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	o.put(t, event(2))
	if sent := o.send(t); sent.Left != 1 || len(o.paused) != 2 || sent.Next.Sub(o.Now()) < 599*time.Second {
		t.Errorf("paused for %v: %+v", o.paused, sent)
	}
	busy.says(nil)
	o.Pass(9 * time.Minute)
	o.send(t)
	if n := len(busy.messages()); n != 4 {
		t.Errorf("the target is tried again too early: %d messages", n)
	}
	o.Pass(time.Minute + time.Second)
	if sent := o.send(t); sent.Told != 1 {
		t.Errorf("%+v", sent)
	}
}

// If a target refuses a message, the sender gives it up, writes this to the log and the audit, and
// sends the next message.
func TestTargetThatRefuses(t *testing.T) {
	elsewhere := newStub(t)
	for name, answer := range map[string]func(int, http.ResponseWriter){
		"it answers 404": status(404), "it answers 410": status(410), "it answers 400": status(400),
		"it answers 302, and no redirect is followed": func(_ int, w http.ResponseWriter) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			gone := newStub(t)
			gone.says(answer)
			o := newOffice(t, slack(gone.URL))
			o.put(t, event(1))
			o.Pass(time.Second)
			o.put(t, samples()[2])
			sent := o.send(t)
			if sent.GivenUp != 2 || sent.Left > 0 || len(gone.messages()) != 2 || len(o.open(t)) > 0 {
				t.Errorf("%+v, %d messages", sent, len(gone.messages()))
			}
			lines := o.events.Lines()
			if len(lines) != 2 || lines[0].Action != audit.ActionUnsent || lines[0].Subject != "server:s1" || !strings.Contains(lines[0].Note, name) || lines[1].Request != "R-7KQ2M4XD" || lines[1].Tool != "git:git_push" {
				t.Errorf("audit: %+v", lines)
			}
			o.checkLog(t, gone.URL, elsewhere.URL)
		})
	}
	if len(elsewhere.messages()) > 0 {
		t.Error("a redirect was followed")
	}
}

func TestGivenUpAfterADay(t *testing.T) {
	up, down := newStub(t), newStub(t)
	down.says(status(500))
	o := newOffice(t, slack(down.URL), slack(up.URL))
	o.put(t, event(1))
	var last notify.SendReport
	for range 24 * 4 {
		last = o.send(t)
		o.Pass(15 * time.Minute)
	}
	if last.Left != 1 || len(o.events.Lines()) > 0 {
		t.Errorf("within a day: %+v, %+v", last, o.events.Lines())
	}
	o.Pass(time.Hour)
	if sent := o.send(t); sent.GivenUp != 1 || len(o.open(t)) > 0 {
		t.Errorf("%+v", sent)
	}
	lines := o.events.Lines()
	if len(lines) != 1 || lines[0].Note != "notify[0] (slack) did not get server_down: no delivery succeeded for a day" || !strings.Contains(o.log.String(), "given_up=true") || lines[0].Actor != "notify" {
		t.Errorf("audit: %+v", lines)
	}
	if n := len(up.messages()); n != 1 {
		t.Errorf("the other target got %d messages", n)
	}
}

// The secrets of a target are read when a message is sent, so they may be created later.
func TestSecrets(t *testing.T) {
	hook := newStub(t)
	for name, c := range map[string]struct {
		secrets map[string]string
		want    string
	}{
		"no such secret":       {map[string]string{"ssm:/url": hook.URL}, "its secret refers to a secret that does not exist"},
		"an unreadable secret": {map[string]string{"ssm:/url": "", "env:SECRET": signing}, "the secret that its url refers to cannot be read now"},
		"an invalid URL":       {map[string]string{"ssm:/url": "hooks.example.com", "env:SECRET": signing}, "what its url refers to begins with neither"},
		"an invalid key":       {map[string]string{"ssm:/url": hook.URL, "env:SECRET": "hunter2"}, "what its secret refers to is not"},
		"an unknown host name": {map[string]string{"ssm:/url": "https://hooks.invalid/x", "env:SECRET": signing}, "the name of its host cannot be resolved"},
		"a private address":    {map[string]string{"ssm:/url": "https://10.0.0.7/hooks", "env:SECRET": signing}, "its address may not be dialed"},
		"the metadata service": {map[string]string{"ssm:/url": "http://169.254.169.254/hooks", "env:SECRET": signing}, "its address may not be dialed"},
		"nobody listens":       {map[string]string{"ssm:/url": "http://127.0.0.1:1/hooks", "env:SECRET": signing}, "it cannot be reached"},
		"no TLS":               {map[string]string{"ssm:/url": strings.Replace(hook.URL, "http:", "https:", 1), "env:SECRET": signing}, "its TLS handshake failed"},
	} {
		t.Run(name, func(t *testing.T) {
			target := webhook("${ssm:/url}")
			target.Secret = secret.New("${env:SECRET}")
			o := newOffice(t, target)
			o.secrets = c.secrets
			o.put(t, event(1))
			if sent := o.send(t); sent.Left != 1 || !strings.Contains(o.log.String(), c.want) {
				t.Errorf("%+v, want %q; log: %s", sent, c.want, o.log)
			}
			for _, v := range c.secrets {
				if v != "" {
					o.checkLog(t, v)
				}
			}
			o.secrets = map[string]string{"ssm:/url": hook.URL, "env:SECRET": signing}
			o.Pass(2 * time.Minute)
			if sent := o.send(t); sent.Told != 1 {
				t.Errorf("with the right secrets: %+v; log: %s", sent, o.log)
			}
		})
	}
}

// If many requests wait at the same time, the sender sends one message about all of them.
func TestFloodOfRequests(t *testing.T) {
	room := newStub(t)
	o := newOffice(t, slack(room.URL))
	ask := func(n int) {
		for i := range n {
			o.put(t, notify.Event{Kind: notify.RequestMade, Agent: "ci", Request: fmt.Sprintf("R-%d-%d", n, i), Path: "/admin/requests/R"})
		}
	}
	ask(20)
	o.put(t, event(1))
	if sent := o.send(t); sent.Told != 21 {
		t.Errorf("%+v, want one message for each", sent)
	}
	ask(300)
	o.put(t, event(2))
	sent := o.send(t)
	got := room.messages()[21:]
	if sent.Told != 2 || sent.Left > 0 || len(got) != 2 || !slices.ContainsFunc(got, func(m message) bool {
		return strings.Contains(m.body, "300 requests wait") && strings.Contains(m.body, "/admin/requests\"")
	}) {
		t.Errorf("%+v, %+v", sent, got)
	}
	room.says(status(500))
	ask(30)
	o.send(t)
	room.says(nil)
	o.Pass(2 * time.Minute)
	if sent := o.send(t); sent.Told != 1 || sent.Left > 0 {
		t.Errorf("after a fault: %+v", sent)
	}
}

// Senders that run at the same time send each event once to each target.
func TestTwoSenders(t *testing.T) {
	one, two := newStub(t), newStub(t)
	o := newOffice(t, slack(one.URL), webhook(two.URL))
	o.options.Now = nil
	o.box = notify.NewOutbox(bolttest.Open(t, t.TempDir()), nil)
	const events = 10
	for n := range events {
		o.put(t, event(n))
	}
	var wg sync.WaitGroup
	var told atomic.Int64
	for range 4 {
		s := notify.NewSender(o.box, o.options)
		wg.Go(func() {
			sent, err := s.Send(t.Context())
			if err != nil {
				t.Error(err)
			}
			told.Add(int64(sent.Told))
		})
	}
	wg.Wait()
	for name, s := range map[string]*stub{"slack": one, "webhook": two} {
		count := map[string]int{}
		for _, m := range s.messages() {
			count[m.body]++
		}
		if len(count) != events || len(s.messages()) != events {
			t.Errorf("%s: %d messages, %d of them different; want each event once",
				name, len(s.messages()), len(count))
		}
	}
	if told.Load() != 2*events || len(o.open(t)) > 0 {
		t.Errorf("%d messages sent, %d notices open", told.Load(), len(o.open(t)))
	}
}

// If a sender dies after a target got a message, the next sender sends it again with the same id.
func TestSenderThatDies(t *testing.T) {
	hook := newStub(t)
	o := newOffice(t, webhook(hook.URL))
	o.put(t, event(1))
	o.docs.OnPut = func(_ context.Context, docs []document.Doc) (bool, error) {
		if docs[0].Data == nil {
			return false, errors.New("the process is gone")
		}
		return false, nil
	}
	if _, err := o.sender.Send(t.Context()); err == nil {
		t.Error("Send returns no error, although it could not store that the message was sent")
	}
	o.docs.OnPut = nil
	if o.send(t); len(hook.messages()) != 1 {
		t.Error("another sender sends during the lease")
	}
	o.Pass(4 * time.Minute)
	o.send(t)
	got := hook.messages()
	if len(got) != 2 || got[0].header.Get("Webhook-Id") != got[1].header.Get("Webhook-Id") || got[0].body != got[1].body {
		t.Errorf("%d messages, want 2 with the same id and body", len(got))
	}
	if len(o.open(t)) > 0 {
		t.Errorf("open: %+v", o.open(t))
	}
}

// If little time is left before the deadline, a sender begins no further notice and does not change
// the notices that it has not begun.
func TestSendInTime(t *testing.T) {
	hook := newStub(t)
	o := newOffice(t, slack(hook.URL))
	o.put(t, event(1), event(2))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	sent, err := o.sender.Send(ctx)
	if err != nil || sent.Left != 2 || len(hook.messages()) > 0 {
		t.Errorf("%+v, %v, %d messages", sent, err, len(hook.messages()))
	}
	if sent := o.send(t); sent.Told != 2 {
		t.Errorf("%+v", sent)
	}
}

// Only a sender with a publisher publishes to topics.
func TestTopics(t *testing.T) {
	topic := config.Notify{Type: "sns", Topic: "arn:aws:sns:eu-west-1:123456789012:t", Events: config.NotifyEvents()}
	o := newOffice(t, topic)
	o.put(t, event(0))
	if sent := o.send(t); sent.GivenUp != 1 || !strings.Contains(o.log.String(), "only the functions on AWS") {
		t.Errorf("%+v; log: %s", sent, o.log)
	}
	p := new(publisher)
	o.sender.PublishBy(p)
	o.put(t, samples()[2])
	if sent := o.send(t); sent.Told != 1 {
		t.Errorf("%+v", sent)
	}
	want := []string{topic.Topic, "Portcullis: a request waits for a decision", "Agent \"ci\" asks for \"git:git_push\" (R-7KQ2M4XD; tier write, 2 findings).\n\nDecide: https://gate.example.com/admin/requests/R-7KQ2M4XD\n", "request"}
	if d := cmp.Diff(want, p.got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	p.err = errors.New("throttled")
	o.put(t, event(1))
	if sent := o.send(t); sent.Left != 1 {
		t.Errorf("%+v", sent)
	}
	p.err = fmt.Errorf("no such topic: %w", notify.ErrRefused)
	o.Pass(time.Hour)
	if sent := o.send(t); sent.GivenUp != 1 || len(o.open(t)) > 0 {
		t.Errorf("%+v", sent)
	}
	o.checkLog(t, "arn:")
}

type publisher struct {
	got []string
	err error
}

func (p *publisher) Publish(_ context.Context, topic, subject, body string, attributes map[string]string) error {
	p.got = []string{topic, subject, body, attributes["event"]}
	return p.err
}

// The worker sends when it is woken and ends with its program. The next worker sends the rest.
func TestCourier(t *testing.T) {
	room := newStub(t)
	o := newOffice(t, slack(room.URL))
	o.put(t, event(0))
	c := notify.NewWorker()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	stop := c.Start(ctx, o.sender)
	local.Until(t, "the old notice is sent", func() bool { return len(room.messages()) == 1 })
	o.put(t, event(1))
	require.OK(t, c.Wake(t.Context(), ""))
	local.Until(t, "the new notice is sent", func() bool { return len(room.messages()) == 2 })
	held, free := make(chan struct{}), make(chan struct{})
	room.says(func(n int, _ http.ResponseWriter) {
		if n == 2 {
			close(held)
			<-free
		}
	})
	o.put(t, event(2), event(3))
	require.OK(t, c.Wake(t.Context(), ""))
	<-held
	end() // before the current message is done, and so before the next one starts
	close(free)
	stop()
	if n := len(room.messages()); n != 3 || len(o.open(t)) != 1 {
		t.Errorf("%d messages and %d open notices, want 3 and 1: the sender finishes the current "+
			"message and begins no other", n, len(o.open(t)))
	}
	room.says(nil)
	defer notify.NewWorker().Start(t.Context(), o.sender)()
	local.Until(t, "the rest is sent", func() bool { return len(room.messages()) == 4 })
}
