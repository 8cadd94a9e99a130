package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const (
	forbidAll = `@id("all") forbid(principal, action, resource);`
	broken    = `@id("broken") forbid(principal, action, resource) when { principal.nothing == 1 };`
)

func TestVerdictOfLists(t *testing.T) {
	cfg := parseConfig(t, `{"mcpServers": {
		"files": {"url": "https://files.example", "enabled_tools": ["get_*", "create_*", "delete_file"], "disabled_tools": ["create_*", "delete_file"]},
		"my.server": {"url": "https://my.example", "disabled_tools": ["b*"]},
		"web": {"url": "https://web.example"}},
		"tools": {"disabled": ["files:get_file", "fetch", "my.server:*"]}}`)
	tools := []Tool{
		newTool("files:get_file"), newTool("files:get_dir"), newTool("files:create_file"), newTool("files:move_file"),
		newTool("my.server:big"), newTool("my.server:small"), newTool("web:fetch"), newTool("web:post"), newTool("gone:fetch"),
	}
	wantLists := []string{
		"tools.disabled[0]", "", "mcpServers.files.disabled_tools[0]", "mcpServers.files.enabled_tools",
		`mcpServers["my.server"].disabled_tools[0]`, "tools.disabled[2]", "tools.disabled[1]", "", "",
	}
	for _, tt := range []struct {
		name   string
		policy *Policy
		rest   Verdict // verdict on the tools that no list denies
	}{
		{"empty policy", Empty(), Verdict{Denied: lock.No}},
		{"no policy could be read", nil, Verdict{}},
		{"forbid all", mustParse(t, forbidAll), Verdict{Denied: lock.Yes, Denial: Denial{ID: "all"}, Rules: []string{"policy.cedar:1 all"}}},
		{"broken rule", mustParse(t, broken), Verdict{Rules: []string{"policy.cedar:1 broken"}, Err: "`Agent::\"dev\"` does not have the attribute `nothing`"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.policy.Verdicts(cfg, identity.Agent{ID: "dev"}, tools)
			for i, list := range wantLists {
				want := tt.rest
				switch {
				case list != "":
					want = Verdict{Denied: lock.Yes, Rules: []string{list}}
				case tools[i].ID.Server == "gone":
					want = Verdict{}
				}
				if diff := cmp.Diff(want, got[i]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tools[i].ID, diff)
				}
			}
		})
	}
}

func TestVerdictsWithoutAConfig(t *testing.T) {
	for _, p := range []*Policy{nil, Empty(), mustParse(t, forbidAll)} {
		for i, v := range p.Verdicts(nil, identity.Agent{}, catalog()) {
			if v.Denied != lock.Unknown {
				t.Errorf("verdict on %s = %v, want unknown", catalog()[i].ID, v.Denied)
			}
		}
	}
}

func TestVerdictOfAFailingForbid(t *testing.T) {
	cfg := servers(t, "", "web")
	tools := []Tool{newTool("web:fetch")}
	for _, tt := range []struct {
		name, src string
		want      lock.Fact
	}{
		{"failing first", broken + forbidAll, lock.Yes},
		{"failing last", forbidAll + broken, lock.Yes},
		{"failing next to a rule that does not match", broken + `forbid(principal, action, resource == Tool::"web:post");`, lock.Unknown},
		{"failing next to a permit", broken + `permit(principal, action, resource);`, lock.Unknown},
		{"failing permit", `permit(principal, action, resource) when { principal.nothing }; forbid(principal, action, resource == Tool::"web:post");`, lock.No},
		{"not reached", `forbid(principal, action, resource) when { resource.server == "other" && principal.nothing };`, lock.No},
		{"overflowing", `forbid(principal, action, resource) when { principal.big + 9223372036854775807 > 0 };`, lock.Unknown},
		{"a claim of another type", `forbid(principal, action, resource) when { principal has big && principal.big like "x" };`, lock.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := mustParse(t, tt.src).Verdicts(cfg, identity.Agent{ID: "a", Claims: map[string]any{"big": 7.0}}, tools)[0]
			if got.Denied != tt.want || (got.Err != "") != (tt.want == lock.Unknown) {
				t.Errorf("verdict = %+v, want %v", got, tt.want)
			}
		})
	}
}

