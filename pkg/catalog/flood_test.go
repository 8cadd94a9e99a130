package catalog_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Records outlive their tools. A server with new tool names at each load would fill the store and
// the memory of every sync.
func TestFloodOfNewTools(t *testing.T) {
	w := newFixture(t)
	w.ConfigureOnly(map[string]string{"flood": "", "calm": ""})
	w.Server("flood").Tools, w.Server("calm").Tools = []string{"first"}, []string{"one"}
	w.sync()
	large := bytes.Repeat([]byte(" "), tool.MaxDefinition)
	for i := range 64 << 20 / tool.MaxDefinition {
		r := approval.Record{Server: "flood", Tool: fmt.Sprintf("gone_%d", i), State: approval.Pending, CurrentHash: "h", Current: large}
		if _, err := w.Approvals.Put(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
	}
	w.Server("flood").Tools = []string{`{"name":"first","description":"changed"}`, "gone_3", "new_1", "new_2"}
	w.Server("calm").Tools = []string{"one", "two"}
	rep := w.sync()
	want := []string{"calm:one: approved", "calm:two: pending", "flood:first: changed", "flood:gone_3: pending"}
	wantEqual(t, "catalog", want, w.state())
	i := slices.IndexFunc(w.load().Current().Outcomes, func(o outcome.Outcome) bool { return o.ServerID == "flood" })
	if refused := w.load().Current().Outcomes[i].Refused; len(refused) != 1 || refused[0].Name != `"new_1"` || !strings.Contains(refused[0].Reason, "too many different tools") {
		t.Errorf("refused %+v, want one line for both", refused)
	}
	if rep.New != 1 {
		t.Errorf("%d new records, want only the record of the other server", rep.New)
	}
}
