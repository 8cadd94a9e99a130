package doctor_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/doctor"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// docs/doctor.md has exactly the codes of the package.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "doctor.md"))
	require.OK(t, err)
	rows := map[string]int{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (fault|warning|note) \\| [^|]+ \\| [^|]+ \\|$").FindAllSubmatch(page, -1) {
		rows[string(m[1])]++
		if f := doctor.Find(string(m[1]), "", ""); string(f.Severity) != string(m[2]) {
			t.Errorf("%s is a %s, but the page calls it a %s", m[1], f.Severity, m[2])
		}
	}
	for _, code := range doctor.Codes() {
		if rows[code] != 1 {
			t.Errorf("the page has %d rows for %s, want one", rows[code], code)
		}
		delete(rows, code)
	}
	for code := range rows {
		t.Errorf("the page has a row for %s, which no finding has", code)
	}
}

// Every reason why a server may not load has a code.
func TestReasonsHaveCodes(t *testing.T) {
	// reasons that a load never has
	never := []string{outcome.ReasonAborted, outcome.ReasonTooLarge, outcome.ReasonBreakerOpen}
	for _, reason := range outcome.Reasons() {
		if slices.Contains(doctor.Codes(), "server_"+reason) == slices.Contains(never, reason) {
			t.Errorf("server_%s", reason)
		}
	}
}

// The probe reports a certificate that ends soon, and a server's answer that no gateway accepts.
func TestProbeOverTLS(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{TLS: true, Tools: []json.RawMessage{upstreamtest.Tool("ping", "Answer a ping.", ""), upstreamtest.Tool("no name\x1b[2J", "", "")}})
	allow := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	client := upstream.New(&upstream.Options{AllowNets: allow, RootCAs: s.Roots()})
	defer client.Close()
	dialer := &egress.Dialer{Rule: egress.Rule{Allow: allow}, Roots: s.Roots()}
	p := doctor.Probe{Loader: client, Transport: dialer.Transport()}
	outcomes, found := p.Ask(t.Context(), []upstream.Target{{ID: "s", URL: s.URL}}, func(outcome.Outcome) {})
	var codes []string
	for _, f := range found {
		codes = append(codes, f.Code)
		if strings.Contains(f.Cause, "\x1b") {
			t.Errorf("a terminal obeys %q", f.Cause)
		}
	}
	if !slices.Equal(codes, []string{"definitions_refused", "certificate_expires"}) || outcomes[0].Status != outcome.Available {
		t.Errorf("%q, %+v", codes, outcomes[0])
	}
	// by this clock the certificate is valid for a long time, but the clock is wrong
	p.Now = func() time.Time { return time.Now().Add(-30 * 24 * time.Hour) }
	_, found = p.Ask(t.Context(), []upstream.Target{{ID: "s", URL: s.URL}}, func(outcome.Outcome) {})
	if len(found) != 2 || found[1].Code != "clock_skew" || !strings.Contains(found[1].Cause, "ahead of this machine's") {
		t.Errorf("%+v", found)
	}
}

// A look sends no credential, and dials only addresses that the gateway may dial.
func TestLookSendsNothing(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{})
	var heads []http.Header
	s.Fail(func(_ *upstreamtest.Server, w http.ResponseWriter, r *http.Request, _ http.Handler) {
		if r.Method == http.MethodHead {
			heads = append(heads, r.Header)
		}
		w.WriteHeader(http.StatusForbidden)
	})
	t.Setenv("DOCTOR_TEST_TOKEN", "swordfish")
	allow := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	client := upstream.New(&upstream.Options{AllowNets: allow})
	defer client.Close()
	target := upstream.Target{ID: "s", URL: s.URL, Headers: map[string]string{"Authorization": "Bearer ${env:DOCTOR_TEST_TOKEN}"}}
	open := &egress.Dialer{Rule: egress.Rule{Allow: allow}}
	_, _ = doctor.Probe{Loader: client, Transport: open.Transport()}.Ask(t.Context(), []upstream.Target{target}, func(outcome.Outcome) {})
	if len(heads) != 1 || heads[0].Get("Authorization") != "" {
		t.Errorf("%v", heads)
	}
	shut := &egress.Dialer{}
	_, _ = doctor.Probe{Loader: client, Transport: shut.Transport()}.Ask(t.Context(), []upstream.Target{target}, func(outcome.Outcome) {})
	if len(heads) != 1 {
		t.Error("the probe dialed an address that the gateway may not dial")
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	client := upstream.New(nil)
	defer client.Close()
	_, found := doctor.Probe{Loader: client}.Ask(ctx, []upstream.Target{{ID: "s", URL: "https://s.example/mcp"}}, func(outcome.Outcome) {})
	if len(found) != 1 || found[0].Code != "server_unasked" {
		t.Errorf("%+v", found)
	}
}
