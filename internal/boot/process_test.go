package boot

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// loadProcess loads settings that are separated by spaces.
func loadProcess(settings string) (Process, error) {
	s, err := Load(environ(append(strings.Fields(settings), "PORTCULLIS_AUTH=none")))
	return s.Process, err
}

// Each bad value causes a fault that names the setting and what to set.
func TestFaultsOfProcess(t *testing.T) {
	for _, test := range [][]string{ // the settings, and parts of the fault
		{"PORTCULLIS_LOG_FORMAT=JSON", `PORTCULLIS_LOG_FORMAT "JSON"`, "want text or json"},
		{"PORTCULLIS_DRAIN=20", `PORTCULLIS_DRAIN "20"`, "such as 20s"},
		{"PORTCULLIS_DRAIN=-1s", `PORTCULLIS_DRAIN "-1s"`, "from 0s"},
		{"PORTCULLIS_DRAIN=2h", `PORTCULLIS_DRAIN "2h"`, "to 1h"},
		{"PORTCULLIS_METRICS_ADDR=9464", `PORTCULLIS_METRICS_ADDR "9464"`, "want HOST:PORT"},
		{"PORTCULLIS_METRICS_ADDR=:http", `PORTCULLIS_METRICS_ADDR ":http"`, "127.0.0.1:9464"},
		{"PORTCULLIS_METRICS_ADDR=:70000", `PORTCULLIS_METRICS_ADDR ":70000"`},
		{"PORTCULLIS_METRICS_TOKEN=made-up-1", "_TOKEN is set", "PORTCULLIS_METRICS_ADDR is not"},
		{
			"PORTCULLIS_METRICS_ADDR=:9464 PORTCULLIS_METRICS_TOKEN=made-up-1",
			"PORTCULLIS_METRICS_TOKEN has 9 characters, want at least 24", "openssl rand",
		},
		{
			"PORTCULLIS_LOG_FORMAT=xml PORTCULLIS_DRAIN=x PORTCULLIS_METRICS_ADDR=x",
			"LOG_FORMAT", "DRAIN", "METRICS_ADDR",
		},
	} {
		settings, want := test[0], test[1:]
		_, err := loadProcess(settings)
		if err == nil {
			t.Errorf("%s is accepted", settings)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v lacks %q", settings, err, part)
			}
		}
		if strings.Contains(err.Error(), "made-up-1") {
			t.Errorf("%s: the fault has the token: %v", settings, err)
		}
	}
}

func TestLoadProcess(t *testing.T) {
	p, err := loadProcess("")
	require.OK(t, err)
	if p.LogJSON || p.MetricsAddr != "" || p.MetricsToken.Reveal() != "" ||
		p.Drain != 20*time.Second {
		t.Errorf("by default %+v", p)
	}
	token := strings.Repeat("x", leastToken)
	p, err = loadProcess(
		"PORTCULLIS_LOG_FORMAT=json PORTCULLIS_DRAIN=0s PORTCULLIS_METRICS_ADDR=[::1]:0 " +
			"PORTCULLIS_METRICS_TOKEN=" + token,
	)
	require.OK(t, err)
	if !p.LogJSON || p.MetricsAddr != "[::1]:0" || p.MetricsToken.Reveal() != token ||
		p.Drain != 0 {
		t.Errorf("got %+v", p)
	}
}

// Other machines need a token.
func TestCheckMetrics(t *testing.T) {
	token := secret.New(strings.Repeat("x", leastToken))
	for _, test := range []struct {
		ip    string
		token secret.Text
		ok    bool
	}{
		{"127.0.0.1", secret.Text{}, true},
		{"::1", secret.Text{}, true},
		{"0.0.0.0", secret.Text{}, false},
		{"::", secret.Text{}, false},
		{"10.0.0.7", secret.Text{}, false},
		{"0.0.0.0", token, true},
	} {
		err := Process{
			MetricsAddr:  "x:1",
			MetricsToken: test.token,
		}.CheckMetrics(
			&net.TCPAddr{IP: net.ParseIP(test.ip)},
		)
		if (err == nil) != test.ok ||
			err != nil && !strings.Contains(err.Error(), "set PORTCULLIS_METRICS_TOKEN") {
			t.Errorf("%s: %v", test.ip, err)
		}
	}
}
