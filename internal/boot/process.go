package boot

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// Process holds the settings of a program on a server: its log, its metrics and its end. A function
// ignores them, because its platform decides.
type Process struct {
	LogJSON bool // PORTCULLIS_LOG_FORMAT: "json" logs JSON lines; "text" by default
	// PORTCULLIS_METRICS_ADDR: address at which Prometheus reads /metrics; "": nowhere
	MetricsAddr string
	// PORTCULLIS_METRICS_TOKEN: bearer token for /metrics; required if other machines can reach the
	// address
	MetricsToken secret.Text
	// PORTCULLIS_DRAIN: how long running requests may continue after a signal to stop; 20s by
	// default
	Drain time.Duration
}

// MetricsAddrSetting is the setting with the address of /metrics.
const MetricsAddrSetting = "PORTCULLIS_METRICS_ADDR"

const (
	metricsTokenSetting = "PORTCULLIS_METRICS_TOKEN" //nolint:gosec // the name of a setting
)

const (
	usualDrain = 20 * time.Second
	maxDrain   = time.Hour

	// leastToken is the minimum length of the token for /metrics, which nothing throttles.
	leastToken = 24
)

// process reads the settings of a program on a server.
func (r *reader) process() Process {
	p := Process{
		MetricsAddr:  r.getenv(MetricsAddrSetting),
		MetricsToken: secret.New(r.getenv(metricsTokenSetting)),
		Drain:        usualDrain,
	}
	if text := r.getenv("PORTCULLIS_DRAIN"); text != "" {
		d, err := time.ParseDuration(text)
		if p.Drain = d; err != nil || d < 0 || d > maxDrain {
			r.fault("PORTCULLIS_DRAIN %q: want a duration from 0s to 1h, such as 20s", text)
		}
	}
	_, port, err := net.SplitHostPort(p.MetricsAddr)
	if _, badPort := strconv.ParseUint(port, 10, 16); p.MetricsAddr != "" &&
		(err != nil || badPort != nil) {
		r.fault("%s %q: want HOST:PORT, such as 127.0.0.1:9464", MetricsAddrSetting, p.MetricsAddr)
	}
	switch token := p.MetricsToken.Reveal(); {
	case token == "":
	case p.MetricsAddr == "":
		r.fault(
			"%s is set, but %s is not: set the address of /metrics, or remove the token",
			metricsTokenSetting,
			MetricsAddrSetting,
		)
	case len(token) < leastToken:
		r.fault(
			"%s has %d characters, want at least %d: make one with openssl rand -hex 32",
			metricsTokenSetting,
			len(token),
			leastToken,
		)
	}
	return p
}

// log reads the settings of the log.
func (r *reader) log() (level slog.Level, isJSON bool) {
	if text := r.getenv("PORTCULLIS_LOG_LEVEL"); text != "" &&
		level.UnmarshalText([]byte(text)) != nil {
		r.fault("PORTCULLIS_LOG_LEVEL %q: want DEBUG, INFO, WARN or ERROR", text)
	}
	format := r.getenv("PORTCULLIS_LOG_FORMAT")
	if format != "" && format != "text" && format != "json" {
		r.fault("PORTCULLIS_LOG_FORMAT %q: want text or json", format)
	}
	return level, format == "json"
}

// LoadLog returns the log of a program that reads no other settings. isJSON reports whether its
// lines are JSON.
func LoadLog(getenv func(string) string, w io.Writer) (log *slog.Logger, isJSON bool, err error) {
	r := &reader{getenv: getenv}
	level, isJSON := r.log()
	return Process{LogJSON: isJSON}.NewLog(w, level), isJSON, errors.Join(r.faults...)
}

// CheckMetrics returns an error if everybody on the network could read /metrics at this address.
func (p Process) CheckMetrics(addr *net.TCPAddr) error {
	if addr.IP.IsLoopback() || p.MetricsToken.Reveal() != "" {
		return nil
	}
	return fmt.Errorf(
		"%s %q: other machines can reach this address, so /metrics needs a token: set %s "+
			"(make one with openssl rand -hex 32), or listen on 127.0.0.1",
		MetricsAddrSetting,
		p.MetricsAddr,
		metricsTokenSetting,
	)
}

// NewLog returns the log of a program on a server, from a level up.
func (p Process) NewLog(w io.Writer, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if p.LogJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
