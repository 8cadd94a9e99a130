package notify

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
)

const (
	// lease is how long one sender owns a notice. It is longer than all attempts for all targets.
	lease = 3 * time.Minute

	// reserve is the part of a sender's time in which it stores results.
	reserve = 3 * time.Second

	// fewRequests is the maximum number of requests with separate messages. If more requests wait,
	// a target gets one message for all.
	fewRequests = 20

	// A sender retries a failed target after a minute, and doubles the time with each failure up to
	// half an hour.
	firstAgain = time.Minute
	maxAgain   = 30 * time.Minute
)

// A Publisher publishes messages to topics.
type Publisher interface {
	// Publish publishes to the topic with this ARN. The error wraps [ErrRefused] if a retry is
	// useless. It does not contain text from the service.
	Publish(ctx context.Context, topic, subject, body string, attributes map[string]string) error
}

// ErrRefused says that a target permanently refuses a message.
var ErrRefused = errors.New("refused")

// SenderOptions configure a [Sender]. Targets is required.
type SenderOptions struct {
	Targets func() []config.Notify                     // targets of the config in use
	Secrets secret.Source                              // nil: the environment
	Rule    egress.Rule                                // which addresses the sender may dial
	Roots   *x509.CertPool                             // roots of trusted certificates; nil: the system's
	BaseURL string                                     // base URL of links; "": no links
	Agent   string                                     // User-Agent; "": portcullis
	Events  audit.Events                               // for undelivered messages; nil: only the log
	Audit   *audit.Log                                 // call audit that also gets these events; nil: none
	Log     *slog.Logger                               // nil: none
	Now     func() time.Time                           // nil: time.Now
	Pause   func(ctx context.Context, d time.Duration) // waits between two attempts; nil: a timer
}

// A Sender sends the notices of an outbox. Several senders may run at once, even in several
// processes.
type Sender struct {
	box  *Outbox
	o    SenderOptions
	http *http.Client

	topics Publisher // nil: the sender gives up targets of type sns

	mu   sync.Mutex
	last map[string]Delivery // by key of the target
}