// An issuer may let people choose claims of any name. Such a claim must not look like a fact from
// AWS or from the gateway's own tokens.
func TestVerdictOfForgedClaims(t *testing.T) {
	cfg := servers(t, "", "web")
	tools := []Tool{newTool("web:fetch")}
	const role = "arn:aws:sts::123456789012:assumed-role/ci/run"
	forger, err := identity.ClaimMap{}.Agent(map[string]any{"sub": "mallory", "arn": role, "token": "ci", "kind": "iam", "id": role})
	require.OK(t, err)
	signed := identity.Agent{ID: role, Way: identity.WayIAM, Claims: map[string]any{"arn": role}}
	minted := identity.Agent{ID: identity.TokenAgent("ci"), Way: identity.WayToken, Claims: map[string]any{"token": "ci"}}
	for _, tt := range []struct {
		name, passes string // a condition under which the rule does not deny
		agent        identity.Agent
	}{
		{"arn", `principal has arn && principal.arn like "arn:aws:sts::123456789012:assumed-role/ci/*"`, signed},
		{"kind iam", `principal.kind == "iam"`, signed},
		{"id", `principal.id like "arn:aws:*"`, signed},
		{"token", `principal has token && principal.token == "ci"`, minted},
		{"kind token", `principal.kind == "token"`, minted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := mustParse(t, "forbid(principal, action, resource) unless { "+tt.passes+" };")
			if v := p.Verdicts(cfg, forger, tools)[0]; v.Denied != lock.Yes {
				t.Errorf("the verdict on the agent with forged claims is %v, want denied", v.Denied)
			}
			if v := p.Verdicts(cfg, tt.agent, tools)[0]; v.Denied != lock.No {
				t.Errorf("the verdict on the intended agent is %v, want permitted", v.Denied)
			}
		})
	}
}

