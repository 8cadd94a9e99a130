package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The query shares no word with the tool, so only its meaning finds the tool.
const byMeaning = "delete a file"

// archive returns a gateway with one tool that only its meaning finds.
func archive(t *testing.T) *fixture {
	gw := newFixture(t)
	gw.Serve("s", def("remove_document", "Remove a document.", ""))
	gw.Configure(nil)
	return gw
}

func TestRetrieveRanking(t *testing.T) {
	gw := archive(t)
	gw.Sync()
	fused := gw.search(fmt.Sprintf(`{"query":%q}`, byMeaning))
	if fused.Total != 1 {
		t.Fatalf("by default: %s", fused.Raw)
	}
	for ranking, want := range map[string]string{"fused": fused.Raw, "lexical": nothingFound} {
		gw.reconfigure(nil, fmt.Sprintf(`"gateway":{"ranking":%q}`, ranking))
		if got := gw.search(fmt.Sprintf(`{"query":%q}`, byMeaning)); got.Raw != want {
			t.Errorf("%s: %s, want %s", ranking, got.Raw, want)
		}
	}
}

// A locked tool is found by its meaning like a callable one, with the same score. This holds for
// every lock, even if the tool's text may not be shown.
func TestRetrieveLockedByMeaning(t *testing.T) {
	callable := archive(t)
	callable.Sync()
	if f := callable.search(fmt.Sprintf(`{"query":%q,"detail":"full"}`, byMeaning)); f.Total != 1 || f.Tools[0].Score == nil || *f.Tools[0].Score <= 0 {
		t.Fatalf("callable: %s", f.Raw)
	}
	for _, tt := range []struct {
		status, shown string
		lock          func(*fixture)
	}{
		{"server_disabled", "Remove a document.", func(gw *fixture) { gw.Sync(); gw.Configure(map[string]string{"s": `"enabled":false`}) }},
		{"disabled_by_config", "Remove a document.", func(gw *fixture) { gw.Configure(map[string]string{"s": `"disabled_tools":["*"]`}) }},
		{"disabled_by_user", "Remove a document.", func(gw *fixture) { gw.Sync(); gw.Decide("s:remove_document", "disable") }},
		{"pending_approval", "", func(gw *fixture) { gw.Configure(map[string]string{"s": `"approval":"manual"`}) }},
		{"disabled_unknown", "", func(gw *fixture) { gw.Forbid(`forbid (principal, action, resource) when { principal.level > 1 };`) }},
	} {
		gw := archive(t)
		tt.lock(gw)
		gw.Sync()
		if f := gw.search(fmt.Sprintf(`{"query":%q}`, byMeaning)); !strings.HasPrefix(f.Notice, "No callable tool matches, but 1 locked tool does.") {
			t.Errorf("%s: no notice: %s", tt.status, f.Raw)
		}
		f := gw.search(fmt.Sprintf(`{"query":%q,"include_disabled":true}`, byMeaning))
		if len(f.Disabled) != 1 || f.Disabled[0].Status != tt.status || f.Disabled[0].Description != tt.shown {
			t.Errorf("%s: %s", tt.status, f.Raw)
		}
	}
}

// TestRetrieveMatch checks every key of a match, in order. An incomplete signature is marked, and a
// description is one line.
func TestRetrieveMatch(t *testing.T) {
	gw := serving(t, "", "",
		def("plain", "Do the thing. And more.", `"inputSchema":{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"integer"}},"required":["id"]},`+
			`"outputSchema":{"type":"object","properties":{"url":{"type":"string"}},"required":["url"]}`),
		def("vague", "Do the\n  other thing "+strings.Repeat("again and ", 30)+"so on.", `"inputSchema":{"type":"object","properties":{"to":{"type":"string","not":{"const":""}}},"required":["to"]},"annotations":{"readOnlyHint":true}`),
	)
	r := gw.Call("retrieve_tools", `{"query":"thing"}`)
	var got struct{ Tools []json.RawMessage }
	if err := json.Unmarshal([]byte(r.Text), &got); err != nil || len(got.Tools) != 2 {
		t.Fatalf("%v: %s", err, r.Text)
	}
	byName := map[string]string{}
	for _, raw := range got.Tools {
		byName[nameOf(t, raw)] = string(raw)
	}
	long := "Do the other thing " + strings.Repeat("again and ", 30)
	line := strings.TrimRight(long[:strings.LastIndex(long[:200], " ")], " ") + "…"
	if diff := cmp.Diff(map[string]string{
		"s:plain": `{"name":"s:plain","signature":"(id:string, n?:integer) → {url:string}","description":"Do the thing.","call_with":"call_tool_destructive"}`,
		"s:vague": `{"name":"s:vague","signature":"(to:string)","lossy":true,"description":"` + line + `","call_with":"call_tool_read"}`,
	}, byName); diff != "" {
		t.Error(diff)
	}
	if n := len([]rune(line)); n > 200 {
		t.Errorf("the line has %d characters", n)
	}
	// One text block, and nothing else.
	var result struct{ Content []map[string]string }
	d := json.NewDecoder(strings.NewReader(r.Raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&result); err != nil {
		t.Errorf("%s: %v", r.Raw, err)
	}
	same(t, "content", []map[string]string{{"type": "text", "text": r.Text}}, result.Content)
}
