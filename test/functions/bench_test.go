package functions_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	s3store "github.com/portcullis-mcp/portcullis/pkg/store/s3"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// catalogOf stores a catalog of n tools and its config.
func catalogOf(b *testing.B, endpoint, programs string, n int) *lambdatest.Stack {
	b.Helper()
	many := local.Many(b, n)
	in, servers := catalog.Input{}, map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(many)) {
		server := catalog.ServerInput{Name: name, Enabled: true}
		for _, raw := range many[name] {
			d, err := tool.ParseItem(tool.Tool, raw)
			require.OK(b, err)
			server.Tools = append(server.Tools, catalog.ToolInput{Definition: d})
		}
		in.Servers = append(in.Servers, server)
		servers[name] = map[string]string{"url": "https://" + name + ".example.com/mcp", "approval": "off"}
	}
	stack := lambdatest.NewStack(b, endpoint, programs, map[string]string{"PORTCULLIS_AUTH": "none"})
	store(b, stack.Env, in, servers)
	return stack
}

func store(b *testing.B, env map[string]string, in catalog.Input, servers map[string]any) {
	b.Helper()
	objects := s3store.New(emulator.S3(env["AWS_ENDPOINT_URL"]), env["PORTCULLIS_BUCKET"])
	data, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err == nil {
		_, err = objects.Put(b.Context(), config.Key, data, "")
	}
	require.OK(b, err)
	snap, err := catalog.Build(in)
	if err == nil {
		now := time.Now()
		_, err = catalog.Save(b.Context(), objects, snap, catalog.Current{Config: object.Version(data), StartedAt: now, SyncedAt: now}, object.IfAbsent)
	}
	require.OK(b, err)
}

const benchQuery = `{"query":"create a calendar event"}`

// BenchmarkStart measures a cold start: the time from exec to the first request for an event, and
// to the first answer.
func BenchmarkStart(b *testing.B) {
	endpoint, programs := emulator.Start(b), lambdatest.Build(b, "../..", "mcp")
	for _, n := range []int{527, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			stack := catalogOf(b, endpoint, programs, n)
			var ready, first []time.Duration
			for b.Loop() {
				began := time.Now()
				f := stack.Start(b, "mcp")
				ready = append(ready, f.Started)
				if r := f.Call("retrieve_tools", benchQuery); r.IsError {
					b.Fatal(r.Text)
				}
				first = append(first, time.Since(began))
				f.Stop()
			}
			b.ReportMetric(median(ready), "ready-ms")
			b.ReportMetric(median(first), "first-ms")
		})
	}
}

// BenchmarkWarm measures a search in a running function, through the runtime API.
func BenchmarkWarm(b *testing.B) {
	endpoint, programs := emulator.Start(b), lambdatest.Build(b, "../..", "mcp")
	for _, n := range []int{527, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := catalogOf(b, endpoint, programs, n).Start(b, "mcp")
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if r := f.Call("retrieve_tools", benchQuery); r.IsError {
					b.Fatal(r.Text)
				}
				took = append(took, time.Since(began))
			}
			b.ReportMetric(median(took), "p50-ms")
			b.ReportMetric(float64(len(f.Output()))/float64(len(took)), "log-B") // includes the lines of the start
			b.ReportMetric(local.UsageOf(b, f.PID()).Resident, "MB")
		})
	}
}

// BenchmarkSize measures the upload: each function for arm64, and its zip.
func BenchmarkSize(b *testing.B) {
	for _, name := range []string{"mcp", "sync", "admin"} {
		b.Run(name, func(b *testing.B) {
			var binary, zipped int
			for b.Loop() {
				path := filepath.Join(b.TempDir(), "bootstrap")
				cmd := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags", "-s -w", "-o", path, "../../functions/"+name)
				cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v\n%s", err, out)
				}
				data, err := os.ReadFile(path)
				require.OK(b, err)
				binary, zipped = len(data), zipSize(b, data)
			}
			b.ReportMetric(float64(binary)/1e6, "binary-MB")
			b.ReportMetric(float64(zipped)/1e6, "zip-MB")
		})
	}
}

func zipSize(b *testing.B, data []byte) int {
	b.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	w, err := z.Create("bootstrap")
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = z.Close()
	}
	require.OK(b, err)
	return out.Len()
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds()) / 1000
}
