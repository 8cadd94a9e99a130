package tool_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func TestParseID(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want tool.ID
		ok   bool
	}{
		{"github:create_issue", tool.ID{Server: "github", Name: "create_issue"}, true},
		{"a:b:c", tool.ID{Server: "a", Name: "b:c"}, true},
		{"Ant Design:list", tool.ID{Server: "Ant Design", Name: "list"}, true},
		{" a : b ", tool.ID{Server: " a ", Name: " b "}, true},
		{"a:prompt:b", tool.ID{Server: "a", Name: "b", Kind: tool.Prompt}, true},
		{"a:prompt:b:c", tool.ID{Server: "a", Name: "b:c", Kind: tool.Prompt}, true},
		{"a:resource:file:///b", tool.ID{Server: "a", Name: "file:///b", Kind: tool.Resource}, true},
		{"a:resource:prompt:b", tool.ID{Server: "a", Name: "prompt:b", Kind: tool.Resource}, true},
		{"a:prompt", tool.ID{Server: "a", Name: "prompt"}, true},
		{"a:prompts:b", tool.ID{Server: "a", Name: "prompts:b"}, true},
		{"a:tool:b", tool.ID{Server: "a", Name: "tool:b"}, true},
		{"a:prompt:", tool.ID{}, false},
		{"a:resource:", tool.ID{}, false},
		{"A:B", tool.ID{Server: "A", Name: "B"}, true},
		{"", tool.ID{}, false},
		{":", tool.ID{}, false},
		{"a:", tool.ID{}, false},
		{":b", tool.ID{}, false},
		{"::b", tool.ID{}, false},
		{"create_issue", tool.ID{}, false},
	} {
		got, err := tool.ParseID(tc.in)
		if got != tc.want || (err == nil) != tc.ok {
			t.Errorf("ParseID(%q) = %+v, %v; want %+v, ok %v", tc.in, got, err, tc.want, tc.ok)
		}
		if err == nil && got.String() != tc.in {
			t.Errorf("ParseID(%q).String() = %q", tc.in, got)
		}
	}
}

func TestIDCompare(t *testing.T) {
	ids := []tool.ID{{"b", "a", ""}, {"a-b", "a", ""}, {"a", "z", ""}, {"a", "b", ""}, {"ab", "a", ""}, {"a", "b", "prompt"}, {"a", "prompt", ""}, {"a", "prompu", ""}, {"a", "u://a", "resource"}, {"a-b", "c", "prompt"}}
	slices.SortFunc(ids, tool.ID.Compare)
	var got []string
	for _, id := range ids {
		got = append(got, id.String())
	}
	if !slices.IsSorted(got) {
		t.Errorf("sorted ids are not sorted as text: %q", got)
	}
	if (tool.ID{Server: "a", Name: "b"}).Compare(tool.ID{Server: "a", Name: "b"}) != 0 {
		t.Error("an id is not equal to itself")
	}
}

func TestDirect(t *testing.T) {
	for _, tc := range []struct{ name, server, tool, want string }{
		{"short", "github", "create_issue", "github__create_issue"},
		{"64 bytes stay", "s", strings.Repeat("n", 61), "s__" + strings.Repeat("n", 61)},
		{
			"65 bytes are cut and end with a hash",
			"s", strings.Repeat("n", 62), "s__" + strings.Repeat("n", 52) + "_cf4c4f03",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tool.ID{Server: tc.server, Name: tc.tool}.Direct()
			if got != tc.want {
				t.Errorf("Direct() = %q, want %q", got, tc.want)
			}
			if len(got) > 64 {
				t.Errorf("Direct() has %d bytes", len(got))
			}
		})
	}
	long := strings.Repeat("n", 80)
	if a, b := (tool.ID{Server: "s", Name: long + "a"}).Direct(), (tool.ID{Server: "s", Name: long + "b"}).Direct(); a == b {
		t.Errorf("two long names share the alias %q", a)
	}
}

func TestParseDirect(t *testing.T) {
	long := strings.Repeat("n", 60)
	for name, want := range map[string][]tool.ID{
		"github__create_issue": {{Server: "github", Name: "create_issue"}},
		"a__b__c":              {{Server: "a", Name: "b__c"}, {Server: "a__b", Name: "c"}},
		"a___b":                {{Server: "a", Name: "_b"}, {Server: "a_", Name: "b"}},
		"create_issue":         nil,
		"ab__" + long:          {{Server: "ab", Name: long}},
	} {
		ids, cut := tool.ParseDirect(name)
		if !slices.Equal(ids, want) || cut != (len(name) == 64) {
			t.Errorf("ParseDirect(%q) = %v, %v; want %v", name, ids, cut, want)
		}
	}
}

func TestValidName(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "A-z_0.9": true, strings.Repeat("n", 128): true,
		"": false, strings.Repeat("n", 129): false, "a b": false, "a:b": false, "a/b": false,
		"naïve": false, "a\n": false, "a\u202eb": false, "*": false,
		".": false, "..": false, "...": true, ".a": true,
	} {
		if err := tool.ValidName(name); (err == nil) != ok {
			t.Errorf("ValidName(%q) = %v, want ok %v", name, err, ok)
		}
	}
}

func TestMatchGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"search_*", "search_code", true},
		{"search_*", "search_", true},
		{"search_*", "Search_code", false},
		{"search_*", "research_code", false},
		{"*", "", true},
		{"*", "anything", true},
		{"**", "anything", true},
		{"", "", true},
		{"", "a", false},
		{"a", "a", true},
		{"a", "ab", false},
		{"*_delete", "repo_delete", true},
		{"*_delete", "repo_delete_delete", true},
		{"*_delete", "repo_deleted", false},
		{"a*b*c", "aXbYbZc", true},
		{"a*b*c", "aXcYb", false},
		{"a.c", "abc", false},
		{"a?c", "abc", false},
		{"[ab]", "a", false},
	} {
		if got := tool.MatchGlob(tc.pattern, tc.name); got != tc.want {
			t.Errorf("MatchGlob(%q, %q) = %v, want %v", tc.pattern, tc.name, got, tc.want)
		}
	}
}

func TestValidGlob(t *testing.T) {
	for glob, ok := range map[string]bool{
		"*": true, "search_*": true, "a.b-c": true,
		"": false, "a b": false, "srv:*": false, "[a]": false, strings.Repeat("*", 129): false,
	} {
		if err := tool.ValidGlob(glob); (err == nil) != ok {
			t.Errorf("ValidGlob(%q) = %v, want ok %v", glob, err, ok)
		}
	}
}
