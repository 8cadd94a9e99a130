package gateway

import (
	"encoding/json"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestPresent(t *testing.T) {
	yes, no := true, false
	const raw = ` {"zeta":9007199254740993,"name" : "do_it","annotations":{"x":1e2,"readOnlyHint":false},"description":"a <b> & \u00e9","kind":{"new":[1, 2]}} `
	const bare = `{"name":"do_it"}`
	tests := []struct {
		name      string
		raw       string
		rename    string
		overrides tool.Annotations
		want      string
	}{
		{"nothing to change", raw, "", tool.Annotations{}, raw},
		{
			"another name", raw, "srv__do_it", tool.Annotations{},
			` {"zeta":9007199254740993,"name" : "srv__do_it","annotations":{"x":1e2,"readOnlyHint":false},"description":"a <b> & \u00e9","kind":{"new":[1, 2]}} `,
		},
		{
			"a hint that the server gave", raw, "", tool.Annotations{ReadOnlyHint: &yes},
			` {"zeta":9007199254740993,"name" : "do_it","annotations":{"x":1e2,"readOnlyHint":true},"description":"a <b> & \u00e9","kind":{"new":[1, 2]}} `,
		},
		{
			"a hint that the server did not give", raw, "", tool.Annotations{DestructiveHint: &no, IdempotentHint: &yes},
			` {"zeta":9007199254740993,"name" : "do_it","annotations":{"x":1e2,"readOnlyHint":false,"destructiveHint":false,"idempotentHint":true},"description":"a <b> & \u00e9","kind":{"new":[1, 2]}} `,
		},
		{"a hint that says the same", raw, "", tool.Annotations{ReadOnlyHint: &no}, raw},
		{"hints where there were none", bare, "", tool.Annotations{OpenWorldHint: &no, Title: "T"}, `{"name":"do_it","annotations":{"openWorldHint":false,"title":"T"}}`},
		{"annotations that are null", `{"name":"do_it","annotations":null}`, "n", tool.Annotations{ReadOnlyHint: &yes}, `{"name":"n","annotations":{"readOnlyHint":true}}`},
		{"annotations that are empty", `{"annotations":{ },"name":"do_it"}`, "n", tool.Annotations{ReadOnlyHint: &yes}, `{"annotations":{ "readOnlyHint":true},"name":"n"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := tool.ReadItem(tool.Tool, []byte(tt.raw))
			require.OK(t, err)
			got := agentDefinition(d, tt.rename, d.Annotations.Override(tt.overrides))
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if !json.Valid(got) {
				t.Error("not valid JSON")
			}
		})
	}
}

// FuzzPresent renames every definition that a sync accepts. Renamed back, the
// definition has the same hash as before.
func FuzzPresent(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a"}`, ` { "x":[1,{"name":"b"}], "name" : "a" , "annotations":{"readOnlyHint":true} } `, `{"na\u006de":"a","z":1e400}`, `{"name":"a","annotations":null}`,
	} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, readOnly bool) {
		d, err := tool.ParseItem(tool.Tool, raw)
		if err != nil {
			return
		}
		renamed := agentDefinition(d, "other", d.Annotations)
		got, err := tool.ParseItem(tool.Tool, renamed)
		if err != nil || got.Name != "other" {
			t.Fatalf("%q becomes %q: %v", raw, renamed, err)
		}
		back := agentDefinition(got, d.Name, d.Annotations)
		if again, err := tool.ParseItem(tool.Tool, back); err != nil || again.Hash != d.Hash {
			t.Errorf("%q comes back as %q", raw, back)
		}
		hinted, err := tool.ParseItem(tool.Tool, agentDefinition(d, "", d.Annotations.Override(tool.Annotations{ReadOnlyHint: &readOnly})))
		if err != nil || hinted.Annotations.ReadOnlyHint == nil || *hinted.Annotations.ReadOnlyHint != readOnly {
			t.Errorf("%q with the hint: %q, %v", raw, hinted.Raw, err)
		}
	})
}
