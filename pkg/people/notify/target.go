package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
)

const (
	attempts   = 3               // of one message in one run
	attempt    = 8 * time.Second // maximum time of one attempt
	firstPause = 500 * time.Millisecond
	maxPause   = 15 * time.Second // if a target requires a longer pause, a later run sends the message
	maxAnswer  = 64 << 10         // bytes of an answer that are read
)

// A target is an entry of the config's notify list during one run of the Sender.
type target struct {
	config.Notify
	key  string // hash that identifies the target in a stored notice, which must not contain the address
	name string // name in the log and the audit: notify[0] (slack)

	once    sync.Once
	address string
	signing []byte
	fault   *failure
}

// isOpen reports whether the target wants the notice and does not have it yet.
func (t *target) isOpen(n Notice) bool { return wants(t.Notify, n.Event) && !n.IsDone(t.key) }

func (s *Sender) targets() (out []*target) {
	for i, t := range s.o.Targets() {
		out = append(out, newTarget(i, t))
	}
	return out
}

// newTarget returns the target that has index i in the config.
func newTarget(i int, t config.Notify) *target {
	return &target{
		Notify: t, key: IDOf("target", t.Type, t.URL.Reveal(), t.Topic)[:12],
		name: fmt.Sprintf("notify[%d] (%s)", i, t.Type),
	}
}

// A failure says why a target did not get a message. Its text is the gateway's own: it contains no
// address and no part of the target's answer.
type failure struct {
	why   string
	final bool          // a retry is useless
	after time.Duration // minimum wait before a retry
}

func (f *failure) Error() string { return f.why }

// attempts sends a message to a target, with retries. The error is a [*failure].
func (s *Sender) attempts(ctx context.Context, t *target, e Event, m message) error {
	if t.Type == "sns" {
		return s.publish(ctx, t, e, m)
	}
	t.once.Do(func() { s.resolve(ctx, t) })
	if t.fault != nil {
		return t.fault
	}
	body, err := slackBody(m)
	if t.Type == "webhook" {
		body, err = hookBody(e, m)
	}
	if err != nil {
		return &failure{why: "the message could not be built", final: true}
	}
	for n := 1; ; n++ {
		f := s.post(ctx, t, e, body)
		if f == nil {
			return nil
		}
		wait := max(firstPause<<(n-1)+rand.N(firstPause), f.after)
		if end, ok := ctx.Deadline(); f.final || n == attempts || wait > maxPause || ctx.Err() != nil || ok && time.Until(end) < wait+attempt+reserve {
			return f
		}
		s.o.Pause(ctx, wait)
	}
}

// resolve reads the address and the secret of the target from their references.
func (s *Sender) resolve(ctx context.Context, t *target) {
	look := func(what string, text secret.Text) (out string) {
		out, err := secret.Expand(text.Reveal(), func(ref string) (string, error) { return s.o.Secrets.Secret(ctx, ref) })
		switch {
		case t.fault != nil:
		case errors.Is(err, secret.ErrNotFound):
			t.fault = &failure{why: "its " + what + " refers to a secret that does not exist"}
		case err != nil:
			t.fault = &failure{why: "the secret that its " + what + " refers to cannot be read now"}
		}
		return out
	}
	t.address = look("url", t.URL)
	signing := ""
	if t.Type == "webhook" {
		signing = look("secret", t.Secret)
	}
	if t.fault != nil {
		return
	}
	if err := config.CheckTarget(t.address); err != nil {
		t.fault = &failure{why: "what its url refers to " + err.Error()}
		return
	}
	if t.Type != "webhook" {
		return
	}
	var err error
	if t.signing, err = config.SigningKey(signing); err != nil {
		t.fault = &failure{why: "what its secret refers to " + err.Error()}
	}
}

// post makes one attempt.
func (s *Sender) post(ctx context.Context, t *target, e Event, body []byte) *failure {
	limit := attempt
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)-reserve)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.address, bytes.NewReader(body))
	if err != nil {
		return &failure{why: "its url cannot be used", final: true}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", s.o.Agent)
	if t.Type == "webhook" {
		id, now := webhookID(e), s.o.Now()
		req.Header.Set("Webhook-Id", id)
		req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
		req.Header.Set("Webhook-Signature", sign(t.signing, id, now, body))
	}
	res, err := s.http.Do(req)
	if err != nil {
		return unreachable(err)
	}
	defer res.Body.Close()
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer) // so that the client can reuse the connection
	why := "it answers " + strconv.Itoa(res.StatusCode)
	switch code := res.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code == http.StatusTooEarly, code/100 == 5:
		return &failure{why: why, after: s.retryAfter(res.Header.Get("Retry-After"))}
	case code/100 == 3:
		return &failure{why: why + ", and no redirect is followed", final: true}
	default:
		return &failure{why: why, final: true}
	}
}

// maxRetryAfter limits the time by which a target can delay its next message.
const maxRetryAfter = time.Hour

func (s *Sender) retryAfter(v string) time.Duration {
	var d time.Duration
	if seconds, err := strconv.Atoi(v); err == nil {
		d = time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(v); err == nil {
		d = at.Sub(s.o.Now())
	}
	return min(max(d, 0), maxRetryAfter)
}

// unreachable returns why there was no answer. It does not use the texts of the errors, because
// these contain the address.
func unreachable(err error) *failure {
	var blocked *egress.BlockedError
	var handshake *egress.TLSError
	var name *net.DNSError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &blocked):
		return &failure{why: "its address may not be dialed; PORTCULLIS_ALLOW_NETS may allow a private address"}
	case errors.As(err, &name):
		return &failure{why: "the name of its host cannot be resolved"}
	case errors.As(err, &handshake), errors.As(err, &cert):
		return &failure{why: "its TLS handshake failed"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &failure{why: "it does not answer in time"}
	}
	return &failure{why: "it cannot be reached"}
}

// publish sends a message to an SNS topic.
func (s *Sender) publish(ctx context.Context, t *target, e Event, m message) error {
	if s.topics == nil {
		return &failure{why: "only the functions on AWS publish to topics", final: true}
	}
	body := m.plain() + "\n"
	if m.link != "" {
		body += "\n" + m.button + ": " + m.link + "\n"
	}
	ctx, cancel := context.WithTimeout(ctx, attempts*attempt)
	defer cancel()
	err := s.topics.Publish(ctx, t.Topic, m.subject, body, map[string]string{"event": string(e.Kind), "id": webhookID(e)})
	switch {
	case errors.Is(err, ErrRefused):
		return &failure{why: "the topic refuses the message, or the permission to publish is missing", final: true}
	case err != nil:
		return &failure{why: "the topic cannot be reached"}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
