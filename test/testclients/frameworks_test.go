package testclients

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/programtest"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// An agent calls a tool after a search that returned only the tool's name. The framework hands
// the agent all the text that the agent needs for the call, with "answers" json and lines. Outside
// the lanes, each framework has one of these forms.
func TestFrameworks(t *testing.T) {
	findNode(t)
	servers := map[string]Server{"lanes": {Entry: map[string]any{"url": Lanes(t), "approval": "off", "protocol": "2025-11-25"}}}
	for form, more := range map[string]string{
		"json":  `"more": ?\["(lanes:remember)"`,
		"lines": `(?m)^call_with: call_tool_read\nlanes:recall\(\) .+\nmore: lanes: (remember)`,
	} {
		folder := t.TempDir()
		programtest.WriteConfig(t, folder, Config(t, servers, fmt.Sprintf(`{"answers": %q}`, form)))
		p := programtest.Start(t, folder)
		p.UntilLoaded()
		for i, c := range Frameworks {
			if lanes == "" && (form == "json") != (i == 0) {
				continue
			}
			t.Run(c.Name+", "+form, func(t *testing.T) {
				t.Parallel()
				at := Endpoint{URL: p.URL + "/mcp"}
				name := c.read(t, at, more, "retrieve_tools", `{"query":"recall which value this session has","limit":1}`)
				if form == "lines" {
					name = "lanes:" + name
				}
				with := c.read(t, at, `"call_with": ?"(\w+)"`, "describe_tools", fmt.Sprintf(`{"names":[%q]}`, name))
				c.read(t, at, `^(kept)$`, with, fmt.Sprintf(`{"name":%q,"args":{"value":"ours"}}`, name))
			})
		}
	}
}

// read calls a tool, and returns the part of the answer that the pattern captures.
func (c Client) read(t *testing.T, at Endpoint, pattern, tool, args string) string {
	t.Helper()
	a := c.Take(t, at, `{}`, call(tool, args)).Answers[0]
	if a.Error != nil {
		t.Fatalf("%s: %s", tool, a.Error.Message)
	}
	for _, part := range require.JSON[struct{ Content []struct{ Text string } }](t, a.Result).Content {
		if m := regexp.MustCompile(pattern).FindStringSubmatch(part.Text); m != nil {
			return m[1]
		}
	}
	t.Fatalf("%s answers %s, want %s", tool, a.Result, pattern)
	return ""
}
