package functions_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// costTolerance is how far a counted figure may be from what the page says: it is rounded there, and the
// lines of a log hold times and ids of different lengths.
const costTolerance = .15

// pageSays returns the number that a row of docs/cost.md has in its first cell after the label.
func pageSays(t *testing.T, label string) float64 {
	t.Helper()
	page, err := os.ReadFile(repo.Path("docs/cost.md"))
	require.OK(t, err)
	m := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(label) + ` \| ([\d.]+)`).FindSubmatch(page)
	if m == nil {
		t.Fatalf("docs/cost.md has no row %q with a number", label)
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	require.OK(t, err)
	return n
}

func (w *fixture) wantCost(t *testing.T, label string, counted float64) {
	t.Helper()
	t.Logf("%s: %.2f", label, counted)
	if says := pageSays(t, label); math.Abs(counted-says) > costTolerance*says {
		t.Errorf("%s: counted %.2f, docs/cost.md says %g", label, counted, says)
	}
}

// What docs/cost.md reckons with is what the functions do: the bytes that they log, and what they ask of
// AWS in a sync and when a config is looked at again.
func (g suite) costsWhatThePageSays(t *testing.T) {
	w := g.fixture(t)
	w.Sync(t)
	f := w.Start(t, "mcp")
	for _, c := range []struct{ label, tool, args string }{
		{"log line of a search, metrics included, KB", "retrieve_tools", `{"query":"search issues"}`},
		{"log line of a call, metrics included, KB", "call_tool_read", searchTool},
	} {
		const times = 20
		f.Call(c.tool, c.args)
		before := len(f.Output())
		for range times {
			f.Call(c.tool, c.args)
		}
		w.wantCost(t, c.label, float64(len(f.Output())-before)/times/1000)
	}

	s := w.Start(t, "sync")
	s.Invoke([]byte(`{}`))
	w.proxy.Calls()
	a := s.Invoke([]byte(`{}`))
	calls := w.proxy.Calls()
	t.Logf("an unchanged sync of 3 servers: %v, %d bytes of log", calls, len(a.Output))
	const servers = 3
	w.wantCost(t, "`Query`s of the table, each server", float64(calls["dynamodb Query"]/servers))
	w.wantCost(t, "`Query`s of the table, beside these", float64(calls["dynamodb Query"]%servers))
	w.wantCost(t, "`GET`s of S3", float64(calls["s3 GET"]))
	w.wantCost(t, "`PUT`s of S3", float64(calls["s3 PUT"]))
	w.wantCost(t, "writes of the table", float64(calls["dynamodb PutItem"]+calls["dynamodb TransactWriteItems"]+calls["dynamodb UpdateItem"]))
	w.wantCost(t, "log, KB, each server", float64(len(a.Output))/1000/servers)

	h := w.open(t)
	h.Call("retrieve_tools", search)
	h.clock.Wait(31 * time.Second)
	w.proxy.Calls()
	h.Call("retrieve_tools", search)
	calls = w.proxy.Calls()
	w.wantCost(t, "`GET`s of S3 by a request, every 30 s of use", float64(calls["s3 GET"]))
	if n := fmt.Sprint(calls["s3 PUT"]); n != "0" {
		t.Errorf("a request writes to S3 %s times", n)
	}
}
