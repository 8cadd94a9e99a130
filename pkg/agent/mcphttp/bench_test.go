package mcphttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/agent/gateway"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
	"github.com/portcullis-mcp/portcullis/pkg/rules/audit"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// The first cases use a backend that does nothing, so they measure only the transport: a ping, and
// calls with arguments of 1 KiB and of 1 MiB. Some calls stream or have an audit line. The cases
// whose names begin with 527 use the gateway with 527 real tools.
func BenchmarkHandler(b *testing.B) {
	nothing := quiet{&backend{call: answers(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 4096) + `"}]}`)}}
	still := newHandler(b, nothing, nil)
	canStream := func(b *testing.B) http.Handler { return newHandler(b, nothing, laptop()) }
	audited := func(b *testing.B) http.Handler {
		d, err := audit.OpenDir(b.TempDir(), nil)
		require.OK(b, err)
		b.Cleanup(func() { require.OK(b, d.Close()) })
		return newHandler(b, nothing, &mcphttp.Options{Audit: d})
	}
	for _, bb := range []struct {
		name    string
		h       func(*testing.B) http.Handler
		request *http.Request
	}{
		{"ping", nil, legacy.request(b, "ping", ``)},
		{"call_1KiB", nil, legacy.request(b, "tools/call", `"name":"x","arguments":{"a":"`+strings.Repeat("x", 1<<10)+`"}`)},
		{"call_1MiB", nil, legacy.request(b, "tools/call", `"name":"x","arguments":{"a":"`+strings.Repeat("x", 1<<20)+`"}`)},
		{"audited_call_1KiB", audited, legacy.request(b, "tools/call", `"name":"x","arguments":{"a":"`+strings.Repeat("x", 1<<10)+`"}`)},
		{"streaming_call_1KiB", canStream, legacy.request(b, "tools/call", `"name":"x","arguments":{"a":"`+strings.Repeat("x", 1<<10)+`"}`)},
		{"streaming_modern_call_1KiB", canStream, modern.request(b, "tools/call", `"name":"x","arguments":{"a":"`+strings.Repeat("x", 1<<10)+`"}`)},
		{"modern_call_1KiB", nil, modern.request(b, "tools/call", `"name":"x","arguments":{"a":"`+strings.Repeat("x", 1<<10)+`"}`)},
		{"527_call", realGateway, modern.request(b, "tools/call", `"name":"call_tool_destructive","arguments":{"name":"airbnb:airbnb_search","args":{"location":"Berlin"}}`)},
		{"527_retrieve", realGateway, modern.request(b, "tools/call", `"name":"retrieve_tools","arguments":{"query":"open an issue"}`)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			h := still
			if bb.h != nil {
				h = bb.h(b)
			}
			body, err := io.ReadAll(bb.request.Body)
			require.OK(b, err)
			// for the next run of -count
			b.Cleanup(func() { bb.request.Body = io.NopCloser(bytes.NewReader(body)) })
			b.ReportAllocs()
			for b.Loop() {
				bb.request.Body = io.NopCloser(bytes.NewReader(body))
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, bb.request); w.Code != http.StatusOK {
					b.Fatal(w.Body.String())
				}
			}
		})
	}
}

// realGateway returns a handler for a gateway with 527 real tools.
func realGateway(b *testing.B) http.Handler {
	g := gatewaytest.New(b)
	for server, list := range local.Many(b, 527) {
		for _, raw := range list {
			s := g.Server(server)
			s.Tools = append(s.Tools, string(raw))
		}
	}
	g.Configure(nil)
	g.Sync()
	return newHandler(b, gated{g}, nil)
}

// A quiet is a backend that does not store the requests.
type quiet struct{ *backend }

func (q quiet) Open(context.Context, gateway.Caller) (mcphttp.Session, error) { return q, nil }

func (q quiet) CallTool(ctx context.Context, r mcp.Request, _ mcp.Client) (json.RawMessage, error) {
	return q.call(ctx, r)
}