func TestVerdictOfSeveralForbids(t *testing.T) {
	var src strings.Builder
	for i, says := range []string{`@id("z") @reason("First") @contact("me")`, `@id("y") @reason("Second.") @contact("me")`, `@reason("Third")`, `@id("w") @reason("Fourth")`} {
		fmt.Fprintf(&src, "%s forbid(principal, action, resource) when { resource.name != \"%d\" };\n", says, i)
	}
	cfg := servers(t, "", "web")
	got := mustParse(t, src.String()).Verdicts(cfg, identity.Agent{}, []Tool{newTool("web:fetch"), newTool("web:0")})
	want := []Verdict{{
		Denied: lock.Yes,
		Denial: Denial{ID: "z, y", Reason: "First; Second. Third", Contact: "me"},
		Rules:  []string{"policy.cedar:1 z", "policy.cedar:2 y", "policy.cedar:3", "policy.cedar:4 w"},
	}, {
		Denied: lock.Yes,
		Denial: Denial{ID: "y, w", Reason: "Second. Third; Fourth", Contact: "me"},
		Rules:  []string{"policy.cedar:2 y", "policy.cedar:3", "policy.cedar:4 w"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	const note = "First; Second. Third (rule z, y, contact me)"
	if got[0].Denial.Note() != note {
		t.Errorf("note = %q, want %q", got[0].Denial.Note(), note)
	}
}

func TestEvaluations(t *testing.T) {
	cfg := servers(t, `, "tools": {"disabled": ["files:*"]}`, "files", "infra", "payroll", "web")
	p := mustParse(t, forbidAll)
	p.Verdicts(cfg, identity.Agent{}, catalog())
	if got := p.Evaluations(); got != 6 { // 9 tools, 3 of them denied by the list
		t.Errorf("after one agent: %d evaluations, want 6", got)
	}
	p.Verdicts(cfg, identity.Agent{ID: "b"}, catalog()[3:5])
	if got := p.Evaluations(); got != 8 {
		t.Errorf("after two more tools: %d evaluations, want 8", got)
	}
	if got := (*Policy)(nil).Evaluations(); got != 0 {
		t.Errorf("without a policy: %d", got)
	}
}

// If rules are added to a policy, they never permit a tool that the policy denied before.
func TestVerdictsAreMonotone(t *testing.T) {
	cfg := servers(t, "", "files", "infra", "payroll", "web")
	var sources []string
	for _, name := range mustReadDir(t, "testdata/policies") {
		if src, ok := strings.CutSuffix(name, ".cedar"); ok {
			b, err := os.ReadFile("testdata/policies/" + src + ".cedar")
			require.OK(t, err)
			sources = append(sources, strings.ReplaceAll(string(b), "@id(", "@was(")) // ids must be unique in a file
		}
	}
	strength := map[lock.Fact]int{lock.No: 0, lock.Unknown: 1, lock.Yes: 2}
	for _, a := range sources {
		one := mustParse(t, a)
		for _, b := range sources {
			two := mustParse(t, a+b)
			for _, agent := range agents() {
				fewer, more := one.Verdicts(cfg, agent, catalog()), two.Verdicts(cfg, agent, catalog())
				for i := range fewer {
					if strength[more[i].Denied] < strength[fewer[i].Denied] {
						t.Fatalf("%s for %s: %v becomes %v if the rules\n%s\nare added to\n%s", catalog()[i].ID, agent.ID, fewer[i].Denied, more[i].Denied, b, a)
					}
				}
			}
		}
	}
}

func TestToolAttributes(t *testing.T) {
	yes, no := true, false
	contradictory := newTool("a:b", "read")
	contradictory.Annotations.DestructiveHint = &yes
	idempotent := newTool("a:b", "write", "closed")
	idempotent.Annotations.IdempotentHint = &yes
	unread := newTool("a:b")
	unread.Annotations.ReadOnlyHint = &no
	for _, tt := range []struct {
		name string
		tool Tool
		want string
	}{
		{"no hints", newTool("a:b"), `{"destructive":true, "idempotent":false, "name":"b", "openWorld":true, "readOnly":false, "server":"a", "tier":"destructive"}`},
		{"read", newTool("a:b:c", "read"), `{"destructive":false, "idempotent":false, "name":"b:c", "openWorld":true, "readOnly":true, "server":"a", "tier":"read"}`},
		{"not read-only", unread, `{"destructive":true, "idempotent":false, "name":"b", "openWorld":true, "readOnly":false, "server":"a", "tier":"destructive"}`},
		{"write", idempotent, `{"destructive":false, "idempotent":true, "name":"b", "openWorld":false, "readOnly":false, "server":"a", "tier":"write"}`},
		{"contradictory", contradictory, `{"destructive":true, "idempotent":false, "name":"b", "openWorld":true, "readOnly":true, "server":"a", "tier":"read"}`},
	} {
		if got := toolEntity(tt.tool, nil).Attributes.String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestClaimAttributes(t *testing.T) {
	entity := agentEntity(identity.Agent{ID: "ci", Way: identity.WayJWT, Claims: map[string]any{
		"id": "root", "kind": "iam", "null": nil, "bool": true, "text": "x", "whole": 3.0, "fraction": 0.25, "huge": 1e300, "nan": math.NaN(),
		"number": json.Number("9007199254740993"), "half": json.Number("0.5"), "vast": json.Number("1e999"), "int": 7,
		"list": []any{"a", nil, 2.0, "a"}, "strings": []string{"a"}, "record": map[string]any{"a": map[string]any{"b": "c"}, "n": nil},
		"other": struct{ A int }{1},
	}})
	if entity.UID != cedar.NewEntityUID("Agent", "ci") {
		t.Errorf("uid = %v", entity.UID)
	}
	want := map[string]string{
		"id": `"ci"`, "kind": `"jwt"`, "bool": "true", "text": `"x"`, "whole": "3", "fraction": `decimal("0.25")`, "huge": `"1e+300"`, "nan": `"NaN"`,
		"number": "9007199254740993", "half": `decimal("0.5")`, "vast": `"1e999"`, "int": "7",
		"list": `[2, "a"]`, "strings": `["a"]`, "record": `{"a":{"b":"c"}}`, "other": `"{1}"`,
	}
	got := map[string]string{}
	for name, v := range entity.Attributes.All() {
		got[string(name)] = string(v.MarshalCedar())
	}
	if got["list"] == `["a", 2]` { // a set has no order
		got["list"] = want["list"]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}
