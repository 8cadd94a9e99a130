package gateway

import (
	"encoding/json"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

func TestPresentKeepsEveryOtherByte(t *testing.T) {
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
			"a hint that it did not give", raw, "", tool.Annotations{DestructiveHint: &no, IdempotentHint: &yes},
			` {"zeta":9007199254740993,"name" : "do_it","annotations":{"x":1e2,"readOnlyHint":false,"destructiveHint":false,"idempotentHint":true},"description":"a <b> & \u00e9","kind":{"new":[1, 2]}} `,
		},
		{"a hint that says the same", raw, "", tool.Annotations{ReadOnlyHint: &no}, raw},
		{"hints where there were none", bare, "", tool.Annotations{OpenWorldHint: &no, Title: "T"}, `{"name":"do_it","annotations":{"openWorldHint":false,"title":"T"}}`},
		{"annotations that are null", `{"name":"do_it","annotations":null}`, "n", tool.Annotations{ReadOnlyHint: &yes}, `{"name":"n","annotations":{"readOnlyHint":true}}`},
		{"annotations that are empty", `{"annotations":{ },"name":"do_it"}`, "n", tool.Annotations{ReadOnlyHint: &yes}, `{"annotations":{ "readOnlyHint":true},"name":"n"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := tool.ReadDefinition([]byte(tt.raw))
			if err != nil {
				t.Fatal(err)
			}
			got := present(d, tt.rename, d.Annotations.Override(tt.overrides))
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if !json.Valid(got) {
				t.Error("not valid JSON")
			}
		})
	}
}
