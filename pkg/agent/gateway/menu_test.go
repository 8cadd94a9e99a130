package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

func TestMenu(t *testing.T) {
	got := append(menu(), readResourceDefinition, requestAccessDefinition)
	for i, want := range []struct{ name, properties, hint string }{
		{"retrieve_tools", "detail include_disabled limit query read_only", "readOnlyHint true"},
		{"describe_tools", "names", "readOnlyHint true"},
		{"call_tool_read", "args name", "readOnlyHint true"},
		{"call_tool_write", "args name", "destructiveHint false"},
		{"call_tool_destructive", "args name", "destructiveHint true"},
		{"upstream_servers", "after name", "readOnlyHint true"},
		{"read_resource", "server uri", "readOnlyHint true"},
		{"request_access", "names note", ""},
	} {
		d := require.JSON[struct {
			Name, Description string
			InputSchema       struct {
				Properties           map[string]json.RawMessage
				AdditionalProperties *bool
			}
			Annotations map[string]bool
			Meta        map[string]bool `json:"_meta"`
		}](t, got[i])
		properties := strings.Join(slices.Sorted(maps.Keys(d.InputSchema.Properties)), " ")
		if d.Name != want.name || d.Description == "" || properties != want.properties {
			t.Errorf("tool %d is %s, want %s with %s", i, got[i], want.name, want.properties)
		}
		if d.InputSchema.AdditionalProperties == nil || *d.InputSchema.AdditionalProperties {
			t.Errorf("%s: the schema allows unknown arguments", want.name)
		}
		hint, _, _ := strings.Cut(want.hint, " ")
		if v := fmt.Sprint(hint, " ", d.Annotations[hint]); want.hint != "" && v != want.hint {
			t.Errorf("%s: annotations %v, want %s", want.name, d.Annotations, want.hint)
		}
		if !d.Meta["anthropic/alwaysLoad"] {
			t.Errorf("%s may be deferred by clients: _meta %v", want.name, d.Meta)
		}
	}
}
