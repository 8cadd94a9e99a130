package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// loopback opens 127.0.0.0/8, where the test servers listen.
func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

// quick returns a client that may dial loopback and does not wait between attempts.
func quick(t *testing.T, o Options) *Client {
	t.Helper()
	if o.AllowNets == nil {
		o.AllowNets = loopback()
	}
	if o.Jitter == nil {
		o.Jitter = func(time.Duration) time.Duration { return -maxPause }
	}
	c := New(&o)
	t.Cleanup(c.Close)
	return c
}

// inMemory returns a client on a network in memory, for tests on a fake clock.
func inMemory(n *upstreamtest.Network, o Options) *Client {
	o.AllowNets = loopback()
	c := New(&o)
	transport := c.dialer.Transport()
	transport.DialContext = n.Dial
	c.http.Transport = recorder{transport}
	return c
}

func echoTool() json.RawMessage { return upstreamtest.Tool("echo", "Says it again.", "", "text") }

func tools(n int) []json.RawMessage {
	var out []json.RawMessage
	for i := range n {
		out = append(out, upstreamtest.Tool("tool_"+string(rune('a'+i%26))+string(rune('a'+i/26)), "Does it.", ""))
	}
	return out
}

// byStatus returns the servers' ids by the status of their outcomes, and how many tools they list.
func byStatus(outs []outcome.Outcome) (ids map[outcome.Status][]string, tools int) {
	ids = map[outcome.Status][]string{}
	for _, o := range outs {
		ids[o.Status] = append(ids[o.Status], o.ServerID)
		tools += len(o.Tools)
	}
	return ids, tools
}

// logged returns a logger and the text that it writes.
func logged() (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})), &b
}

// unanswered dials a network that drops everything.
func unanswered(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
