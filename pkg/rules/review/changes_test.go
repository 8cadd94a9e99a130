package review_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/allocated"
)

// Changes computes the change from one definition to another once, and caches it. It never returns
// the change of two other definitions.
func TestChanges(t *testing.T) {
	var c review.Changes
	parsed := func(kind tool.Kind, raw string) tool.Definition { return tool.KeptItem(kind, []byte(raw)) }
	long := strings.Repeat(`"x",`, 20_000)
	before := parsed(tool.Tool, `{"name":"a","inputSchema":{"default":[`+long+`1]}}`)
	now := parsed(tool.Tool, `{"name":"a","inputSchema":{"default":[`+long+`2]}}`)
	want := review.Summarize(before, now)
	for range 2 {
		if diff := cmp.Diff(want, c.Summarize(before, now)); diff != "" {
			t.Errorf("the change (-want +got):\n%s", diff)
		}
	}
	if n := allocated.By(func() { c.Summarize(before, now) }); n > 10_000 {
		t.Errorf("a cached change allocates %d bytes", n)
	}
	resource := func(size int) tool.Definition {
		return parsed(tool.Resource, fmt.Sprintf(`{"uri":"x://a","name":"a","size":%d}`, size))
	}
	for name, pair := range map[string][2]tool.Definition{
		"the other way":              {now, before},
		"nothing before":             {{}, now},
		"no change":                  {now, now},
		"a size":                     {resource(1), resource(2)},
		"another size":               {resource(1), resource(3)},
		"a prompt":                   {parsed(tool.Prompt, `{"name":"a"}`), parsed(tool.Prompt, `{"name":"a","arguments":[{"name":"x"}]}`)},
		"a tool with the same bytes": {parsed(tool.Tool, `{"name":"a"}`), parsed(tool.Tool, `{"name":"a","arguments":[{"name":"x"}]}`)},
	} {
		for range 2 {
			if diff := cmp.Diff(review.Summarize(pair[0], pair[1]), c.Summarize(pair[0], pair[1])); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

// The cache has a limit, and is safe for concurrent use.
func TestChangesLimit(t *testing.T) {
	var c review.Changes
	before := tool.KeptItem(tool.Tool, []byte(`{"name":"a","inputSchema":{"type":"object"}}`))
	now := func(n int) tool.Definition {
		var b strings.Builder
		for i := range 200 {
			fmt.Fprintf(&b, `"parameter_%d_%d":{"description":"%s"},`, n, i, strings.Repeat("d", 60))
		}
		return tool.KeptItem(tool.Tool, []byte(`{"name":"a","inputSchema":{"type":"object","properties":{`+b.String()+`"last":{}}}}`))
	}
	var g sync.WaitGroup
	for worker := range 4 {
		g.Go(func() {
			for n := range 100 {
				c.Summarize(before, now(n*(1+worker)))
			}
		})
	}
	g.Wait()
	if n := c.Size(); n > 4<<20 || n < 3<<20 {
		t.Errorf("the cache has %d bytes, want 4 MB at most", n)
	}
	for _, n := range []int{0, 99, 396} {
		if got := c.Summarize(before, now(n)); len(got.Items) != 200 || got.More != 1 || !strings.Contains(got.Items[0].Path, fmt.Sprintf("_%d_", n)) && got.Items[0].Path != "last" {
			t.Errorf("the change to %d is %+v", n, got.Line())
		}
	}
}
