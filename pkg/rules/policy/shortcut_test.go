package policy

import (
	"os"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// No verdict changes if the evaluation skips rules about other agents, and attributes that no rule
// reads.
func TestVerdictShortcuts(t *testing.T) {
	cfg := servers(t, "", "files", "infra", "payroll", "web")
	var all strings.Builder
	for _, name := range mustReadDir(t, "testdata/policies") {
		if strings.HasSuffix(name, ".cedar") && !strings.HasPrefix(name, "10-") {
			b, err := os.ReadFile("testdata/policies/" + name)
			require.OK(t, err)
			all.WriteString(strings.ReplaceAll(string(b), "@id(", "@was("))
		}
	}
	for _, src := range []string{
		all.String(),
		`forbid(principal in Agent::"dev", action, resource) when { principal has data && resource.openWorld };`,
		`forbid(principal is Agent in Agent::"dev", action, resource); forbid(principal is Agent, action, resource) unless { resource has idempotent };`,
		`forbid(principal, action, resource) when { (if principal has data then resource else Tool::"a:b").openWorld };`,
	} {
		p := mustParse(t, src)
		for _, agent := range agents() {
			short := p.Verdicts(cfg, agent, catalog())
			for i, tl := range catalog() {
				world := entities{agent: agentEntity(agent), tool: toolEntity(tl, nil)}
				_, found := cedar.Authorize(p.forbids, &world, cedar.Request{
					Principal: world.agent.UID, Action: cedar.NewEntityUID("Action", "call"), Resource: world.tool.UID,
				})
				want := lock.No
				switch {
				case len(found.Reasons) > 0:
					want = lock.Yes
				case len(found.Errors) > 0:
					want = lock.Unknown
				}
				if short[i].Denied != want {
					t.Errorf("%s for %s: %v, want %v with\n%s", tl.ID, agent.ID, short[i].Denied, want, src)
				}
			}
		}
	}
}

func TestEntitiesMatchTheSchema(t *testing.T) {
	c := newChecker()
	src, err := os.ReadFile("schema.cedarschema")
	require.OK(t, err)
	var file schema.Schema
	require.OK(t, file.UnmarshalCedar(src))
	read, err := file.Resolve()
	require.OK(t, err)
	if diff := cmp.Diff(read, c.schema, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("schema.cedarschema and the program differ (-file +program):\n%s", diff)
	}
	v := validate.New(c.schema)
	tl := toolEntity(newTool("a:b"), nil)
	agent := agentEntity(identity.Agent{ID: "x"})
	if err := v.Entities(cedar.EntityMap{tl.UID: tl, agent.UID: agent}); err != nil {
		t.Error(err)
	}
	request := cedar.Request{Principal: agent.UID, Action: cedar.NewEntityUID(actionType, "call"), Resource: tl.UID}
	if err := v.Request(request); err != nil {
		t.Error(err)
	}
	var declared, made []string
	for name := range c.schema.Entities[toolType].Shape {
		declared = append(declared, string(name))
	}
	for name := range tl.Attributes.Keys() {
		made = append(made, string(name))
	}
	if diff := cmp.Diff(declared, made, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("attributes of a tool (-schema +made):\n%s", diff)
	}
}
