package gateway_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/base/mcp"
)

var words = strings.Fields("read write delete list create file folder document mail message user account invoice page search update copy move archive share")

// randomTool returns a definition of a few words, so that tools share words.
func randomTool(rng *rand.Rand, name string) string {
	pick := func() string { return words[rng.IntN(len(words))] }
	hints := []string{``, `,"annotations":{"readOnlyHint":true}`, `,"annotations":{"destructiveHint":false}`}
	return fmt.Sprintf(`{"name":%q,"description":"%s %s %s. %s.","inputSchema":{"type":"object","properties":{%q:{"type":"string","description":%q}}}%s}`,
		pick()+"_"+pick()+name, pick(), pick(), pick(), pick(), pick(), pick(), hints[rng.IntN(len(hints))])
}

// besideLocked returns two gateways: one has only callable tools, the other also has locked tools
// and servers out of the agent's scope. The JSON in rest is part of both configs.
func besideLocked(t *testing.T, rng *rand.Rand, rest string) (plain, full *fixture) {
	plain, full = newFixture(t), newFixture(t)
	settings := map[string]string{"kfull": `"approval":"manual"`}
	for s := range 1 + rng.IntN(3) {
		var callable []string
		for i := range 1 + rng.IntN(6) {
			callable = append(callable, randomTool(rng, fmt.Sprint(i)))
		}
		name := string(rune('a'+s*5)) + "srv"
		plain.Serve(name, callable...)
		all := append([]string(nil), callable...)
		for i := range rng.IntN(5) {
			all = append(all, randomTool(rng, fmt.Sprintf("_denied%d", i)))
		}
		full.Serve(name, all...)
		settings[name] = `"disabled_tools":["*_denied*"]`
	}
	var waiting, foreign []string
	for i := range rng.IntN(16) {
		waiting = append(waiting, randomTool(rng, fmt.Sprintf("_w%d", i)))
		foreign = append(foreign, randomTool(rng, fmt.Sprintf("_f%d", i)))
	}
	full.Serve("kfull", waiting...)
	full.Serve("zforeign", foreign...)
	plain.Configure(nil, rest)
	// words of tools that the agent may not see leave no trace either
	full.Configure(settings, rest, `"words":{"zforeign:*":["`+strings.Join(words, `","`)+`"]}`)
	plain.Sync()
	full.Sync()
	full.Agent.Servers = []string{"asrv", "fsrv", "ksrv", "kfull"}
	return plain, full
}

// Tools that an agent may not call or see do not change its answers. A gateway with only callable
// tools, and one that also has locked and out-of-scope tools, give the same bytes. The only
// exception is a notice where a locked tool matches better.
func TestRetrieveUnaffectedByLocked(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	seen := map[string]int{} // number of answers of each form that have a "more" list, and that have a notice
	for n := range 50 {
		form := []string{"json", "lines"}[n%2]
		plain, full := besideLocked(t, rng, fmt.Sprintf(`"gateway":{"answers":%q}`, form))
		for range 12 {
			query := words[rng.IntN(len(words))] + " " + append(words, "documnet", "delte")[rng.IntN(len(words)+2)]
			args := fmt.Sprintf(`{"query":%q,"limit":%d,"read_only":%v,"detail":%q}`, query, 1+rng.IntN(12), rng.IntN(4) == 0, []string{"compact", "full"}[rng.IntN(2)])
			want := plain.Call("retrieve_tools", args).Text
			if !strings.Contains(want, "call_with") {
				continue // only locked tools match, so the notice counts them
			}
			got := full.Call("retrieve_tools", args).Text
			if unnoticed(got) != want {
				t.Fatalf("%s:\n%s\n%s", args, got, want)
			}
			if form == "lines" && strings.Contains(want, "\nmore: ") || form == "json" && strings.Contains(want, `"more":`) {
				seen[form+" more"]++
			}
			if got != want {
				seen[form+" notice"]++
			}
			args = strings.Replace(args, "{", `{"include_disabled":true,`, 1)
			if got := plain.Call("retrieve_tools", args).Text; got != want {
				t.Fatalf("%s: without locked tools the flag changes\n%s\nto\n%s", args, want, got)
			}
			flagged := full.Call("retrieve_tools", args).Text
			before, isJSON := strings.CutSuffix(want, "}")
			if flagged != want && (!strings.HasPrefix(flagged, before) || isJSON && flagged[len(before)] != ',') {
				t.Fatalf("%s: with the flag the callable part differs:\n%s\n%s", args, flagged, want)
			}
			if strings.Contains(flagged, "zforeign") || strings.Contains(flagged, "_f0") {
				t.Fatalf("%s shows a server out of scope: %s", args, flagged)
			}
		}
	}
	for _, what := range []string{"json more", "json notice", "lines more", "lines notice"} {
		if seen[what] < 10 {
			t.Errorf("%s: %d answers", what, seen[what])
		}
	}
}

// FuzzCallTool sends arbitrary params in every mode. Each call has an answer or an error, and no
// locked tool is ever called.
func FuzzCallTool(f *testing.F) {
	for _, seed := range append(calls,
		`{"name":"call_tool_read","arguments":{"name":"waiting:upload_document","args":{"a":1}}}`,
		`{"name":"waiting__upload_document","arguments":{}}`, `{"name":"docs__read_document","requestState":1}`,
		`{"name":"retrieve_tools","arguments":{"query":"\ud800","limit":1e400,"include_disabled":true}}`,
		`{"name":"retrieve_tools","arguments":null}`, `{"name":"describe_tools","arguments":{"names":["::",""]}}`,
		`{"name":"x","arguments":[]}`,
	) {
		f.Add([]byte(seed))
	}
	search, direct := everyStatus(f), everyStatus(f)
	direct.Configure(map[string]string{
		"waiting": `"approval":"manual"`, "denied": `"disabled_tools":["purge_*"]`, "off": `"enabled":false`,
	}, directMode)
	direct.Clock.Wait(60e9)
	f.Fuzz(func(t *testing.T, params []byte) {
		r, refused := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + string(params) + `}`))
		if refused != nil || r.Name == "" {
			return
		}
		for _, gw := range []*fixture{search, direct} {
			gw.T = t
			raw, err := gw.Open().CallTool(t.Context(), r, mcp.Client{})
			if err == nil && !json.Valid(raw) {
				t.Errorf("%q: the result is no JSON: %q", params, raw)
			}
			for _, c := range gw.Sent() {
				if c.Server != "docs" {
					t.Errorf("%q called %s:%s, which is locked", params, c.Server, c.Tool)
				}
				if !json.Valid([]byte(c.Params)) {
					t.Errorf("%q sent params that are no JSON: %q", params, c.Params)
				}
			}
		}
	})
}
