package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
)

func TestLocate(t *testing.T) {
	const file = "{\n  \"mcpServers\": {\"a.b\": {\"disabled_tools\": [\"x\",\n    \"y\"]}},\n  \"tools\": {\"enabled\": [\"é\", \"nope\"]}\n}"
	in := config.Faults{
		{Path: "tools.enabled[1]", Message: "m"},
		{Path: `mcpServers["a.b"].disabled_tools[1]`, Message: "m"},
		{Path: "tools", Message: "m"},
		{Path: "gone", Message: "m"},
		{Path: "tools", Line: 9, Col: 9, Message: "is known already"},
	}
	want := []string{
		"4:30: tools.enabled[1]: m", `3:5: mcpServers["a.b"].disabled_tools[1]: m`, "4:12: tools: m", "gone: m", "9:9: tools: is known already",
	}
	var got []string
	for _, f := range config.NewLocator([]byte(file)).Locate(in) {
		got = append(got, f.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if in[0].Line != 0 {
		t.Error("the faults that were given are changed")
	}
	if diff := cmp.Diff(in, config.NewLocator([]byte("{")).Locate(in)); diff != "" {
		t.Errorf("in a file that is no JSON: %s", diff)
	}
}
