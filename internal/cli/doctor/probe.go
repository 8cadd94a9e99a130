package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
)

const (
	lookTime    = 5 * time.Second     // for one server
	lookAtOnce  = 16                  // parallel servers
	certificate = 14 * 24 * time.Hour // a certificate that ends earlier is a finding
	maxSkew     = 60 * time.Second
	maxQuoted   = 300 // characters of a server's text
)

// A Loader loads the lists of servers; *upstream.Client is a Loader.
type Loader interface {
	LoadAll(ctx context.Context, targets []upstream.Target, each func(outcome.Outcome)) []outcome.Outcome
}

// A Probe asks servers for their state. Transport must use an [egress.Dialer], so that the
// Probe opens only connections that the gateway may open too. If Transport is nil, the Probe only
// collects outcomes.
type Probe struct {
	Loader    Loader
	Transport *http.Transport
	Now       func() time.Time // nil: time.Now
}

// Ask asks all targets. It returns their outcomes in the same order, and their problems. It calls
// the function each with every outcome.
func (p Probe) Ask(ctx context.Context, targets []upstream.Target, each func(outcome.Outcome)) ([]outcome.Outcome, []Finding) {
	targets = slices.Clone(targets)
	for i := range targets {
		targets[i].Once = true // no retries: a person waits, and can run the command again
	}
	outcomes := p.Loader.LoadAll(ctx, targets, each)
	looks := make([]look, len(targets))
	if p.Transport != nil {
		var wg sync.WaitGroup
		turns := make(chan struct{}, lookAtOnce)
		for i, t := range targets {
			if t.Command == nil && answered(outcomes[i]) {
				wg.Go(func() {
					turns <- struct{}{}
					defer func() { <-turns }()
					looks[i] = p.look(ctx, t.URL)
				})
			}
		}
		wg.Wait()
	}
	var found []Finding
	for i := range targets {
		found = append(found, p.findings(outcomes[i], looks[i], targets[i].ID)...)
	}
	return outcomes, found
}

// answered reports whether an HTTP answer arrived.
func answered(o outcome.Outcome) bool {
	return o.Status == outcome.Available || o.HTTPStatus != 0
}

// A look holds the facts about a server in addition to its outcome.
type look struct {
	skew    time.Duration // of its clock relative to ours
	expires time.Time     // of its certificate; zero: no certificate
}

// look sends a HEAD request without a credential, to learn the server's clock and certificate.
func (p Probe) look(ctx context.Context, url string) (seen look) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if conn, ok := info.Conn.(*egress.Conn); ok {
			if secure, ok := conn.Conn.(*tls.Conn); ok {
				if shown := secure.ConnectionState().PeerCertificates; len(shown) > 0 {
					seen.expires = shown[0].NotAfter
				}
			}
		}
	}})
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return seen
	}
	res, err := p.Transport.RoundTrip(req)
	if err != nil {
		return seen // the server's outcome has the reason
	}
	_ = res.Body.Close()
	seen.skew = Skew(res.Header, p.now())
	return seen
}

func (p Probe) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

// Skew returns how far the clock of a header's sender is ahead of ours, or 0 without a date.
func Skew(h http.Header, now time.Time) time.Duration {
	at, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return at.Sub(now).Round(time.Second)
}

// FindSkew returns a finding if a clock differs too much from this machine's clock.
func FindSkew(whose string, skew time.Duration) []Finding {
	if skew.Abs() <= maxSkew {
		return nil
	}
	way := "ahead of"
	if skew < 0 {
		way = "behind"
	}
	return []Finding{Find("clock_skew", whose, fmt.Sprintf("Its clock is %v %s this machine's.", skew.Abs(), way))}
}

// findings returns the problems of one server.
func (p Probe) findings(o outcome.Outcome, seen look, name string) (found []Finding) {
	about := "server " + text.Quote(name, 80)
	switch {
	case !o.Recorded():
		return []Finding{Find("server_unasked", about,
			"The command ran out of time before it had the server's answer.")}
	case o.Status != outcome.Available:
		found = append(found, LoadFinding(about, name, o.Status, o.Reason, o.HTTPStatus, o.OperatorMessage(name), o.Error, o.Challenge))
	case len(o.Tools) == 0 && len(o.Items) == 0:
		found = append(found, Find("server_no_tools", about, "It answers, and lists nothing."))
	}
	if n := len(o.Refused); n > 0 {
		found = append(found, Find("definitions_refused", about,
			fmt.Sprintf("It lists %s that the gateway does not accept; the first: %s, %s.",
				text.Count(n, "item"), text.Clip(text.Line(o.Refused[0].Name), 100), text.Clip(text.Line(o.Refused[0].Reason), maxQuoted))))
	}
	if left := seen.expires.Sub(p.now()); !seen.expires.IsZero() && left < certificate {
		found = append(found, Find("certificate_expires", about, "Its certificate is good until "+seen.expires.UTC().Format("2006-01-02 15:04 UTC")+"."))
	}
	return append(found, FindSkew(about, seen.skew)...)
}

// LoadFinding returns the finding of a server that did not load. It quotes the server's text in one
// line.
func LoadFinding(about, name string, status outcome.Status, reason string, httpStatus int, message, cause string, asked *outcome.Challenge) Finding {
	code := "server_" + cmp.Or(reason, outcome.ReasonUnknown)
	if _, ok := kinds()[code]; !ok {
		code = "server_" + outcome.ReasonUnknown
	}
	words := cmp.Or(message, "MCP server '"+name+"' did not load.")
	if httpStatus != 0 {
		words += fmt.Sprintf(" It answered %d %s.", httpStatus, http.StatusText(httpStatus))
	}
	if cause = text.Clip(text.Line(cause), maxQuoted); cause != "" {
		words += " Cause: " + cause
	}
	if asked != nil && asked.Text != "" {
		words += "; it wants " + text.Clip(text.Line(asked.Text), maxQuoted)
	}
	f := Find(code, about, words)
	if status == outcome.Transient && f.Severity == Fault {
		f.Severity = Warning
	}
	return f
}
