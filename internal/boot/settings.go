// Package boot builds the gateway from the environment, bottom up: settings, stores, clients,
// handlers. The deployed functions and the local program share it, so a laptop runs the deployed
// code.
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

// Settings holds the settings from the environment. A program reads them once, at the start.
type Settings struct {
	Bucket string // PORTCULLIS_BUCKET: S3 bucket of config, policy and catalog; the functions need it
	// PORTCULLIS_TABLE: DynamoDB table of the approvals; the functions need it
	Table string
	// PORTCULLIS_AUTH and related settings: accepted callers; required, so even "none" must be
	// explicit
	Access Access
	// PORTCULLIS_BASE_URL: public address of the gateway, without /mcp, used in the metadata. If it
	// has a path, the program serves below this path too
	BaseURL string
	// PORTCULLIS_ADMIN_URL: public address of the gateway for people, without /admin, used in links; "": BaseURL
	AdminURL string
	// PORTCULLIS_STREAMING: "url": /mcp is behind a Function URL; "rest": behind a REST API. Both
	// stream. "none" or "": behind an API that does not stream
	Streaming bool
	// PORTCULLIS_SEAL_KEY: key that seals clients' sessions: at least 32 random bytes, optionally
	// a comma and the previous key. It may be a reference: ${secretsmanager:name} or ${ssm:/name}
	SealKey      secret.Text
	AllowNets    []netip.Prefix // PORTCULLIS_ALLOW_NETS: private networks in which upstreams may be
	AllowOrigins []string       // PORTCULLIS_ALLOW_ORIGINS: web origins whose pages may call /mcp
	LogLevel     slog.Level     // PORTCULLIS_LOG_LEVEL: DEBUG, INFO (default), WARN, ERROR
	// PORTCULLIS_LOG_FORMAT, PORTCULLIS_METRICS_ADDR and related settings: only a program on a
	// server uses them
	Process Process
	// PORTCULLIS_SYNC_FUNCTION: function that the admin API invokes to sync; "in-process": the
	// admin function syncs
	SyncFunction string
	Memory       int // AWS_LAMBDA_FUNCTION_MEMORY_SIZE: MB of the function; 0: it is no function
	// PORTCULLIS_SYNC_MEMORY: MB of the sync function; 0: not known
	SyncMemory int
	SyncEvery  time.Duration // PORTCULLIS_SYNC_SCHEDULE: the time between two syncs; 0: not known
	// PORTCULLIS_SYNC_ROLE and related settings: this function's part of a distributed sync
	Fanout Fanout
	// PORTCULLIS_SYNC_CONCURRENCY: servers that a sync asks in parallel; 0: 64
	Concurrency int
	// PORTCULLIS_AUDIT_DAYS: how long audit events of people are kept; 0, the default: forever
	KeepAudit time.Duration
	// PORTCULLIS_USAGE_LOGS: log group of the function that serves agents; usage is counted
	// from it; "": no usage counts
	UsageLogs string
	// PORTCULLIS_AUDIT_STORE: a text for people that says where the audit events of calls are;
	// "": they are only in the function's log
	AuditStore string
	Region     string // AWS_REGION, which AWS sets in functions; "": not known
	// PORTCULLIS_ALARM_TOPIC: ARN of the topic of the stack's alarms; "": alarms notify nobody
	AlarmTopic string
	// PORTCULLIS_VAULT_KEY: ARN of the KMS key, or of its alias, that seals the gateway's sign-ins
	// at servers; "": the functions cannot sign in
	VaultKey string
	// PORTCULLIS_STACK: the stack's name in the metrics; "portcullis" by default
	Stack string
	// OTEL_EXPORTER_OTLP_ENDPOINT and related settings: receiver of spans; none by default
	Traces     Traces
	RuntimeAPI string // AWS_LAMBDA_RUNTIME_API: never dialed for an upstream
}

// maxConcurrency is the maximum number of servers that a sync asks in parallel. Each server needs a
// connection.
const maxConcurrency = 512

// maxAuditDays is a hundred years.
const maxAuditDays = 36500

