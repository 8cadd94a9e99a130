package review_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/review"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/allocated"
)

// To show a change, each function allocates at most 10 MB plus three times the size of the two
// definitions.
func TestMemory(t *testing.T) {
	for _, size := range []int{19 << 10, tool.MaxDefinition - 100, 1 << 20} {
		for name, s := range allocated.Shapes(size) {
			t.Run(fmt.Sprintf("%s/%d KB", name, size>>10), func(t *testing.T) {
				if !json.Valid([]byte(s.Before)) || !json.Valid([]byte(s.Now)) {
					t.Fatal("the shape is not JSON")
				}
				before, now := tool.KeptItem(tool.Tool, []byte(s.Before)), tool.KeptItem(tool.Tool, []byte(s.Now))
				most := uint64(3*(len(s.Before)+len(s.Now)) + 10<<20)
				var was, is string
				for _, do := range []struct {
					name string
					do   func() int
				}{
					{"Indent", func() int { is = review.Indent(now.Raw); return len(is) }},
					{"Indent the old one", func() int { was = review.Indent(before.Raw); return len(was) }},
					{"Lines", func() int { return len(review.Lines(was, is)) }},
					{"PlainLines", func() int { return len(review.PlainLines(was, is)) }},
					{"Words", func() int { return len(review.Words(before.Description, now.Description)) }},
					{"Words of JSON", func() int { return len(review.Words(s.Before, s.Now)) }},
					{"PlainWords", func() int { return len(review.PlainWords(before.Description, now.Description)) }},
					{"Readable", func() int { return len(review.Readable(now.Description)) }},
					{"Summarize", func() int { return len(review.Summarize(before, now).Line()) }},
					{"Summarize a new one", func() int { return len(review.Summarize(tool.Definition{}, now).Line()) }},
				} {
					if strings.HasPrefix(do.name, "Plain") && len(now.Raw) > tool.MaxDefinition {
						continue // definitions are shorter
					}
					var size int
					if n := allocated.By(func() { size = do.do() }); n > most || uint64(size) > most {
						t.Errorf("%s allocates %d bytes and returns %d, want at most %d", do.name, n, size, most)
					}
				}
			})
		}
	}
}

// If two definitions are too large to compare in parts, the result is one change that has both
// texts.
func TestTooLarge(t *testing.T) {
	long := strings.Repeat("word\n", 100_000)
	for name, runs := range map[string][]review.Run{
		"words": review.Words(long, long+"more"), "lines": review.Lines(long, long+"more"),
	} {
		if len(runs) != 2 || runs[0] != (review.Run{Op: review.Delete, Text: long}) || runs[1] != (review.Run{Op: review.Insert, Text: long + "more"}) {
			t.Errorf("%s: %d runs", name, len(runs))
		}
		if same := review.Lines(long, long); len(same) != 1 || same[0].Op != review.Equal {
			t.Errorf("%s: a text that did not change has %d runs", name, len(same))
		}
	}
	for name, size := range map[string]int{"too many values": 25_000, "too long": 200_000} {
		list := strings.Repeat(",1", size)
		raw := `{"name":"x","a":[0%s],"description":"now","inputSchema":{"type":"object","properties":{"p":{"enum":[0%[1]s]}}}}`
		before := tool.KeptItem(tool.Tool, fmt.Appendf(nil, raw, list))
		now := tool.KeptItem(tool.Tool, fmt.Appendf(nil, raw, list+",2"))
		if c := review.Summarize(before, now); len(c.Items) == 0 || c.Items[0].Risk == "" || c.Line() == "no change" {
			t.Errorf("%s: the change is %+v", name, c)
		}
		if c := review.Summarize(now, now); len(c.Items) != 0 {
			t.Errorf("%s: equal definitions have the changes %+v", name, c)
		}
	}
}
