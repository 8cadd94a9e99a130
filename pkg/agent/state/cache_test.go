package state

import (
	"reflect"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// Requests with the same key share a cached view. So two agents that differ in any way must have
// different keys.
func TestAgentKey(t *testing.T) {
	agents := []identity.Agent{
		{}, {ID: "a"}, {ID: `a""`}, {Human: "a"}, {Subject: "a"}, {Way: "a"},
		{Servers: []string{}}, {Servers: []string{"a"}}, {Servers: []string{"a", "b"}}, {Servers: []string{`a""b`}}, {Servers: []string{"*"}},
		{Tiers: []tool.Tier{tool.Destructive}}, {Tiers: []tool.Tier{tool.Read}}, {Tiers: []tool.Tier{tool.Read, tool.Write}},
		{Toolsets: []string{}}, {Toolsets: []string{"a"}},
		{Rights: identity.Rights{Role: identity.Viewer}}, {Rights: identity.Rights{Servers: []string{}}}, {Rights: identity.Rights{Servers: []string{"a"}}},
		{Claims: map[string]any{}}, {Claims: map[string]any{"a": "b"}}, {Claims: map[string]any{"a": 1}},
	}
	keys := map[string]identity.Agent{}
	for _, a := range agents {
		key := agentKey(a)
		if other, ok := keys[key]; ok {
			t.Errorf("%+v and %+v have the same key, %s", a, other, key)
		}
		keys[key] = a
	}
	none := reflect.ValueOf(identity.Agent{})
	for i := range none.NumField() {
		differs := false
		for _, a := range agents {
			differs = differs || !reflect.DeepEqual(reflect.ValueOf(a).Field(i).Interface(), none.Field(i).Interface())
		}
		if !differs {
			t.Errorf("no agent of the test sets the field %s", none.Type().Field(i).Name)
		}
	}
	if key := agentKey(identity.Agent{Claims: map[string]any{"a": func() {}}}); key != "" {
		t.Errorf("key of claims that cannot be encoded = %s, want none", key)
	}
}
