package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var benchQueries = []string{
	"what is the weather like tomorrow", "create an issue in a repository", "search papers about transformers",
	"send an email", "convert a pdf to markdown", "take a screenshot of a web page", "current stock price", "find a hotel",
}

// latencies reports the median and the 95th percentile beside the mean.
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
	w := newTown(b, `, "approval": "off"`)
	w.call("retrieve_tools", map[string]any{"query": "weather"})
	latencies(b, func(i int) {
		w.call("retrieve_tools", map[string]any{"query": benchQueries[i%len(benchQueries)], "include_disabled": i%2 == 0})
	})
}

// One call through the gateway, and the same straight to its server.
func BenchmarkCall(b *testing.B) {
	w := newTown(b, `, "approval": "off"`)
	x := w.tools()[0]
	b.Run("through", func(b *testing.B) {
		latencies(b, func(int) {
			w.call("call_tool_destructive", map[string]any{"name": x.ID, "args": map[string]any{"a": 1}})
		})
	})
	direct := &program{t: b, base: strings.TrimSuffix(w.servers[x.Server].URL, "/mcp")}
	meta := map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{},
		"io.modelcontextprotocol/clientInfo": map[string]any{"name": "bench", "version": "1"}}
	b.Run("direct", func(b *testing.B) {
		latencies(b, func(int) {
			direct.rpc("tools/call", map[string]any{"name": x.Name, "arguments": map[string]any{"a": 1}, "_meta": meta},
				"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", x.Name, "Accept", "application/json, text/event-stream")
		})
	})
}

// A sync of 70 live servers of which nothing changed.
func BenchmarkSync(b *testing.B) {
	w := newTown(b, "")
	latencies(b, func(int) { w.json(http.MethodPost, "/admin/sync", map[string]any{}, http.StatusOK, nil) })
}

// From the start of the process to the first answer, from a stored catalog of 527 tools.
func BenchmarkStartToFirstAnswer(b *testing.B) {
	w := newTown(b, `, "approval": "off"`)
	if err := w.stop(); err != nil {
		b.Fatal(err)
	}
	bin := filepath.Join(b.TempDir(), "local")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	latencies(b, func(int) {
		if err := startAndAsk(b.Context(), bin, w.dir); err != nil {
			b.Fatal(err)
		}
	})
}

// startAndAsk starts the program and asks until it has answered a search.
func startAndAsk(ctx context.Context, bin, dir string) error {
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, bin, "serve", "--dir", dir, "--addr", addr)
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"retrieve_tools","arguments":{"query":"weather forecast"}}}`
	for range 5000 {
		resp, err := http.Post("http://"+addr+"/mcp", "application/json", strings.NewReader(body))
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		var a struct {
			Result struct{ Content []struct{ Text string } }
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &a); err != nil || len(a.Result.Content) == 0 || !strings.Contains(a.Result.Content[0].Text, `"total"`) {
			return fmt.Errorf("unexpected answer %s", data)
		}
		return nil
	}
	return fmt.Errorf("no answer at %s", addr)
}
