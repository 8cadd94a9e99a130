package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A gateway serves what it counts at its own address, and not at the address of agents.
func TestMetrics(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{
		upstreamtest.Tool("look", "Look.", `{"readOnlyHint":true}`),
		upstreamtest.Tool("drop", "Drop.", `{"destructiveHint":true}`),
	}})
	dir := t.TempDir()
	programtest.WriteConfig(t, dir, fmt.Sprintf(
		`{"mcpServers": {"s": {"url": %q, "approval": "off", "disabled_tools": ["drop"]}}}`, s.URL))
	const token = "made-up-token-for-metrics"
	p := startWith(t, map[string]string{
		"PORTCULLIS_METRICS_ADDR": "127.0.0.1:0", "PORTCULLIS_METRICS_TOKEN": token,
	}, dir)
	p.Call("retrieve_tools", `{"query":"look"}`)
	p.Call("call_tool_read", map[string]any{"name": "s:look"})
	p.Call("call_tool_destructive", map[string]any{"name": "s:drop"})
	at := p.log.Find(`msg="metrics are served" url=(\S+)/metrics`)
	reader := agenttest.Client{T: t, URL: at}
	if got := reader.Send("/metrics", ""); got.Status != http.StatusUnauthorized {
		t.Errorf("without the token: %d %s", got.Status, got.Body)
	}
	got := reader.Send("/metrics", "", "Authorization: Bearer "+token)
	for _, want := range []string{
		`portcullis_requests_total 3`,
		`portcullis_tool_calls_total{tier="read"} 1`,
		`portcullis_refused_calls_total{status="disabled_by_config"} 1`,
		`portcullis_request_duration_seconds_count 3`,
		`portcullis_upstream_outcomes_total{reason="none",server="s",status="available"} 2`,
		`portcullis_syncs_total{result="ok"} 1`,
		`portcullis_tools{status="callable"} 1`,
		`portcullis_tools{status="disabled_by_config"} 1`,
		`portcullis_servers{outcome="available"} 1`,
		`portcullis_health{condition="ok"} 1`,
		`portcullis_store_errors_total{store="approvals"} 0`,
		`portcullis_store_errors_total{store="audit"} 0`,
		`portcullis_store_errors_total{store="objects"} 0`,
	} {
		if !strings.Contains(got.Body, "\n"+want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	for _, unbounded := range []string{"anonymous", "look", "drop"} {
		if strings.Contains(got.Body, unbounded) {
			t.Errorf("the metrics have the name of an agent or of a tool: %s", unbounded)
		}
	}
	if a := p.Send("/metrics", ""); a.Status != http.StatusNotFound {
		t.Errorf("agents get %d %.80s", a.Status, a.Body)
	}
	if log := p.log.String(); strings.Contains(log, "_aws") || strings.Contains(log, token) {
		t.Errorf("the log has counts or the token: %s", log)
	}
}

// If the address of the metrics cannot be used, nothing starts, and the error says what to do.
func TestMetricsRefuseToStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.OK(t, err)
	defer l.Close()
	for name, test := range map[string]struct{ addr, want string }{
		"public, without a token": {"0.0.0.0:0", `PORTCULLIS_METRICS_ADDR "0.0.0.0:0": other ` +
			"machines can reach this address, so /metrics needs a token: set PORTCULLIS_METRICS_TO"},
		"all addresses, without a token": {":0", "so /metrics needs a token"},
		"a port that is taken":           {l.Addr().String(), "nothing was started: set another"},
		"a host that does not exist": {"no-such-host.invalid:9464",
			`PORTCULLIS_METRICS_ADDR "no-such-host.invalid:9464": listen tcp`},
		"no port": {"127.0.0.1", "want HOST:PORT, such as 127.0.0.1:9464"},
	} {
		t.Run(name, func(t *testing.T) {
			out := &local.Buffer{}
			args := []string{"serve", "--dir", t.TempDir(), "--addr", "127.0.0.1:0"}
			err := run(t.Context(), args, &environment{
				getenv: func(name string) string {
					return map[string]string{"PORTCULLIS_METRICS_ADDR": test.addr}[name]
				}, stdout: out, stderr: out,
			})
			if err == nil || !strings.Contains(err.Error(), test.want) || out.String() != "" {
				t.Errorf("%v, want %q; it prints %q", err, test.want, out)
			}
		})
	}
}
