package tool_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func TestFirstSentence(t *testing.T) {
	word := "word "
	for _, tc := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"only white space", " \n\t\r\n ", ""},
		{"one sentence without an end", "List all papers", "List all papers"},
		{"the first of two", "List all papers. Then sort them.", "List all papers."},
		{"question and exclamation", "Hungry? Order!", "Hungry?"},
		{"lines are joined", "Search the web\n    for pages\r\nabout X. More.", "Search the web for pages about X."},
		{"a paragraph ends a sentence", "Create a project\n\nCreates it with a name", "Create a project"},
		{"a blank line with spaces too", "Create a project\n   \nCreates it", "Create a project"},
		{"a section ends it", "Get the weather\nArgs:\n  city: the city.", "Get the weather"},
		{"a section in another script too", "查询日志\n适用场景：\n更多", "查询日志"},
		{"a list ends it", "Get the weather\n- for a city\n- for a country.", "Get the weather"},
		{"a numbered list ends a sentence", "Get the weather\n1. for a city", "Get the weather"},
		{"a list after a colon", "Returns:\n- the price. And more", "Returns: - the price."},
		{"leading lines without text", "\n\n  Get it. Now", "Get it."},
		{"empty lines after an introduction are skipped", "Returns:\n\n \n\t\n the page. More.", "Returns: the page."},
		{"only empty lines after a colon", "Returns:" + strings.Repeat("\n", 9), "Returns:"},
		{"empty lines before and after a colon", "\n\n\nReturns:\n\nit", "Returns: it"},
		{"full stops of other scripts", "查询余票信息。仅支持前十条。", "查询余票信息。"},
		{"a number", "Takes 1.5 seconds. Done.", "Takes 1.5 seconds."},
		{"a domain", "Reads example.com pages. Done.", "Reads example.com pages."},
		{"for example", "Finds places, e.g. cafes, i.e. shops. Done.", "Finds places, e.g. cafes, i.e. shops."},
		{"and so on, in the middle", "Charts, maps, etc. are drawn. Done.", "Charts, maps, etc. are drawn."},
		{"and so on, at the end", "Draws charts, maps, etc. Returns a URL.", "Draws charts, maps, etc."},
		{"a closing bracket or quote belongs to it", "Says \"hello.\" Then stops. (Really.)", "Says \"hello.\""},
		{"invisible characters are removed", "Get\u200b the\u202e wea\x00ther\x1b[2J. \ufeffDone", "Get the weather[2J."},
		{"joiners of scripts and emoji stay", "👩\u200d💻 می\u200cخواهم", "👩\u200d💻 می\u200cخواهم"},
		{"invalid UTF-8 is removed", "Get\xff it. Done.", "Get it."},
		{"line separators are white space", "Get\u2028it\u0085now. Done.", "Get it now."},
		{"200 characters stay whole", strings.Repeat("x", 199) + ".", strings.Repeat("x", 199) + "."},
		{"201 are cut at a word", strings.Repeat(word, 40) + "end", strings.TrimSpace(strings.Repeat(word, 39)) + "…"},
		{"one word of 201 is cut anywhere", strings.Repeat("é", 201), strings.Repeat("é", 199) + "…"},
		{"a comma does not stay before the cut", strings.Repeat("word, ", 40), strings.TrimRight(strings.Repeat("word, ", 33), ", ") + "…"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tool.FirstSentence(tc.in); got != tc.want {
				t.Errorf("FirstSentence(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}

func FuzzFirstSentence(f *testing.F) {
	for _, s := range []string{"", "A. B.", "a\n\nb", "Returns:\n- x", "查询。", "e.g. x", "\xff\x00\u202e", strings.Repeat("ab ", 200), strings.Repeat("a\n", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got := tool.FirstSentence(in)
		if n := utf8.RuneCountInString(got); n > 200 {
			t.Errorf("%d characters: %q", n, got)
		}
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\t\x00\x1b\u2028\u202e") {
			t.Errorf("not one clean line: %q", got)
		}
		if got != strings.TrimSpace(got) {
			t.Errorf("white space at an end: %q", got)
		}
		if strings.HasSuffix(got, "…") {
			return
		}
		if again := tool.FirstSentence(got); again != got {
			t.Errorf("the first sentence of %q is %q", got, again)
		}
	})
}
