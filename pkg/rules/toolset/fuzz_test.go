package toolset_test

import (
	"net/http"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
)

// addLines adds each line of value as a header line. A line that begins with a plus sign gets the
// other name of the header. An empty value adds no header.
func addLines(h http.Header, name, value string) {
	if value == "" {
		return
	}
	for line := range strings.SplitSeq(value, "\n") {
		rest, other := strings.CutPrefix(line, "+")
		switch {
		case other && name == tools:
			h.Add("X-MCP-Enabled-Tools", rest)
		case other && name == exclude:
			h.Add("X-MCP-Disabled-Tools", rest)
		default:
			h.Add(name, line)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	for _, s := range [][6]string{
		{},
		{"/x/mixed", "a,b", "a:one,two", "b:two", "true", "handling=lenient"},
		{"/readonly", "", "slow:next", "next", "1,1", "a;b=c, handling"},
		{"/x/\x00", ",,,", "a:*", ":", "", "="},
		{"/x/ALL", "İ,ﬀ", "b:hidden\u202e", "\xff", "oN", "handling=\"lenient\""},
		{"", "\na", "a:one\n+two", "+b:two\n\n+", "no\nno", "a\nhandling=lenient"},
		{"", "a\nb,nope", "+", "two\n+one", "1\n0", "handling=strict\nhandling=lenient"},
	} {
		f.Add(s[0], s[1], s[2], s[3], s[4], s[5], "a b")
	}
	u, cfg := sample()
	b := toolset.Compile(cfg, u)
	f.Fuzz(func(t *testing.T, path, groups, names, excluded, switched, preferred, servers string) {
		h := http.Header{}
		for name, value := range map[string]string{toolsets: groups, tools: names, exclude: excluded, readOnly: switched, prefer: preferred} {
			addLines(h, name, value)
		}
		a := agent(servers)
		plain, e := choose(t, b, a, "", nil)
		if e != nil {
			t.Fatalf("a request without headers is refused: %v", e)
		}
		sel, e := choose(t, b, a, path, h)
		for i := range sel.Tools.Without(plain.Tools).All() {
			t.Errorf("%s is offered, but not without headers", u.Tools[i].ID)
		}
		if e == nil {
			return
		}
		if e.Status != 400 && e.Status != 404 && e.Status != 503 {
			t.Errorf("status %d", e.Status)
		}
		if !utf8.ValidString(e.Message) || strings.ContainsFunc(e.Message, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("not one clean line: %q", e.Message)
		}
		said := strings.ToLower(path + groups + names + excluded)
		if strings.Contains(e.Message, "hidden") && !strings.Contains(said, "hidden") {
			t.Errorf("the message names a tool that is not offered: %q", e.Message)
		}
	})
}
