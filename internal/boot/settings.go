// Package boot builds the gateway out of the environment: settings, stores,
// clients, handlers, bottom up and in plain sight. The deployed functions and the
// local program share it, so what runs on a laptop is what is deployed.
package boot

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
)

// Settings are read once, at the start.
type Settings struct {
	Bucket       string         // PORTCULLIS_BUCKET: S3 bucket of config, policy and catalog; the functions need it
	Table        string         // PORTCULLIS_TABLE: DynamoDB table of the approvals; the functions need it
	Access       Access         // PORTCULLIS_AUTH and what goes with it: who is let in; required, "none" must be said outright
	BaseURL      string         // PORTCULLIS_BASE_URL: public address of /mcp without a path; metadata are made of it
	AdminURL     string         // PORTCULLIS_ADMIN_URL: public address of /admin without a path, of which links are made; "": BaseURL
	Streaming    bool           // PORTCULLIS_STREAMING: "url", "rest": a Function URL or a REST API that streams stands before /mcp; "none" or nothing: an API that does not
	SealKey      secret.Text    // PORTCULLIS_SEAL_KEY: 32 random bytes or more that clients' sessions are sealed with, and after a comma those before; or ${secretsmanager:name} or ${ssm:/name}
	AllowNets    []netip.Prefix // PORTCULLIS_ALLOW_NETS: private networks that upstreams may live in
	AllowOrigins []string       // PORTCULLIS_ALLOW_ORIGINS: web origins whose pages may call
	LogLevel     slog.Level     // PORTCULLIS_LOG_LEVEL: DEBUG, INFO (default), WARN, ERROR
	SyncFunction string         // PORTCULLIS_SYNC_FUNCTION: what the admin API invokes to sync; "in-process": it syncs itself
	SyncEvery    time.Duration  // PORTCULLIS_SYNC_SCHEDULE: how often a sync is due, as the schedule is written; 0: not known
	Fanout       Fanout         // PORTCULLIS_SYNC_ROLE and what goes with it: what this function does of a distributed sync
	Concurrency  int            // PORTCULLIS_SYNC_CONCURRENCY: servers that a sync asks at once; 0: 64
	KeepAudit    time.Duration  // PORTCULLIS_AUDIT_DAYS: how long is kept who did what; 0, the default: for ever
	UsageLogs    string         // PORTCULLIS_USAGE_LOGS: log group of the function that agents call, in which is counted who uses what; "": it is not
	AuditStore   string         // PORTCULLIS_AUDIT_STORE: where the lines of calls are kept, in words for people; "": in the log alone
	Stack        string         // PORTCULLIS_STACK: the stack whose metrics these are; "portcullis" by default
	Traces       Traces         // OTEL_EXPORTER_OTLP_ENDPOINT and what goes with it: where spans go; nowhere by default
	RuntimeAPI   string         // AWS_LAMBDA_RUNTIME_API: never dialed for an upstream
}

// maxConcurrency is the most servers that a sync may ask at once: each holds a connection.
const maxConcurrency = 512

// maxAuditDays is a hundred years.
const maxAuditDays = 36500

// Load reads the settings and reports every fault at once.
func Load(getenv func(string) string) (Settings, error) {
	r := &reader{getenv: getenv}
	s := Settings{
		Bucket:       getenv("PORTCULLIS_BUCKET"),
		Table:        getenv("PORTCULLIS_TABLE"),
		Streaming:    slices.Contains([]string{"url", "rest"}, getenv("PORTCULLIS_STREAMING")),
		AllowOrigins: r.list("PORTCULLIS_ALLOW_ORIGINS"),
		SyncFunction: getenv("PORTCULLIS_SYNC_FUNCTION"),
		UsageLogs:    getenv("PORTCULLIS_USAGE_LOGS"),
		AuditStore:   getenv("PORTCULLIS_AUDIT_STORE"),
		SyncEvery:    parseSchedule(getenv("PORTCULLIS_SYNC_SCHEDULE")),
		Concurrency:  r.number("PORTCULLIS_SYNC_CONCURRENCY", 1, maxConcurrency, "want a number from %d to %d"),
		KeepAudit:    24 * time.Hour * time.Duration(r.number("PORTCULLIS_AUDIT_DAYS", 0, maxAuditDays, "want a number of days from 1 to %[2]d, or %[1]d to keep the audit for ever")),
		Stack:        cmp.Or(getenv("PORTCULLIS_STACK"), "portcullis"),
		RuntimeAPI:   getenv("AWS_LAMBDA_RUNTIME_API"),
	}
	s.BaseURL = r.address("PORTCULLIS_BASE_URL")
	s.AdminURL = cmp.Or(r.address("PORTCULLIS_ADMIN_URL"), s.BaseURL)
	if front := getenv("PORTCULLIS_STREAMING"); front != "" && front != "none" && !s.Streaming {
		r.fault("PORTCULLIS_STREAMING %q: want none, url or rest", front)
	} else if front == "rest" && s.BaseURL == "" {
		r.fault("PORTCULLIS_BASE_URL is not set: a REST API serves at a domain, and nothing else says which")
	}
	s.SealKey, s.Traces, s.Fanout = r.sealKey(), r.traces(), r.fanout()
	s.Access = r.access(s.BaseURL, s.AdminURL, s.Streaming)
	var err error
	if s.AllowNets, err = egress.ParseNets(getenv("PORTCULLIS_ALLOW_NETS")); err != nil {
		r.fault("PORTCULLIS_ALLOW_NETS: %w", err)
	}
	if level := getenv("PORTCULLIS_LOG_LEVEL"); level != "" && s.LogLevel.UnmarshalText([]byte(level)) != nil {
		r.fault("PORTCULLIS_LOG_LEVEL %q: want DEBUG, INFO, WARN or ERROR", level)
	}
	return s, errors.Join(r.faults...)
}

// A reader reads settings and collects what is wrong with them.
type reader struct {
	getenv func(string) string
	faults []error
}

func (r *reader) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf(format, args...))
}

// address returns a public address, to which a path can be added.
func (r *reader) address(setting string) string {
	s := strings.TrimRight(r.getenv(setting), "/")
	if _, err := mcphttp.ParseBaseURL(s); s != "" && err != nil {
		r.fault("%s %q: want scheme and host alone, such as https://gateway.example.com", setting, s)
	}
	return s
}

// list returns names with commas between them.
func (r *reader) list(setting string) []string {
	return text.Names(r.getenv(setting))
}

// number returns a number from least to most, 0 if it is not set. want says what is, with verbs
// for the two.
func (r *reader) number(setting string, least, most int, want string) int {
	text := r.getenv(setting)
	n, err := strconv.Atoi(text)
	if text != "" && (err != nil || n < least || n > most) {
		r.fault("%s %q: "+want, setting, text, least, most)
	}
	return n
}

// parseSchedule returns how often a schedule of EventBridge is due, such as
// rate(5 minutes); 0 if that cannot be told, as of cron(…). Whether a schedule is a good
// one is for EventBridge to say: a gateway serves without.
func parseSchedule(s string) time.Duration {
	number, unit, _ := strings.Cut(strings.TrimSuffix(s, ")"), " ")
	number, isRate := strings.CutPrefix(number, "rate(")
	n, err := strconv.Atoi(number)
	if !isRate || err != nil || n < 1 || !strings.HasSuffix(s, ")") {
		return 0
	}
	units := map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}
	return time.Duration(n) * units[strings.TrimSuffix(unit, "s")]
}
