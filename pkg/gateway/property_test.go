package gateway_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/mcp"
)

var words = strings.Fields("read write delete list create file folder document mail message user account invoice page search update copy move archive share")

// randomTool makes a definition out of a few words, so that tools share them.
func randomTool(rng *rand.Rand, name string) string {
	pick := func() string { return words[rng.IntN(len(words))] }
	hints := []string{``, `,"annotations":{"readOnlyHint":true}`, `,"annotations":{"destructiveHint":false}`}
	return fmt.Sprintf(`{"name":%q,"description":"%s %s %s. %s.","inputSchema":{"type":"object","properties":{%q:{"type":"string","description":%q}}}%s}`,
		pick()+"_"+pick()+name, pick(), pick(), pick(), pick(), pick(), pick(), hints[rng.IntN(len(hints))])
}

// besideLocked returns a gateway with callable tools alone, and one that has locked ones and
// servers out of the agent's scope beside them.
func besideLocked(t *testing.T, rng *rand.Rand) (plain, full *fixture) {
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
	plain.Configure(nil)
	full.Configure(settings)
	plain.Sync()
	full.Sync()
	full.Agent.Servers = []string{"asrv", "fsrv", "ksrv", "kfull"}
	return plain, full
}

// What an agent may not call or see changes no byte of what it may: a gateway with
// callable tools alone, and one with locked and out-of-scope tools beside
// them, give the same answers, but for a notice where a locked tool matches better.
func TestRetrieveUnaffectedByLocked(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	for range 25 {
		plain, full := besideLocked(t, rng)
		for range 12 {
			query := words[rng.IntN(len(words))] + " " + append(words, "documnet", "delte")[rng.IntN(len(words)+2)]
			args := fmt.Sprintf(`{"query":%q,"limit":%d,"read_only":%v,"detail":%q}`, query, 1+rng.IntN(12), rng.IntN(4) == 0, []string{"compact", "full"}[rng.IntN(2)])
			want := plain.Call("retrieve_tools", args)
			if readFound(t, want.Text).Total == 0 {
				continue // then those that match are counted
			}
			if got := full.search(args); unnoticed(got) != want.Text {
				t.Fatalf("%s:\n%s\n%s", args, got.Raw, want.Text)
			}
			flagged := full.search(strings.Replace(args, "{", `{"include_disabled":true,`, 1))
			var a, b struct{ Tools, Total json.RawMessage }
			if json.Unmarshal([]byte(flagged.Raw), &a) != nil || json.Unmarshal([]byte(want.Text), &b) != nil {
				t.Fatal("answers cannot be read")
			}
			if string(a.Tools) != string(b.Tools) || string(a.Total) != string(b.Total) {
				t.Fatalf("%s: with the flag the callable part differs:\n%s\n%s", args, a.Tools, b.Tools)
			}
			if strings.Contains(flagged.Raw, "zforeign") || strings.Contains(flagged.Raw, "_f0") {
				t.Fatalf("%s shows a server out of scope: %s", args, flagged.Raw)
			}
		}
	}
}

// FuzzCallTool gives arbitrary params to every mode: there is an answer or an
// error for each, and nothing that is locked is ever called.
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
			gw.counts.take()
		}
	})
}
