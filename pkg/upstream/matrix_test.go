package upstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// A scene is a real fault on a real network.
type scene struct {
	target Target
	seen   func() int // attempts that reached the server
	change func(*Client)
	hangs  bool // only a timeout ends the attempt, so the test shortens the timeout
}

func hanging(make func(*testing.T) scene) func(*testing.T) scene {
	return func(t *testing.T) scene {
		sc := make(t)
		sc.hangs = true
		return sc
	}
}

// troubledAt returns a scene with an MCP server that fails with f at method. It counts attempts by
// method.
func troubledAt(o upstreamtest.Options, method string, f upstreamtest.Fault) func(*testing.T) scene {
	return func(t *testing.T) scene {
		o.Tools = tools(3)
		s := upstreamtest.New(t, o)
		s.FailOn(method, -1, f)
		counted := method
		if counted == "" {
			counted = "server/discover"
		}
		return scene{target: Target{ID: "s", URL: s.URL}, seen: func() int { return len(s.Received(counted)) }}
	}
}

func always(f upstreamtest.Fault) func(*testing.T) scene {
	return troubledAt(upstreamtest.Options{}, "", f)
}
func onList(f upstreamtest.Fault) func(*testing.T) scene {
	return troubledAt(upstreamtest.Options{}, "tools/list", f)
}

// rawPeer returns a scene with a TCP peer on the scheme's port.
func rawPeer(scheme string, handle func(net.Conn)) func(*testing.T) scene {
	return func(t *testing.T) scene {
		var n atomic.Int64
		addr := upstreamtest.Peer(t, func(c net.Conn) { n.Add(1); handle(c) })
		return scene{target: Target{ID: "s", URL: scheme + "://" + addr + "/mcp"}, seen: func() int { return int(n.Load()) }}
	}
}

// named returns a scene with a host name and a name server.
func named(answer func(string, int) ([]netip.Addr, bool)) func(*testing.T) scene {
	return func(t *testing.T) scene {
		resolver := upstreamtest.DNS(t, answer)
		return scene{
			target: Target{ID: "s", URL: "https://mcp.upstream.example/mcp"},
			seen:   func() int { return 0 },
			change: func(c *Client) { c.dialer.Resolver = resolver },
		}
	}
}

func nothing(target Target) func(*testing.T) scene {
	return func(*testing.T) scene { return scene{target: target, seen: func() int { return 0 }} }
}

// silent reads until the client gives up.
func silent(c net.Conn) {
	b := make([]byte, 1024)
	for {
		if _, err := c.Read(b); err != nil {
			return
		}
	}
}

// says writes text after it has received the first bytes.
func says(text string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = c.Write([]byte(text))
	}
}

func withSecrets(f secretsFunc) func(*testing.T) scene {
	return func(t *testing.T) scene {
		s := upstreamtest.New(t, upstreamtest.Options{})
		return scene{
			target: Target{ID: "s", URL: s.URL, Headers: map[string]string{"Authorization": "Bearer ${ssm:/token}"}},
			seen:   s.Total,
			change: func(c *Client) { c.cache.from = f },
		}
	}
}

func tlsScene(change func(*tls.Config)) func(*testing.T) scene {
	return func(t *testing.T) scene {
		cert, roots, err := upstreamtest.Certificate("127.0.0.1")
		require.OK(t, err)
		conf := &tls.Config{Certificates: []tls.Certificate{cert}}
		change(conf)
		sc := rawPeer("https", func(c net.Conn) { silent(tls.Server(c, conf)) })(t)
		sc.change = func(c *Client) { c.dialer.Roots = roots }
		return sc
	}
}

func clean(code int, headers ...string) func(*testing.T) scene {
	return always(upstreamtest.Status(code, "no", headers...))
}

type matrixRow struct {
	fault  string
	scene  func(*testing.T) scene
	seen   int // attempts that reach the server
	status outcome.Status
	reason string
}