// Load reads the settings and reports every fault at once.
func Load(getenv func(string) string) (Settings, error) {
	memory, _ := strconv.Atoi(getenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")) // 0 where it is not set
	syncMemory, _ := strconv.Atoi(getenv("PORTCULLIS_SYNC_MEMORY"))
	r := &reader{getenv: getenv}
	s := Settings{
		Bucket:       getenv("PORTCULLIS_BUCKET"),
		Table:        getenv("PORTCULLIS_TABLE"),
		Streaming:    slices.Contains([]string{"url", "rest"}, getenv("PORTCULLIS_STREAMING")),
		AllowOrigins: r.list("PORTCULLIS_ALLOW_ORIGINS"),
		SyncFunction: getenv("PORTCULLIS_SYNC_FUNCTION"),
		UsageLogs:    getenv("PORTCULLIS_USAGE_LOGS"),
		AuditStore:   getenv("PORTCULLIS_AUDIT_STORE"),
		Region:       getenv("AWS_REGION"),
		AlarmTopic:   getenv("PORTCULLIS_ALARM_TOPIC"),
		VaultKey:     getenv("PORTCULLIS_VAULT_KEY"),
		SyncEvery:    parseSchedule(getenv("PORTCULLIS_SYNC_SCHEDULE")),
		Memory:       memory,
		SyncMemory:   syncMemory,
		Concurrency:  r.number("PORTCULLIS_SYNC_CONCURRENCY", 1, maxConcurrency, "want a number from %d to %d"),
		KeepAudit: 24 * time.Hour * time.Duration(r.number("PORTCULLIS_AUDIT_DAYS", 0,
			maxAuditDays, "want a number of days from 1 to %[2]d, or %[1]d to keep the audit "+
				"forever")),
		Stack:      cmp.Or(getenv("PORTCULLIS_STACK"), "portcullis"),
		RuntimeAPI: getenv("AWS_LAMBDA_RUNTIME_API"),
	}
	s.BaseURL = r.address("PORTCULLIS_BASE_URL")
	s.AdminURL = cmp.Or(r.address("PORTCULLIS_ADMIN_URL"), s.BaseURL)
	if front := getenv("PORTCULLIS_STREAMING"); front != "" && front != "none" && !s.Streaming {
		r.fault("PORTCULLIS_STREAMING %q: want none, url or rest", front)
	} else if front == "rest" && s.BaseURL == "" {
		r.fault("PORTCULLIS_BASE_URL is not set: a REST API serves at your domain, and only " +
			"this setting contains the domain")
	}
	s.SealKey, s.Traces, s.Fanout, s.Process = r.sealKey(), r.traces(), r.fanout(), r.process()
	s.Access = r.access(s.BaseURL, s.AdminURL, s.Streaming)
	var err error
	if s.AllowNets, err = egress.ParseNets(getenv("PORTCULLIS_ALLOW_NETS")); err != nil {
		r.fault("PORTCULLIS_ALLOW_NETS: %w", err)
	}
	s.LogLevel, s.Process.LogJSON = r.log()
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

// address returns a public address. Only a program that serves everything itself may have a path:
// API Gateway serves the functions at the root of a host.
func (r *reader) address(setting string) string {
	s := strings.TrimRight(r.getenv(setting), "/")
	if s == "" {
		return ""
	}
	u, err := mcphttp.ParseBaseURL(s)
	switch isFunction := r.getenv("PORTCULLIS_BUCKET") != ""; {
	case isFunction && (err != nil || u.Path != ""):
		r.fault("%s %q: want only a scheme and a host, such as https://gateway.example.com", setting, s)
	case err != nil:
		r.fault("%s %q: want a scheme and a host, such as https://gateway.example.com, or a "+
			"path in addition, such as https://example.com/gateway, and not the endpoint /mcp", setting, s)
	}
	return s
}

// list returns names that are separated by commas.
func (r *reader) list(setting string) []string {
	return text.Names(r.getenv(setting))
}

// number returns the number in a setting, or 0 if the setting is empty. The number must be between
// the limits least and most, or equal to one of them. want is the text of the fault, with format
// verbs for the two limits.
func (r *reader) number(setting string, least, most int, want string) int {
	text := r.getenv(setting)
	n, err := strconv.Atoi(text)
	if text != "" && (err != nil || n < least || n > most) {
		r.fault("%s %q: "+want, setting, text, least, most)
	}
	return n
}

// parseSchedule returns the interval of an EventBridge schedule, such as rate(5 minutes). It
// returns 0 if there is no fixed interval, as for cron(…). EventBridge checks whether a schedule is
// valid; a gateway works without one.
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
