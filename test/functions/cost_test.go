package functions_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/repo"
)

// The costs of the functions are equal to docs/cost.md: the bytes that they log, and their AWS
// calls in a sync and when they read a config again.
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
		repo.WantCost(t, c.label, float64(len(f.Output())-before)/times/1000)
	}

	s := w.Start(t, "sync")
	s.Invoke([]byte(`{}`))
	w.proxy.Calls()
	a := s.Invoke([]byte(`{}`))
	calls := w.proxy.Calls()
	t.Logf("an unchanged sync of 3 servers: %v, %d bytes of log", calls, len(a.Output))
	const servers = 3
	repo.WantCost(t, "`Query`s of the table, each server", float64(calls["dynamodb Query"]/servers))
	repo.WantCost(t, "`Query`s of the table, beside these", float64(calls["dynamodb Query"]%servers))
	repo.WantCost(t, "`GET`s of S3", float64(calls["s3 GET"]))
	repo.WantCost(t, "`PUT`s of S3", float64(calls["s3 PUT"]))
	repo.WantCost(t, "writes of the table", float64(calls["dynamodb PutItem"]+calls["dynamodb TransactWriteItems"]+calls["dynamodb UpdateItem"]))
	repo.WantCost(t, "log, KB, each server", float64(len(a.Output))/1000/servers)

	h := w.open(t)
	h.Call("retrieve_tools", search)
	h.clock.Wait(31 * time.Second)
	w.proxy.Calls()
	h.Call("retrieve_tools", search)
	calls = w.proxy.Calls()
	repo.WantCost(t, "`GET`s of S3 by a request, every 30 s of use", float64(calls["s3 GET"]))
	if n := fmt.Sprint(calls["s3 PUT"]); n != "0" {
		t.Errorf("a request writes to S3 %s times", n)
	}
}
