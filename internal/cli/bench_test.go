package cli

import (
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

var benchQueries = []string{
	"what is the weather like tomorrow", "create an issue in a repository", "search papers about transformers",
	"send an email", "convert a pdf to markdown", "take a screenshot of a web page", "current stock price", "find a hotel",
}

// latencies reports the median and the 95th percentile in addition to the mean.
func latencies(b *testing.B, each func(i int)) {
	took := make([]time.Duration, 0, b.N)
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		each(i)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds()), "p95-µs")
}

// retrieve_tools over HTTP with 527 tools behind it.
func BenchmarkRetrieveOverHTTP(b *testing.B) {
	w := newReal(b, `, "approval": "off"`)
	w.Call("retrieve_tools", map[string]any{"query": "weather"})
	latencies(b, func(i int) {
		w.Call("retrieve_tools", map[string]any{"query": benchQueries[i%len(benchQueries)], "include_disabled": i%2 == 0})
	})
}

// One call through the gateway, and the same call directly to its server.
func BenchmarkCall(b *testing.B) {
	w := newReal(b, `, "approval": "off"`)
	x := w.tools()[0]
	b.Run("through", func(b *testing.B) {
		latencies(b, func(int) {
			w.Call("call_tool_destructive", map[string]any{"name": x.ID, "args": map[string]any{"a": 1}})
		})
	})
	direct := agenttest.Client{T: b, URL: strings.TrimSuffix(w.servers[x.Server].URL, "/mcp")}
	meta := map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{},
		"io.modelcontextprotocol/clientInfo": map[string]any{"name": "bench", "version": "1"}}
	b.Run("direct", func(b *testing.B) {
		latencies(b, func(int) {
			direct.RPC("tools/call", map[string]any{"name": x.Name, "arguments": map[string]any{"a": 1}, "_meta": meta}, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: "+x.Name, "Accept: application/json, text/event-stream")
		})
	})
}

// A sync of 70 live servers without changes.
func BenchmarkSync(b *testing.B) {
	w := newReal(b, "")
	latencies(b, func(int) { w.Ask(http.StatusOK, "/admin/sync", `{}`, nil) })
}

// From the start of the process to the first answer, from a stored catalog of 527 tools.
func BenchmarkStartToFirstAnswer(b *testing.B) {
	w := newReal(b, `, "approval": "off"`)
	require.OK(b, w.stop())
	bin := programtest.Build(b)
	latencies(b, func(int) {
		addr := local.Addr(b)
		cmd := exec.CommandContext(b.Context(), bin, "serve", "--dir", w.dir, "--addr", addr)
		require.OK(b, cmd.Start())
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
		local.Until(b, "it listens", func() bool {
			c, err := net.Dial("tcp", addr)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
		var found struct{ Total *int }
		if (&agenttest.Client{T: b, URL: "http://" + addr}).CallJSON("retrieve_tools", `{"query":"weather forecast"}`, &found); found.Total == nil {
			b.Fatal("no answer")
		}
	})
}
