package tool_test

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

func TestMatchTemplate(t *testing.T) {
	for _, tt := range []struct {
		template, yes, no string // URIs, separated by blanks
	}{
		{"test://static", "test://static", "test://static/ test://stati"},
		{"test://{id}/data", "test://1/data test://a%20b/data test://{id}/data test://a?b/data", "test:///data test://1/2/data test://1/dat test://1/data/ x"},
		{"{scheme}://{host}", "a://b", "a:// ://b a://b/c"},
		{"file:///{path*}", "file:///a file:///a/b/c", "file:/// file://a"},
		{"file:///{+path}", "file:/// file:///a/b?c#d", "file:// http:///a"},
		{"{+any}", "a://b x", ""},
		{"a:{x}{y}", "a:12", "a:1 a:"},
		{"a:b{/p*}", "a:b a:b/ a:b/c/d", "a:bc a:b/c?d"},
		{"a:b{.ext}", "a:b a:b.json", "a:bjson a:b.x/y"},
		{"a:b{;p}", "a:b a:b;p=1", "a:b;p=1/2 a:bp"},
		{"a:b{?q,r}", "a:b a:b?q=1&r=2", "a:b&q=1 a:b?q=1#f"},
		{"a:b?x=1{&y}", "a:b?x=1 a:b?x=1&y=2", "a:b?x=1y=2"},
		{"a:b{#frag}", "a:b a:b#c/d", "a:bc"},
		{"a:{x}b{y}b{z}", "a:1b2b3 a:bbbbb", "a:b2b3 a:1b2b"},
		{"a:{x:3}", "a:123", "a:"},
		{"a:{", "", "a:{ a: a:b"},
		{"a:{}", "", "a:{} a: a:b"},
		{"a:{+}", "", "a:b a:"},
		{"a:{x{y}", "", "a:b a:{xy"},
		{"a:b}", "a:b}", "a:b"},
		{"a:{x}}", "a:b}", "a:b"},
		{"a:" + strings.Repeat("{+x}", 32), "a:b a:", "b:"},
		{"a:" + strings.Repeat("{+x}", 33), "", "a:b a:"},
	} {
		for uri := range strings.FieldsSeq(tt.yes) {
			if ok, _ := tool.MatchTemplate(tt.template, uri); !ok {
				t.Errorf("%s does not match %s", tt.template, uri)
			}
		}
		for uri := range strings.FieldsSeq(tt.no) {
			if ok, _ := tool.MatchTemplate(tt.template, uri); ok {
				t.Errorf("%s matches %s", tt.template, uri)
			}
		}
	}
}

// A URI that a template makes of values matches the template, and no template takes long to match.
func FuzzMatchTemplate(f *testing.F) {
	f.Add("a:{x}/{+y}{?z}", "a:1/2/3?z=4")
	f.Add(strings.Repeat("{+x}a", 40), strings.Repeat("a", 400))
	f.Fuzz(func(t *testing.T, template, uri string) {
		ok, steps := tool.MatchTemplate(template, uri)
		if limit := (len(template) + 1) * (len(uri) + 2); steps > 2*limit {
			t.Errorf("%d steps for %d and %d bytes", steps, len(template), len(uri))
		}
		if plain := !strings.Contains(template, "{"); plain && ok != (template == uri) {
			t.Errorf("%q and %q: %v", template, uri, ok)
		}
		before, after, _ := strings.Cut(template, "{+x}")
		if expands := template == before+"{+x}"+after && !strings.ContainsAny(before+after, "{}"); expands {
			if ok, _ := tool.MatchTemplate(template, before+uri+after); !ok {
				t.Errorf("%q does not match with %q", template, uri)
			}
		}
	})
}
