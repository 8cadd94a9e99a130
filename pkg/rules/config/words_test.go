package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func withWords(words string) string { return withServers(`, "words": `+words, "s", "git") }

func TestWords(t *testing.T) {
	cfg, err := Parse([]byte(withWords(`{"s:*": ["wechat reading", "微信读书"], "git:*log": ["history"], "git:*": ["version control", "history"]}`)))
	require.OK(t, err)
	for id, want := range map[string][]string{
		"s:read":                  {"wechat reading", "微信读书"},
		"git:log":                 {"version control", "history"},
		"git:short_log":           {"version control", "history"},
		"git:commit":              {"version control", "history"},
		"other:log":               nil,
		"s:prompt:read":           nil,
		"s:resource:file:///read": nil,
	} {
		parsed, err := tool.ParseID(id)
		require.OK(t, err)
		if diff := cmp.Diff(want, cfg.Words.ForTool(parsed)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	again, err := Parse([]byte(withWords(`{"git:*": ["version control", "history"], "s:*": ["wechat reading", "微信读书"], "git:*log": ["history"]}`)))
	if err != nil || !cfg.Words.Equal(again.Words) {
		t.Errorf("in another order of the file: %v, %v", again.Words, err)
	}
	for _, other := range []string{`{}`, `{"git:*": ["version control"]}`, `{"git:*": ["version control", "history"], "s:*": ["wechat reading"], "git:*log": ["history"]}`} {
		cfg2, err := Parse([]byte(withWords(other)))
		if err != nil || cfg.Words.Equal(cfg2.Words) {
			t.Errorf("%s: %v, %v", other, cfg2.Words, err)
		}
	}
}

func TestWordsFaults(t *testing.T) {
	list := func(n int) string {
		words := make([]string, n)
		for i := range words {
			words[i] = fmt.Sprintf("w%d", i)
		}
		b, err := json.Marshal(words)
		require.OK(t, err)
		return string(b)
	}
	var full []string
	for i := range maxWords / maxWordsOfGlob {
		full = append(full, fmt.Sprintf(`"s:t%d": %s`, i, list(maxWordsOfGlob)))
	}
	for _, good := range []string{`{}`, `{"s:*": []}`, `{"s:*": ["` + strings.Repeat("书", maxWordLength) + `"]}`, `{` + strings.Join(full, ",") + `}`} {
		if _, err := Parse([]byte(withWords(good))); err != nil {
			t.Errorf("%.80s: %v", good, err)
		}
	}
	for _, tt := range []struct {
		name, words string
		want        []string
	}{
		{"no object", `["s:*"]`, []string{"words: want an object, found an array"}},
		{"no list", `{"s:*": "git"}`, []string{`words["s:*"]: want an array, found a string`}},
		{"no text", `{"s:*": [1]}`, []string{`words["s:*"][0]: want a string, found a number`}},
		{"twice", `{"s:*": ["a"], "s:*": ["b"]}`, []string{`words["s:*"]: duplicate key`}},
		{"no such server", `{"x:*": ["a"]}`, []string{`words["x:*"]: "x:*" names a server that is not in mcpServers`}},
		{"a glob for the server", `{"*:read": ["a"]}`, []string{`words["*:read"]: "*:read" names a server that is not in mcpServers`}},
		{"a server alone", `{"s": ["a"]}`, []string{`words.s: "s" is neither server:tool nor server:* or another glob over the names of tools`}},
		{"a prompt", `{"s:prompt:p": ["a"]}`, []string{`words["s:prompt:p"]: "s:prompt:p" is neither server:tool nor server:* or another glob over the names of tools`}},
		{"nothing to find by", `{"s:*": ["", " - ", "ok"]}`, []string{
			`words["s:*"][0]: "" has no letter and no digit, so it finds no tool`, `words["s:*"][1]: " - " has no letter and no digit, so it finds no tool`,
		}},
		{"two lines", `{"s:*": ["a\nb"]}`, []string{`words["s:*"][0]: "a�b" is not one line of printable characters`}},
		{"too long", `{"s:*": ["` + strings.Repeat("书", maxWordLength+1) + `"]}`, []string{`words["s:*"][0]: has 65 characters; there can be 64`}},
		{"too many", `{"s:*": ` + list(maxWordsOfGlob+1) + `}`, []string{`words["s:*"]: has 33 words; there can be 32`}},
		{"too many in all", `{` + strings.Join(full, ",") + `, "git:*": ["a"]}`, []string{"words: has 4001 words in all; there can be 4000"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, faultsOf(t, withWords(tt.words))); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}