// NewSender returns a Sender. It makes no call.
func NewSender(box *Outbox, o SenderOptions) *Sender {
	if o.Secrets == nil {
		o.Secrets = secret.Env{}
	}
	if o.Agent == "" {
		o.Agent = "portcullis"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Pause == nil {
		o.Pause = pause
	}
	d := &egress.Dialer{Rule: o.Rule, Roots: o.Roots}
	return &Sender{box: box, o: o, http: &http.Client{
		Transport: d.Transport(),
		// A redirect could lead anywhere, with data for the target.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// PublishBy sets the publisher for topics. Without it, the sender gives up targets of type sns.
// Call it before Send.
func (s *Sender) PublishBy(p Publisher) { s.topics = p }

// A SendReport says what a run of a [Sender] did.
type SendReport struct {
	Told    int       // messages that targets accepted
	GivenUp int       // messages that the sender gave up
	Left    int       // notices that are still open, including notices of other senders
	Next    time.Time // when the first open notice is due; zero: there is none
}

// Send sends the due notices, oldest first, until ctx is about to end. Without a target it reads
// nothing.
func (s *Sender) Send(ctx context.Context) (SendReport, error) { return s.send(ctx, nil) }

// send is Send, but starts no further message after stop is closed.
func (s *Sender) send(ctx context.Context, stop <-chan struct{}) (sent SendReport, err error) {
	targets := s.targets()
	if len(targets) == 0 {
		return SendReport{}, nil
	}
	open, all, err := s.box.Pending(ctx)
	if err != nil {
		return SendReport{}, err
	}
	if !all {
		s.o.Log.WarnContext(ctx, "notices not read")
	}
	r := &run{Sender: s, targets: targets, down: map[string]time.Duration{}}
	var requests, others []Notice
	for _, n := range open {
		switch {
		case n.Due.After(s.o.Now()):
			r.countOpen(n)
		case n.Event.Kind == RequestMade && !s.expired(n):
			requests = append(requests, n)
		default:
			others = append(others, n)
		}
	}
	var batches [][]Notice
	if len(requests) > fewRequests {
		batches = append(batches, requests)
	} else {
		others = append(others, requests...)
		sortNotices(others)
	}
	for n := range slices.Chunk(others, 1) {
		batches = append(batches, n)
	}
	for _, batch := range batches {
		if isEnding(ctx, stop) {
			for _, n := range batch {
				r.countOpen(n)
			}
			continue
		}
		err = errors.Join(err, r.take(ctx, batch))
	}
	return r.sent, err
}

// expired reports whether a notice is so old that the sender gives it up.
func (s *Sender) expired(n Notice) bool { return s.o.Now().Sub(n.Put) >= GiveUpAfter }

// isEnding reports whether ctx has too little time for another notice, or stop was closed.
func isEnding(ctx context.Context, stop <-chan struct{}) bool {
	select {
	case <-stop: // never, if it is nil
		return true
	default:
	}
	end, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && time.Until(end) < 2*reserve
}

// A run is one [Sender.Send].
type run struct {
	*Sender
	targets []*target
	sent    SendReport

	mu   sync.Mutex
	down map[string]time.Duration // targets that failed in this run, with their Retry-After
}

func (r *run) countOpen(n Notice) {
	r.sent.Left++
	if r.sent.Next.IsZero() || n.Due.Before(r.sent.Next) {
		r.sent.Next = n.Due
	}
}

// take claims notices and sends them to each target. If there are several notices, they are
// requests, and take sends one message for all.
func (r *run) take(ctx context.Context, batch []Notice) error {
	var claimed []Notice
	var failed error
	for _, n := range batch {
		n.Due = r.o.Now().Add(lease).UTC().Truncate(time.Microsecond)
		switch got, err := r.box.Change(ctx, n); {
		case err == nil:
			claimed = append(claimed, got)
		case errors.Is(err, ErrTaken): // another sender has it
		default:
			r.countOpen(n)
			failed = err
		}
	}
	if len(claimed) == 0 {
		return failed
	}
	done, again := r.deliverAll(ctx, claimed)
	keep, cancel := context.WithTimeout(context.WithoutCancel(ctx), reserve)
	defer cancel()
	for _, n := range claimed {
		failed = errors.Join(failed, r.settle(keep, n, done, again))
	}
	return failed
}

// eventOf returns the event of a notice, or one event for many requests. The id of the latter
// depends on all of them.
func eventOf(notices []Notice) Event {
	if len(notices) == 1 {
		return notices[0].Event
	}
	ids := []string{"digest"}
	for _, n := range notices {
		ids = append(ids, n.Event.ID)
	}
	return Event{ID: IDOf(ids...), Kind: RequestMade, At: notices[len(notices)-1].Event.At, Waiting: len(notices), Path: "/admin/requests"}
}

// deliverAll sends to each target, concurrently, one message about the notices that the target
// wants and does not have yet. It returns the keys of the finished targets, and the minimum wait
// before a retry for the others.
func (r *run) deliverAll(ctx context.Context, notices []Notice) (done []string, again time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	over := slices.ContainsFunc(notices, r.expired) // an expired notice is the only one of its batch
	for _, t := range r.targets {
		var its []Notice
		for _, n := range notices {
			if t.isOpen(n) {
				its = append(its, n)
			}
		}
		if len(its) == 0 {
			continue
		}
		wg.Go(func() {
			e := eventOf(its)
			why := r.deliver(ctx, t, e, messageOf(e, r.o.BaseURL), over)
			mu.Lock()
			defer mu.Unlock()
			var f *failure
			switch {
			case why == nil:
				r.sent.Told++
				done = append(done, t.key)
			case errors.As(why, &f) && !f.final && !over:
				again = max(again, f.after)
			default:
				r.sent.GivenUp++
				done = append(done, t.key)
				r.recordUnsent(ctx, t, e, why)
			}
		})
	}
	wg.Wait()
	return done, again
}

// deliver sends a message to one target, unless the target has failed in this run already.
func (r *run) deliver(ctx context.Context, t *target, e Event, m message, over bool) error {
	if over {
		return r.note(ctx, t, e, &failure{why: "no delivery succeeded for a day", final: true})
	}
	r.mu.Lock()
	after, down := r.down[t.key]
	r.mu.Unlock()
	if down {
		return &failure{why: "it failed before", after: after}
	}
	err := r.attempts(ctx, t, e, m)
	r.remember(t, e, err)
	var f *failure
	if !errors.As(err, &f) {
		return nil
	}
	if !f.final {
		r.mu.Lock()
		r.down[t.key] = f.after
		r.mu.Unlock()
	}
	return r.note(ctx, t, e, f)
}

// note logs that a target did not get a message, and returns why.
func (r *run) note(ctx context.Context, t *target, e Event, f *failure) error {
	level := slog.LevelWarn
	if f.final {
		level = slog.LevelError
	}
	r.o.Log.LogAttrs(ctx, level, "notice not delivered", slog.String("target", t.name), slog.String("event", string(e.Kind)), slog.Bool("given_up", f.final), slog.String("reason", f.why))
	return f
}

// settle stores which targets have the notice, or removes the notice if no target is left.
func (r *run) settle(ctx context.Context, n Notice, done []string, again time.Duration) error {
	for _, key := range done {
		if !n.IsDone(key) {
			n.Done = append(n.Done, key)
		}
	}
	var err error
	if slices.ContainsFunc(r.targets, func(t *target) bool { return t.isOpen(n) }) && !r.expired(n) {
		again = max(again, min(firstAgain<<min(n.Tries, 10), maxAgain))
		n.Tries++
		n.Due = r.o.Now().Add(again).UTC().Truncate(time.Microsecond)
		r.countOpen(n)
		_, err = r.box.Change(ctx, n)
	} else {
		err = r.box.Remove(ctx, n)
	}
	if errors.Is(err, ErrTaken) { // the lease was too short, or the answer was lost: at worst the targets get it again
		return nil
	}
	return err
}

// recordUnsent records that a target did not get a message.
func (r *run) recordUnsent(ctx context.Context, t *target, e Event, why error) {
	l := audit.Line{
		V: audit.Version, Time: r.o.Now().UTC(), Kind: audit.KindEvent, Actor: actor, Action: audit.ActionUnsent, Request: e.Request,
		Note: t.name + " did not get " + string(e.Kind) + ": " + why.Error(),
	}
	switch {
	case len(e.Items) > 0:
		l.Tool = e.Items[0].String()
	case e.Server != "":
		l.Subject = audit.AboutServer + ":" + e.Server
	case e.File != "":
		l.Subject = audit.AboutFile + ":" + e.File
	default:
		l.Subject = audit.AboutAll
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reserve)
	defer cancel()
	var err error
	if r.o.Events != nil {
		err = r.o.Events.PutEvent(ctx, l)
	}
	if r.o.Audit != nil {
		err = errors.Join(err, r.o.Audit.Write(ctx, l))
	}
	if err != nil {
		r.o.Log.LogAttrs(ctx, slog.LevelError, "audit event about an unsent notice not written", slog.Any("error", err))
	}
}

// actor is the actor of events about undelivered messages.
const actor = "notify"
