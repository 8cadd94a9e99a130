package policy

import (
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// verdictOf returns the verdict of a whole policy file.
func verdictOf(t *testing.T, source string, agent identity.Agent, item Tool) Verdict {
	t.Helper()
	cfg := parseConfig(t, `{"mcpServers": {"files": {"url": "https://files.example"}, "web": {"url": "https://web.example"}}}`)
	return mustParse(t, source).Verdicts(cfg, agent, []Tool{item})[0]
}

// paste replaces the denying rules with the changed ones.
func paste(t *testing.T, source string, p *Policy, agent identity.Agent, item Tool, unsure bool, changed string) string {
	t.Helper()
	for _, r := range p.denying(agent, item, unsure) {
		old := r.source[:statements(r.source)[0].to]
		if !strings.Contains(source, old) {
			t.Fatalf("the rule is not in the file: %s", old)
		}
		source = strings.Replace(source, old, "", 1)
	}
	return source + "\n" + changed
}

// With the exemption in the file, that agent can call the tool. Nothing changes for other agents or
// for other tools.
func TestExempt(t *testing.T) {
	files := newTool("files:delete_file")
	for _, test := range []struct{ name, source string }{
		{"everything", `@id("all") forbid(principal, action, resource);`},
		{"of a scope", `forbid (principal, action == Action::"call", resource == Tool::"files:delete_file");`},
		{"of a type", `forbid (principal is Agent, action, resource is Tool);`},
		{"of an agent", `forbid (principal == Agent::"bot", action, resource);`},
		{"when", `@id("d") @reason("No; never (ever).") forbid(principal, action, resource) when { resource.tier == "destructive" };`},
		{"with a comment at its end", "forbid (principal, action, resource) // nobody; (never)\n;"},
		{"with a comment in its scope", "forbid /* ( */ (principal, // ) \n action, resource /* ; */) when { resource.name like \"*\" } unless { principal.id == \"boss\" };"},
		{"with a name like its effect", `@forbid("(") @note("forbid(") forbid(principal, action, resource) when { resource.server == "files" };`},
		{"two of them", "forbid(principal, action, resource) when { resource.server == \"files\" };\nforbid(principal, action, resource) when { resource.tier == \"destructive\" };\nforbid(principal, action, resource) when { resource.server == \"web\" };"},
		{"next to a permit", "permit(principal, action, resource);\nforbid(principal, action, resource);"},
		{"that reads claims with has", `forbid(principal, action, resource) when { principal has team && principal.team != "ops" };`},
	} {
		for _, id := range []string{"bot", `a"b\c`, "日本 \u202e\x01", "arn:aws:iam::1:role/ci"} {
			if test.name == "of an agent" && id != "bot" {
				continue
			}
			agent := identity.Agent{ID: id, Way: identity.WayJWT, Claims: map[string]any{"team": "dev"}}
			p := mustParse(t, test.source)
			if v := verdictOf(t, test.source, agent, files); v.Denied != lock.Yes {
				t.Fatalf("%s: denied %v at first", test.name, v.Denied)
			}
			text := p.Exempt(agent, files, false)
			if text == "" {
				t.Errorf("%s, %q: no exemption", test.name, id)
				continue
			}
			changed := paste(t, test.source, p, agent, files, false, text)
			if v := verdictOf(t, changed, agent, files); v.Denied != lock.No {
				t.Errorf("%s: denied %v with\n%s", test.name, v, changed)
			}
			unchanged(t, test.source, changed, agent, files)
		}
	}
}

// unchanged checks that two files give the same verdicts, except about one tool for one agent.
func unchanged(t *testing.T, before, after string, agent identity.Agent, item Tool) {
	t.Helper()
	other, namesake := agent, agent
	other.ID, namesake.ID = "other", agent.ID+"x"
	prompt := Tool{ID: tool.ID{Server: "files", Name: "delete_file", Kind: tool.Prompt}}
	for _, a := range []identity.Agent{agent, other, namesake, {ID: "boss"}} {
		for _, x := range []Tool{item, newTool("files:delete_file2"), newTool("web:fetch"), prompt} {
			if a.ID == agent.ID && x.ID == item.ID {
				continue
			}
			if was, is := verdictOf(t, before, a, x).Denied, verdictOf(t, after, a, x).Denied; was != is {
				t.Errorf("%s of %q was %v, is %v with\n%s", x.ID, a.ID, was, is, after)
			}
		}
	}
}

// If no change of a rule would unlock the tool, there is no exemption.
func TestExemptNone(t *testing.T) {
	bot, files := identity.Agent{ID: "bot"}, newTool("files:delete_file")
	for name, p := range map[string]*Policy{
		"no rule denies": mustParse(t, `forbid(principal, action, resource == Tool::"web:fetch");`),
		"a rule fails":   mustParse(t, broken),
		"no policy":      nil,
		"nothing":        Empty(),
		"too long":       mustParse(t, "forbid(principal, action, resource) when { true "+strings.Repeat("&& true ", (maxRule-60)/8)+"};"),
	} {
		if text := p.Exempt(bot, files, false); text != "" {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// The gateway has the claims of a JWT only during a request. Without the claims, it is unknown
// whether a rule that reads them denies.
func TestVerdictWithoutClaims(t *testing.T) {
	cfg := parseConfig(t, `{"mcpServers": {"files": {"url": "https://files.example", "disabled_tools": ["secret"]}}}`)
	agent := identity.Agent{ID: "bot", Way: identity.WayJWT}
	const team = `@id("team") forbid(principal, action, resource) when { principal.team != "ops" };`
	for _, test := range []struct {
		name, source, tool string
		denied             lock.Fact
		unsure             bool
		may                string
	}{
		{"a list", team, "files:secret", lock.Yes, false, "policy.cedar:1 team"},
		{"a rule without claims", "@id(\"all\") forbid(principal, action, resource);\n" + team, "files:get", lock.Yes, false, "policy.cedar:2 team"},
		{"a rule with claims", team, "files:get", lock.No, true, "policy.cedar:1 team"},
		{"of another tool", strings.Replace(team, "resource)", `resource == Tool::"files:put")`, 1), "files:get", lock.No, false, ""},
		{"of another agent", strings.Replace(team, "principal,", `principal == Agent::"x",`, 1), "files:get", lock.No, false, ""},
		{"a rule that reads only the kind", `forbid(principal, action, resource) when { principal.kind == "iam" };`, "files:get", lock.No, false, ""},
		{"a rule that fails", broken, "files:get", lock.No, true, "policy.cedar:1 broken"},
	} {
		p, item := mustParse(t, test.source), newTool(test.tool)
		v, unsure := p.VerdictWithoutClaims(cfg, agent, item)
		if v.Denied != test.denied || unsure != test.unsure || strings.Join(p.MayDeny(agent, item), ", ") != test.may {
			t.Errorf("%s: %v, unsure %v, %q", test.name, v, unsure, p.MayDeny(agent, item))
		}
	}
	var unread *Policy
	if v, unsure := unread.VerdictWithoutClaims(cfg, agent, newTool("files:get")); v.Denied != lock.Unknown || unsure {
		t.Errorf("no policy: %v, %v", v, unsure)
	}
	files := newTool("files:get")
	text := mustParse(t, team).Exempt(agent, files, true)
	for _, claims := range []map[string]any{nil, {"team": "dev"}, {"team": "ops"}, {"team": 5}} {
		agent.Claims = claims
		if v := verdictOf(t, text, agent, files); v.Denied != lock.No {
			t.Errorf("exempted with the claims %v: %v\n%s", claims, v, text)
		}
	}
}

func FuzzExempt(f *testing.F) {
	for _, source := range []string{forbidAll, broken, "forbid/*(*/(principal,action,resource)//)\n;", `@a("forbid(") forbid (principal, action, resource) unless { "(" == ")" };`} {
		f.Add(source, "bot")
	}
	item := newTool("files:delete_file")
	f.Fuzz(func(t *testing.T, source, id string) {
		p, err := Parse([]byte(source))
		agent := identity.Agent{ID: id}
		if err != nil || id == "" {
			return
		}
		text := p.Exempt(agent, item, false)
		if text == "" {
			return
		}
		changed, err := Parse([]byte(text))
		if err != nil || changed.judge(agent).verdict(item).Denied != lock.No {
			t.Errorf("%v with the exemption\n%s\nof\n%s", err, text, source)
		}
		if other := (identity.Agent{ID: id + "x"}); p.judge(other).verdict(item).Denied == lock.No && changed.judge(other).verdict(item).Denied == lock.Yes {
			t.Errorf("the exemption denies another agent\n%s", text)
		}
	})
}
