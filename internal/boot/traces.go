package boot

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/observe"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// The settings of traces. The OTEL_ settings have the meaning of the OpenTelemetry specification.
const (
	otlpEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	otlpTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	otlpHeaders        = "OTEL_EXPORTER_OTLP_HEADERS"
	otlpTracesHeaders  = "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
	otlpProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	otlpTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	otelDisabled       = "OTEL_SDK_DISABLED"
	traceCallers       = "PORTCULLIS_TRACE_CALLERS"
	traceServers       = "PORTCULLIS_TRACE_SERVERS"

	protocol = "http/json"
)

// Traces holds the receiver of spans, and the servers that receive trace ids.
type Traces struct {
	// OTEL_EXPORTER_OTLP_ENDPOINT and /v1/traces, or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT; "": no
	// traces
	URL string
	// OTEL_EXPORTER_OTLP_HEADERS, or …_TRACES_HEADERS: name=value, separated by commas; or
	// ${secretsmanager:name} or ${ssm:/name}
	Headers secret.Text
	Callers bool // PORTCULLIS_TRACE_CALLERS=true: a request joins the trace in its traceparent header
	// PORTCULLIS_TRACE_SERVERS: upstream servers that receive a call's trace id; "*" for all;
	// default none
	Servers []string
}

// traces reads the settings of traces.
func (r *reader) traces() (t Traces) {
	t.Servers = r.list(traceServers)
	switch v := r.getenv(traceCallers); v {
	case "", "false":
	case "true":
		t.Callers = true
	default:
		r.fault("%s %q: want true or false", traceCallers, v)
	}
	if strings.EqualFold(r.getenv(otelDisabled), "true") {
		return t
	}
	if base := r.getenv(otlpEndpoint); base != "" {
		t.URL = strings.TrimRight(base, "/") + "/v1/traces"
	}
	t.URL = cmp.Or(r.getenv(otlpTracesEndpoint), t.URL)
	if t.URL == "" {
		return t
	}
	if u, err := url.Parse(t.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		r.fault("%s: want the address of an OTLP receiver, such as http://localhost:4318, without credentials", otlpEndpoint)
	}
	if p := cmp.Or(r.getenv(otlpTracesProtocol), r.getenv(otlpProtocol), protocol); p != protocol {
		r.fault("%s %q: spans are sent only as %s; every collector accepts it on the "+
			"http/protobuf port, 4318", otlpProtocol, p, protocol)
	}
	t.Headers = secret.New(cmp.Or(r.getenv(otlpTracesHeaders), r.getenv(otlpHeaders)))
	if _, referred := secret.Reference(t.Headers.Reveal()); !referred {
		if _, err := parseHeaders(t.Headers.Reveal()); err != nil {
			r.fault("%s: %w", otlpHeaders, err)
		}
	}
	return t
}

// parseHeaders reads headers in the format of the OpenTelemetry specification.
func parseHeaders(text string) (http.Header, error) {
	h := http.Header{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.QueryUnescape(strings.ReplaceAll(strings.TrimSpace(value), "+", "%2B"))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil || strings.ContainsAny(name+value, "\r\n") {
			return nil, fmt.Errorf("want name=value, separated by commas, with all characters " +
				"except letters, digits and -._~ percent-encoded")
		}
		h.Set(name, value)
	}
	return h, nil
}

// headersEvery is how often the gateway reads referenced headers again.
const headersEvery = 10 * time.Minute

// newTracer returns the tracer, or nil if spans are off.
func (p *Program) newTracer(function string) *observe.Tracer {
	t := p.Settings.Traces
	if t.URL == "" {
		return nil
	}
	headers := secret.NewRefreshable(func(ctx context.Context) (http.Header, error) {
		text := t.Headers.Reveal()
		if ref, referred := secret.Reference(text); referred {
			var err error
			if text, err = p.secrets.Secret(ctx, ref); err != nil {
				return nil, fmt.Errorf("%s: %w", otlpHeaders, err)
			}
		}
		return parseHeaders(text)
	}, p.now)
	name := "portcullis"
	if function != "" {
		name += "-" + function
	}
	return observe.NewTracer(observe.TracerOptions{
		URL: t.URL, Service: name, Version: Version, Callers: t.Callers, Log: p.Log, Now: p.now,
		Headers: func(ctx context.Context) (http.Header, error) { return headers.Get(ctx, headersEvery) },
	})
}

// tells reports whether the gateway sends trace ids to the server.
func (t Traces) tells(server string) bool {
	return slices.Contains(t.Servers, server) || slices.Contains(t.Servers, "*")
}

// Traced returns a handler that makes a span of each request, if spans are on.
func (p *Program) Traced(h http.Handler) http.Handler { return p.Tracer.Handler(h, !p.Timeouts.Holds) }
