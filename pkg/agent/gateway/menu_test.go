package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/tokens"
)

// Every agent pays for the menu in every conversation: for the six tools, one more if there are
// resources, and one more if agents may request access.
func TestMenuSize(t *testing.T) {
	for _, part := range []struct {
		name, text string
		most       int
	}{
		{"the six", strings.Join(menu(), ","), 500},
		{"read_resource", readResourceDefinition, 70},
		{"request_access", requestAccessDefinition, 85},
	} {
		if n := tokens.Count(t, part.text); n > part.most {
			t.Errorf("%s: %d tokens, want <= %d", part.name, n, part.most)
		} else {
			t.Logf("%s: %d tokens", part.name, n)
		}
	}
}

func TestMoreTools(t *testing.T) {
	d := require.JSON[struct {
		Name        string
		InputSchema struct {
			Properties           map[string]json.RawMessage
			AdditionalProperties *bool
		}
		Annotations map[string]bool
		Meta        map[string]bool `json:"_meta"`
	}](t, readResourceDefinition)
	if d.Name != readResource || len(d.InputSchema.Properties) != 2 || d.InputSchema.AdditionalProperties == nil || !d.Annotations["readOnlyHint"] || !d.Meta["anthropic/alwaysLoad"] {
		t.Errorf("%s", readResourceDefinition)
	}
	if !json.Valid([]byte(requestAccessDefinition)) {
		t.Errorf("%s", requestAccessDefinition)
	}
}

func TestMenu(t *testing.T) {
	type definition struct {
		Name        string
		Description string
		InputSchema struct {
			Type                 string
			Properties           map[string]json.RawMessage
			Required             []string
			AdditionalProperties *bool
		}
		Annotations map[string]bool
		Meta        map[string]bool `json:"_meta"`
	}
	want := []struct {
		name, properties string
		hint             string
		value            bool
	}{
		{"retrieve_tools", "detail include_disabled limit query read_only", "readOnlyHint", true},
		{"describe_tools", "names", "readOnlyHint", true},
		{"call_tool_read", "args name", "readOnlyHint", true},
		{"call_tool_write", "args name", "destructiveHint", false},
		{"call_tool_destructive", "args name", "destructiveHint", true},
		{"upstream_servers", "after name", "readOnlyHint", true},
	}
	got := menu()
	if len(got) != len(want) {
		t.Fatalf("%d tools, want %d", len(got), len(want))
	}
	for i, raw := range got {
		d := require.JSON[definition](t, raw)
		w := want[i]
		if d.Name != w.name || d.Description == "" || d.InputSchema.Type != "object" {
			t.Errorf("tool %d is %s, want %s with a description and a schema", i, raw, w.name)
		}
		if len(d.InputSchema.Properties) != len(strings.Fields(w.properties)) {
			t.Errorf("%s takes %v, want %s", w.name, d.InputSchema.Properties, w.properties)
		}
		for _, p := range append(d.InputSchema.Required, strings.Fields(w.properties)...) {
			if _, ok := d.InputSchema.Properties[p]; !ok {
				t.Errorf("%s has no property %s", w.name, p)
			}
		}
		if d.InputSchema.AdditionalProperties == nil || *d.InputSchema.AdditionalProperties {
			t.Errorf("%s: the schema allows unknown arguments", w.name)
		}
		if v, ok := d.Annotations[w.hint]; !ok || v != w.value {
			t.Errorf("%s: annotations %v, want %s %v", w.name, d.Annotations, w.hint, w.value)
		}
		if !d.Meta["anthropic/alwaysLoad"] {
			t.Errorf("%s may be deferred by clients: _meta %v", w.name, d.Meta)
		}
	}
}