func matrix() []matrixRow {
	outage := upstreamtest.Status(403, "Authorization service unavailable", "Content-Type", "text/plain")
	long := upstreamtest.Body(`{"jsonrpc":"2.0","id":1,"result":{"x":"` + strings.Repeat("x", maxResponse) + `"}}`)
	return []matrixRow{
		{"none", always(func(_ *upstreamtest.Server, w http.ResponseWriter, r *http.Request, h http.Handler) {
			h.ServeHTTP(w, r)
		}), 1, outcome.Available, ""},
		{"URL does not parse", nothing(Target{ID: "s", URL: "http://[::1"}), 0, permanent, outcome.ReasonConfig},
		{"secret missing", withSecrets(func(string) (string, error) { return "", fmt.Errorf("x: %w", secret.ErrNotFound) }), 0, permanent, outcome.ReasonConfig},
		{"hangs", hanging(always(upstreamtest.Hang())), 3, transient, outcome.ReasonTimeout},
		{"hangs in the TLS handshake", hanging(rawPeer("https", silent)), 3, transient, outcome.ReasonTimeout},
		{"name server silent", hanging(named(func(string, int) ([]netip.Addr, bool) { return nil, false })), 3, transient, outcome.ReasonDNSTimeout},
		{"no such name", named(func(string, int) ([]netip.Addr, bool) { return nil, true }), 0, permanent, outcome.ReasonDNS},
		{"network unreachable", unreachable, 0, permanent, outcome.ReasonUnreachable},
		{"resets", always(upstreamtest.Reset()), 3, transient, outcome.ReasonReset},
		{"closes before headers", always(upstreamtest.EOF()), 3, transient, outcome.ReasonReset},
		{"closes in the TLS handshake", rawPeer("https", func(c net.Conn) { _, _ = c.Read(make([]byte, 512)) }), 3, transient, outcome.ReasonReset},
		{"truncated JSON", onList(upstreamtest.Truncated()), 3, transient, outcome.ReasonReset},
		{"event stream without the reply", onList(upstreamtest.TruncatedStream()), 3, transient, outcome.ReasonReset},
		{"certificate of another host", tlsScene(otherHost), 1, permanent, outcome.ReasonTLS},
		{"wants a client certificate", tlsScene(func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }), 1, permanent, outcome.ReasonTLS},
		{"not TLS", rawPeer("https", says("HTTP/1.1 400 Bad Request\r\n\r\n")), 1, permanent, outcome.ReasonTLS},
		{"not HTTP", rawPeer("http", says("SSH-2.0-OpenSSH_9.6\r\n")), 1, permanent, outcome.ReasonNotHTTP},
		{"429, Retry-After: 3600", clean(429, "Retry-After", "3600"), 1, transient, outcome.ReasonRateLimited},
		{"403", clean(403), 1, denied, outcome.ReasonForbidden},
		{"403, authorization out", always(outage), 3, transient, outcome.ReasonAuthzUnavailable},
		{"403 of Envoy, UF", envoy, 3, transient, outcome.ReasonAuthzUnavailable},
		{"another type", onList(upstreamtest.WrongType()), 1, permanent, outcome.ReasonNotMCP},
		{"invalid JSON", onList(upstreamtest.BadJSON()), 1, permanent, outcome.ReasonProtocol},
		{"over 4 MiB", onList(long), 1, permanent, outcome.ReasonProtocol},
		{"repeated cursor", onList(upstreamtest.Result(`{"tools":[],"nextCursor":"again"}`)), 2, permanent, outcome.ReasonProtocol},
		{"−32601 although it has tools", onList(upstreamtest.RPC(-32601, "no")), 1, permanent, outcome.ReasonProtocol},
		{"−32603", onList(upstreamtest.RPC(-32603, "no")), 3, transient, outcome.ReasonUpstreamError},
		{"credential refused", withSecrets(func(string) (string, error) { return "", errors.New("access denied") }), 0, denied, outcome.ReasonCredentialMissing},
	}
}

// unreachable returns a scene that dials the broadcast address, which has no TCP route.
func unreachable(*testing.T) scene {
	return scene{
		target: Target{ID: "s", URL: "http://255.255.255.255:9/mcp"},
		seen:   func() int { return 0 },
		change: func(c *Client) {
			c.dialer.Rule.Allow = append(c.dialer.Rule.Allow, netip.MustParsePrefix("255.255.255.255/32"))
		},
	}
}

func otherHost(c *tls.Config) {
	cert, _, err := upstreamtest.Certificate("other.example")
	if err == nil {
		c.Certificates = []tls.Certificate{cert}
	}
}

func envoy(t *testing.T) scene {
	sc := clean(403, "X-Envoy-Response-Flags", "UF")(t)
	sc.target.BehindProxy = "envoy"
	return sc
}

// TestFaultMatrix causes faults on a real network. The tables of TestClassify… have the outcomes of
// the other status codes and errors.
func TestFaultMatrix(t *testing.T) {
	for _, row := range matrix() {
		t.Run(row.fault, func(t *testing.T) {
			sc := row.scene(t)
			c := newClient(t, Options{})
			if sc.hangs {
				c.limits.attempt, c.dialer.Timeout = 100*time.Millisecond, 50*time.Millisecond
			}
			if sc.change != nil {
				sc.change(c)
			}
			out := c.Load(t.Context(), sc.target)
			if out.Status != row.status || out.Reason != row.reason {
				t.Errorf("outcome = %q %s (%s), want %q %s", out.Status, out.Reason, out.Error, row.status, row.reason)
			}
			seen := sc.seen()
			if sc.hangs { // the time may end before the server reads the request
				seen = out.Attempts
			}
			if seen != row.seen {
				t.Errorf("%d attempts reached the server, want %d", seen, row.seen)
			}
			if config := row.reason == outcome.ReasonConfig && row.seen == 0; (out.Attempts == 0) != config {
				t.Errorf("the outcome reports %d attempts", out.Attempts)
			}
			if (out.Error == "") != (row.status == outcome.Available) {
				t.Errorf("error = %q with status %q", out.Error, out.Status)
			}
		})
	}
}
