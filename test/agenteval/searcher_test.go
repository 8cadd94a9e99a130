package agenteval

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/agenteval"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/test/gatewaytest"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/tokens"
)

// publicTasks returns tasks made from the queries of the public development set. Each query is a
// task that needs its best tool. Each pair of neighboring queries is also one task that needs two
// tools.
func publicTasks(t *testing.T) (tasks []agenteval.Task) {
	t.Helper()
	type labelled struct {
		ID, Query string
		Labels    []struct {
			Tool      string `json:"tool_id"`
			Relevance int
		}
	}
	file, err := os.ReadFile(filepath.Join(local.Data(t, "retrieval-dev"), "golden.json"))
	require.OK(t, err)
	for _, q := range require.JSON[struct{ Queries []labelled }](t, file).Queries {
		if len(q.Labels) > 0 {
			tasks = append(tasks, agenteval.Task{Task: q.ID, Searches: []string{q.Query}, Tools: []string{q.Labels[0].Tool}})
		}
	}
	for i := range len(tasks) - 1 {
		a, b := tasks[i], tasks[i+1]
		tasks = append(tasks, agenteval.Task{
			Task: a.Task + " and " + b.Task, Searches: append(a.Searches, b.Searches...), Tools: append(a.Tools, b.Tools...),
		})
	}
	return tasks
}

// publicCatalog returns a gateway with the tools that the tasks need, and 527 other tools.
func publicCatalog(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	servers, known := map[string][]string{}, map[string]bool{}
	for server, list := range local.Tools(t) {
		for _, raw := range list {
			servers[server] = append(servers[server], string(raw))
			known[server+":"+require.JSON[struct{ Name string }](t, raw).Name] = true
		}
	}
	file, err := os.ReadFile(filepath.Join(local.Data(t, "retrieval-dev"), "tools.json"))
	require.OK(t, err)
	for _, x := range require.JSON[struct {
		Tools []struct {
			Server, Tool, Description string
			Schema                    json.RawMessage
		}
	}](t, file).Tools {
		if known[x.Server+":"+x.Tool] {
			continue
		}
		definition := fmt.Sprintf(`{"name":%q,"description":%s,"inputSchema":%s}`, x.Tool, rawjson.Quote(x.Description), x.Schema)
		servers[x.Server] = append(servers[x.Server], definition)
	}
	gw := gatewaytest.New(t)
	for server, definitions := range servers {
		gw.Serve(server, definitions...)
	}
	return gw
}

// solve runs the searcher, and returns its report and the tokens that it read per solved task.
func solve(t *testing.T, gw *gatewaytest.Gateway, tasks []agenteval.Task, limit int, locked bool) (agenteval.Report, int) {
	t.Helper()
	cost := 0
	report, err := agenteval.Run(t.Context(), tasks, func(_ context.Context, query string) (string, error) {
		answer := gw.Call("retrieve_tools", fmt.Sprintf(`{"query":%q,"limit":%d,"include_disabled":%v}`, query, limit, locked)).Text
		cost += tokens.Count(t, answer)
		return answer, nil
	})
	require.OK(t, err)
	return report, cost / max(1, report.Solved)
}

// An answer lists the names of further tools after its results. Because of these names, the
// searcher solves as many tasks with 5 results as with 20, for a third of the tokens. Answers as
// lines cost a third fewer tokens than answers as JSON.
func TestSearcher(t *testing.T) {
	tasks := publicTasks(t)
	gw := publicCatalog(t)
	most := map[string]map[int]int{"json": {5: 480, 10: 760, 20: 1300}, "lines": {5: 340, 10: 500, 20: 820}}
	for form, limits := range most {
		gw.Configure(nil, fmt.Sprintf(`"gateway":{"answers":%q}`, form))
		gw.Clock.Wait(time.Minute)
		gw.Sync()
		for limit, most := range limits {
			report, cost := solve(t, gw, tasks, limit, false)
			t.Logf("%s, limit %d: %d of %d tasks solved, %d searches, %d tokens for each solved task", form, limit, report.Solved, report.Tasks, report.Searches, cost)
			if report.Solved < 84 || cost > most {
				t.Errorf("%s, limit %d: %d of %d tasks are solved for %d tokens each, want 84 or more for %d or fewer", form, limit, report.Solved, report.Tasks, cost, most)
			}
		}
	}
}

// If every third server waits for approval, the searcher sees which locked tools its tasks need. It
// solves the tasks after a person has approved these tools.
func TestSearcherLocked(t *testing.T) {
	tasks := publicTasks(t)
	gw := publicCatalog(t)
	settings := map[string]string{}
	for i, server := range slices.Sorted(maps.Keys(gw.ByName)) {
		if i%3 == 0 {
			settings[server] = `"approval":"manual"`
		}
	}
	gw.Configure(settings)
	gw.Sync()
	before, _ := solve(t, gw, tasks, 5, true)
	approved := map[string]bool{}
	for _, r := range before.Results {
		for _, id := range r.Locked {
			if !approved[id] {
				gw.Decide(id, "approve")
				approved[id] = true
			}
		}
	}
	gw.Clock.Wait(time.Minute)
	after, _ := solve(t, gw, tasks, 5, true)
	t.Logf("%d of %d tasks solved, %d fail only because tools are locked; %d solved after %d tools were approved", before.Solved, before.Tasks, before.Locked, after.Solved, len(approved))
	if before.Locked < 10 || after.Solved < before.Solved+before.Locked {
		t.Errorf("%d of %d tasks are solved, and %d fail only because tools are locked; %d are solved after the approval of these tools", before.Solved, before.Tasks, before.Locked, after.Solved)
	}
}
