package gateway_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/tokens"
)

// queriesOf returns the queries in these files. Each file is a set of queries with graded answers.
func queriesOf(t *testing.T, paths ...string) (out []string) {
	t.Helper()
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		require.OK(t, err)
		for _, q := range require.JSON[struct{ Queries []struct{ Query string } }](t, raw).Queries {
			out = append(out, q.Query)
		}
	}
	return out
}

// cost returns the mean number of tokens of a search's answer with at most limit results.
func (gw *fixture) cost(queries []string, limit int) float64 {
	gw.T.Helper()
	total := 0
	for _, q := range queries {
		arguments, err := json.Marshal(map[string]any{"query": q, "limit": limit})
		require.OK(gw.T, err)
		total += tokens.Count(gw.T, gw.Call("retrieve_tools", string(arguments)).Text)
	}
	return float64(total) / float64(len(queries))
}

// wantCost checks the mean number of tokens (cl100k) of answers with five and with ten results.
func (gw *fixture) wantCost(queries []string, mostFive, mostTen float64) {
	gw.T.Helper()
	five, ten := gw.cost(queries, 5), gw.cost(queries, 10)
	gw.T.Logf("%d queries: 5 results have %.1f tokens on average, 10 have %.1f", len(queries), five, ten)
	if five > mostFive || ten > mostTen {
		gw.T.Errorf(
			"5 results have %.1f tokens on average, want at most %v; 10 have %.1f, want at most %v",
			five, mostFive, ten, mostTen,
		)
	}
}

// TestRetrieveTokens measures searches in 527 real tools. For answers in JSON it uses every fourth
// query of all graded sets, because the mean is the same as with all queries. For answers in lines
// it uses the queries of the smallest set.
func TestRetrieveTokens(t *testing.T) {
	data := local.Data(t, ".")
	paths := []string{filepath.Join(data, "retrieval-dev", "golden.json")}
	for _, name := range []string{"bfcl", "metatool", "toolalpaca"} {
		paths = append(paths, filepath.Join(data, "retrieval-public", name, "queries.json"))
	}
	gw := realTools(t, 527)
	var quarter []string
	for chunk := range slices.Chunk(queriesOf(t, paths...), 4) {
		quarter = append(quarter, chunk[0])
	}
	gw.wantCost(quarter, 370, 575)
	gw.reconfigure(nil, asLines)
	gw.wantCost(queriesOf(t, paths[0]), 270, 400)
}

// TestRetrieveTokensOfOwnSet measures the small set of tools that is in this repository, so that it
// runs without downloaded data.
func TestRetrieveTokensOfOwnSet(t *testing.T) {
	raw, err := os.ReadFile("../../catalog/search/testdata/tools.json")
	require.OK(t, err)
	servers := map[string][]string{}
	for _, x := range require.JSON[struct {
		Tools []struct {
			Server, Tool, Description string
			Schema                    json.RawMessage
		}
	}](t, raw).Tools {
		servers[x.Server] = append(servers[x.Server], fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":%s}`, x.Tool, x.Description, x.Schema))
	}
	gw := newFixture(t)
	for name, definitions := range servers {
		gw.Serve(name, definitions...)
	}
	gw.load(nil)
	gw.wantCost(queriesOf(t, "../../catalog/search/testdata/queries.json"), 370, 575)
}
