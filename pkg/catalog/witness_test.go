package catalog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/portcullis-mcp/portcullis/test/require"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// The witness is an approval record that is as new as possible. It shows whether an older copy of
// the store was restored. If possible, it costs no more than one DynamoDB read unit.
func TestWitness(t *testing.T) {
	type entry struct {
		name    string
		size    int // of the definition, about
		minute  int // when its record was written; 0: it has none
		waiting bool
	}
	for _, test := range []struct {
		name  string
		tools []entry
		want  string
	}{
		{"no record", []entry{{name: "a"}}, ""},
		{"the newest", []entry{{name: "a", size: 100, minute: 1}, {name: "b", size: 1000, minute: 3}, {name: "c", size: 100, minute: 2}, {name: "d"}}, "b"},
		{"not a large record", []entry{{name: "a", size: 100, minute: 1}, {name: "b", size: 100_000, minute: 3}, {name: "c", size: 100, minute: 2}}, "c"},
		{"not a record with two large definitions", []entry{{name: "a", size: 2500, minute: 2}, {name: "b", size: 2500, minute: 1, waiting: true}}, "b"},
		{"the smallest of large records", []entry{{name: "a", size: 20_000, minute: 3}, {name: "b", size: 10_000, minute: 1}}, "b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := catalog.ServerInput{Name: "fs", Enabled: true}
			for _, x := range test.tools {
				d, err := tool.ParseItem(tool.Tool, fmt.Appendf(nil, `{"name":%q,"description":%q}`, x.name, strings.Repeat("x", x.size)))
				require.OK(t, err)
				tool := catalog.ToolInput{Definition: d}
				if x.minute > 0 {
					tool.Record = &approval.Record{Server: "fs", Tool: x.name, CurrentHash: d.Hash, Rev: 1, UpdatedAt: day(1).Add(time.Duration(x.minute) * time.Minute)}
					if !x.waiting {
						tool.Record.ApprovedHash = d.Hash
					}
				}
				in.Tools = append(in.Tools, tool)
			}
			s, err := catalog.Build(catalog.Input{Servers: []catalog.ServerInput{in}})
			require.OK(t, err)
			got := ""
			if i, ok := s.Witness(); ok {
				got = s.ID(i).Name
			}
			if got != test.want {
				t.Errorf("witness is %q, want %q", got, test.want)
			}
		})
	}
}
