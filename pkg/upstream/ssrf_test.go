package upstream

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/egress"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// resolving returns a client whose name server answers the nth query for any name with the nth
// address, and repeats the last address.
func resolving(t *testing.T, o Options, addrs ...string) *Client {
	t.Helper()
	c := newClient(t, o)
	c.dialer.Resolver = upstreamtest.DNS(t, func(_ string, n int) ([]netip.Addr, bool) {
		return []netip.Addr{netip.MustParseAddr(addrs[min(n, len(addrs))-1])}, true
	})
	return c
}

// untouched listens on an address and returns its port. The test fails if anything connects.
func untouched(t *testing.T, addr string) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	require.OK(t, err)
	var conns atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		if n := conns.Load(); n != 0 {
			t.Errorf("%d connections reached the blocked address %s", n, l.Addr())
		}
	})
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// A real name server resolves the name. The tests of egress.Rule have the other addresses.
func TestBlockedNames(t *testing.T) {
	port := untouched(t, "127.0.0.1:0")
	for _, ip := range []string{"127.0.0.1", "::1", "0.0.0.0"} {
		out := resolving(t, Options{AllowNets: []netip.Prefix{}}, ip).Load(t.Context(), Target{ID: "s", URL: "https://inner.example:" + port + "/mcp"})
		if out.Status != permanent || out.Reason != outcome.ReasonConfig || out.Attempts != 0 {
			t.Errorf("%s: %s %s after %d attempts (%s), want config after none", ip, out.Status, out.Reason, out.Attempts, out.Error)
		}
	}
}

func TestBlockedRuntime(t *testing.T) {
	port := untouched(t, "127.0.0.1:0")
	t.Setenv("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:"+port)
	c := resolving(t, Options{}, "127.0.0.1")
	for _, url := range []string{"http://127.0.0.1:" + port + "/2018-06-01/runtime/invocation/next", "http://innocent.example:" + port + "/mcp"} {
		if out := c.Load(t.Context(), Target{ID: "s", URL: url}); out.Reason != outcome.ReasonConfig {
			t.Errorf("Load(%s) = %s %s, want config", url, out.Status, out.Reason)
		}
	}
}

// A name first has an allowed address and then a blocked one, as an attacker's name server answers
// between a check and its use.
func TestBlockedRebinding(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{})
	_, port, _ := net.SplitHostPort(s.Addr())
	untouched(t, "127.0.0.2:"+port)
	c := resolving(t, Options{AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, "127.0.0.1", "127.0.0.2")
	target := Target{ID: "s", URL: "http://rebinding.example:" + port + "/mcp"}
	if out := c.Load(t.Context(), target); out.Status != outcome.Available {
		t.Fatalf("Load at the first answer = %s %s (%s)", out.Status, out.Reason, out.Error)
	}
	c.Close() // so that the next request opens a connection
	if out := c.Load(t.Context(), target); out.Status != permanent || out.Reason != outcome.ReasonConfig {
		t.Errorf("Load at the second answer = %s %s (%s), want permanent config", out.Status, out.Reason, out.Error)
	}
	if _, err := c.Call(t.Context(), target, Call{Name: "x"}); callError(t, err).Outcome.Reason != outcome.ReasonConfig {
		t.Errorf("Call at the second answer: %v, want config", err)
	}
}

func TestRedirects(t *testing.T) {
	inner := upstreamtest.New(t, upstreamtest.Options{Tools: tools(1)})
	for to, want := range map[string]string{
		inner.URL:                             outcome.ReasonRedirect, // allowed, and still not followed
		"https://elsewhere.example/mcp":       outcome.ReasonRedirect,
		"/another/path":                       outcome.ReasonRedirect,
		"http://169.254.169.254/latest/":      outcome.ReasonConfig,
		"http://127.0.0.1:9001/2018-06-01/":   outcome.ReasonConfig, // the runtime
		"https://localhost.:9001/2018-06-01/": outcome.ReasonConfig,
		"%zz":                                 outcome.ReasonRedirect,
		"":                                    outcome.ReasonRedirect,
	} {
		s := upstreamtest.New(t, upstreamtest.Options{})
		s.Fail(upstreamtest.Redirect(to))
		c := newClient(t, Options{RuntimeAPI: "127.0.0.1:9001"})
		out := c.Load(t.Context(), Target{ID: "s", URL: s.URL, Headers: map[string]string{"Authorization": "Bearer sesame"}})
		if out.Status != outcome.Permanent || out.Reason != want {
			t.Errorf("redirect to %q = %s %s, want permanent %s", to, out.Status, out.Reason, want)
		}
	}
	if n := inner.Total(); n != 0 {
		t.Errorf("%d requests followed a redirect", n)
	}
}

func TestNoProxyOfTheEnvironment(t *testing.T) {
	if new(egress.Dialer).Transport().Proxy != nil {
		t.Error("the transport has a proxy")
	}
}

func TestCertificateAuthorities(t *testing.T) {
	s := upstreamtest.New(t, upstreamtest.Options{TLS: true, Tools: tools(1)})
	target := Target{ID: "s", URL: s.URL}
	if out := newClient(t, Options{RootCAs: s.Roots()}).Load(t.Context(), target); out.Status != outcome.Available {
		t.Errorf("Load with the server's authority = %s %s (%s)", out.Status, out.Reason, out.Error)
	}
	if out := newClient(t, Options{}).Load(t.Context(), target); out.Status != outcome.Permanent || out.Reason != outcome.ReasonTLS || s.Total() != 2 {
		t.Errorf("Load with the system's authorities = %s %s after %d requests, want tls and none", out.Status, out.Reason, s.Total()-2)
	}
}
