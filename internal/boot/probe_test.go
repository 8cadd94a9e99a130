//go:build unix

package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval/approvaltest"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/stdiotest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

const probeKey = "the key of the known host"

// newProber returns a program with the config. The variables KEY and OTHER are set.
func newProber(t *testing.T, cfg string, commands bool, nets ...netip.Prefix) *Program {
	t.Helper()
	objects := &objecttest.Mem{}
	_, err := objects.Put(t.Context(), config.Key, []byte(cfg), "")
	require.OK(t, err)
	known := map[string]string{"KEY": probeKey, "OTHER": "another key"}
	lookup := func(name string) (string, bool) { v, ok := known[name]; return v, ok }
	return New(Settings{AllowNets: nets}, Stores{Objects: objects, Approvals: &approvaltest.Mem{}},
		Options{Commands: commands, Secrets: secret.Env{Lookup: lookup}})
}

// described returns the server of an entry.
func described(t *testing.T, entry string) config.Server {
	t.Helper()
	cfg, err := config.Parse([]byte(`{"mcpServers": {"new": ` + entry + `}}`))
	require.OK(t, err)
	return cfg.Servers[0]
}

// A probe resolves only the references that the config has for the same host, and sends nothing to
// another host or network. It leaves no trace in the gateway's own client.
func TestProbe(t *testing.T) {
	local := netip.MustParsePrefix("127.0.0.0/8")
	one := upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("ping", "", "")}}
	known, other := upstreamtest.New(t, one), upstreamtest.New(t, one)
	cfg := fmt.Sprintf(
		`{"mcpServers": {"a": {"url": %q, "headers": {"X-Key": "${env:KEY}"}}}}`,
		known.URL,
	)
	p := newProber(t, cfg, false, local)
	entry := func(url, header string) string {
		return fmt.Sprintf(`{"url": %q, "headers": {"Authorization": "Bearer %s"}}`, url, header)
	}
	o := p.Probe(t.Context(), described(t, entry(known.URL, "${env:KEY}")))
	if o.Status != outcome.Available || len(o.Tools) != 1 {
		t.Errorf("the known host: %+v", o)
	}
	for _, r := range known.Requests() {
		if r.Header.Get("Authorization") != "Bearer "+probeKey {
			t.Errorf("the known host got %v", r.Header)
		}
	}
	known.ForgetRequests()
	for what, s := range map[string]string{
		"another host":                    entry(other.URL, "${env:KEY}"),
		"another reference":               entry(known.URL, "${env:OTHER}"),
		"a reference of another provider": entry(known.URL, "${ssm:/KEY}"),
	} {
		o := p.Probe(t.Context(), described(t, s))
		if o.Reason != outcome.ReasonCredentialMissing ||
			!strings.Contains(o.Error, "a probe does not read ${") {
			t.Errorf("%s: %+v", what, o)
		}
	}
	if n := len(known.Requests()) + len(other.Requests()); n > 0 {
		t.Errorf("the refused probes sent %d requests", n)
	}
	if o := newProber(
		t,
		cfg,
		false,
	).Probe(
		t.Context(),
		described(t, entry(known.URL, "x")),
	); o.Reason != outcome.ReasonConfig {
		t.Errorf("a network that is not allowed: %+v", o)
	}
	if a := p.Upstream.Activity("new"); a.Loads != 0 {
		t.Errorf("the gateway's own client counts %+v", a)
	}
}

// A command runs only if the gateway starts commands, and gets no secret.
func TestProbeOfCommand(t *testing.T) {
	path, env := stdiotest.Program(t, stdiotest.Legacy)
	program := func(more string) config.Server {
		all := map[string]string{"MORE": more}
		for name, value := range env {
			all[name] = value
		}
		data, err := json.Marshal(map[string]any{"command": path, "env": all})
		require.OK(t, err)
		return described(t, string(data))
	}
	cfg := `{"mcpServers": {}}`
	if o := newProber(
		t,
		cfg,
		false,
	).Probe(
		t.Context(),
		program("1"),
	); o.Reason != outcome.ReasonNeedsCommand {
		t.Errorf("without commands: %+v", o)
	}
	p := newProber(t, cfg, true)
	if o := p.Probe(t.Context(), program("1")); o.Status != outcome.Available || len(o.Tools) == 0 {
		t.Errorf("with commands: %+v", o)
	}
	if o := p.Probe(
		t.Context(),
		program("${env:KEY}"),
	); o.Reason != outcome.ReasonCredentialMissing {
		t.Errorf("with a reference: %+v", o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := p.Probe(ctx, program("1")); o.Status == outcome.Available {
		t.Errorf("after the person has left: %+v", o)
	}
}
