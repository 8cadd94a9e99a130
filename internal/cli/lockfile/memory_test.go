package lockfile_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/cli/lockfile"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/allocated"
)

// The report for a pull request allocates at most three times the size of the definitions plus 15
// MB. It uses about 5 MB less at one time, because the first of two diffs of words is garbage
// before the second begins.
func TestMarkdownMemory(t *testing.T) {
	for _, size := range []int{19 << 10, tool.MaxDefinition - 100, 1 << 20} {
		for name, s := range allocated.Shapes(size) {
			before, now := json.RawMessage(s.Before), json.RawMessage(s.Now)
			id := tool.ID{Server: "s", Name: "costly"}
			for _, d := range []lockfile.Detail{{Now: now}, {Before: before, Now: now}} {
				r := lockfile.Report{
					Drifts: []lockfile.Drift{{ID: id, What: lockfile.Changed, Standing: lockfile.Waiting}},
					Detail: func(tool.ID) lockfile.Detail { return d },
				}
				var md string
				n, most := allocated.By(func() { md = lockfile.Markdown(r) }), uint64(3*(len(before)+len(now))+15<<20)
				if n > most || len(md) > lockfile.MaxMarkdown || !strings.Contains(md, "costly") {
					t.Errorf("%s, %d KB: Markdown allocates %d KB and has %d bytes, want at most %d KB", name, size>>10, n>>10, len(md), most>>10)
				}
			}
		}
	}
}

// A file that was written by hand takes no more memory than a generated one: 15 times its size in
// total, most of which is garbage when the next part begins.
func TestParseMemory(t *testing.T) {
	const size = 1 << 20
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)) }
	var entries strings.Builder
	for i := range size / 110 {
		fmt.Fprintf(&entries, `"tool_%d":{"hash":"%064x","note":"n","pending":true},`, i, i)
	}
	for name, data := range map[string]string{
		"nested":      `{"version":1,"servers":` + strings.Repeat("[", 9_400) + strings.Repeat("]", 9_400) + `}`,
		"nested 1 MB": `{"version":1,"servers":{"a":[0` + repeat(","+strings.Repeat("[", 4_000)+strings.Repeat("]", 4_000)) + `]}}`,
		"values":      `{"version":1,"servers":{"a":[0` + repeat(",1") + `]}}`,
		"names":       `{"version":1,"servers":{` + repeat(`"a":{},`) + `"b":{}}}`,
		"members":     `{` + repeat(`"a":1,`) + `"version":1}`,
		"brackets":    repeat("["),
		"one text":    `{"version":1,"servers":"` + repeat("a") + `"}`,
		"entries":     `{"version":1,"servers":{"s":{"tools":{` + entries.String() + `"last":{"hash":"` + strings.Repeat("0", 64) + `"}}}}}`,
	} {
		var err error
		n, most := allocated.By(func() { _, err = lockfile.Parse([]byte(data)) }), uint64(max(16*len(data), 10<<20))
		if n > most {
			t.Errorf("%s: Parse allocates %d KB, want at most %d KB", name, n>>10, most>>10)
		}
		if (err == nil) != (name == "entries") || err != nil && len(err.Error()) > 20_000 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}
