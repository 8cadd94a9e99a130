package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
)

// kinds3 returns a tool, a prompt, a resource and a template.
func kinds3() []Tool {
	out := []Tool{newTool("fs:review", "read")}
	for _, id := range []string{"fs:prompt:review", "fs:resource:file:///etc/passwd", "fs:resource:file:///{+path}"} {
		t := newTool(id, "read")
		no, yes := false, true
		t.Annotations.DestructiveHint, t.Annotations.IdempotentHint, t.Annotations.OpenWorldHint = &no, &yes, &yes
		out = append(out, t)
	}
	return out
}

// denied returns the letter of each denied item in "TPRt": tool, prompt, resource, template. An
// item that is not denied is ".", and an unknown verdict is "?".
func denied(verdicts []Verdict) string {
	var b strings.Builder
	for i, v := range verdicts {
		switch v.Denied {
		case lock.Yes:
			b.WriteByte("TPRt"[i])
		case lock.Unknown:
			b.WriteByte('?')
		case lock.No:
			b.WriteByte('.')
		}
	}
	return b.String()
}

func TestVerdictsOnItems(t *testing.T) {
	for _, tt := range []struct{ name, rule, want string }{
		{"no rule", ``, "...."},
		{"neither action nor type", `forbid(principal, action, resource);`, "TPRt"},
		{"by server", `forbid(principal, action, resource) when { resource.server == "fs" };`, "TPRt"},
		{"by name", `forbid(principal, action, resource) when { resource.name == "review" };`, "TP.."},
		{"by URI", `forbid(principal, action, resource) when { resource.name like "file:///etc/*" };`, "..R."},
		{"by template", `forbid(principal, action, resource) when { resource.name like "*{+path}" };`, "...t"},
		{"by tier", `forbid(principal, action, resource) when { resource.tier == "read" };`, "TPRt"},
		{"all but readers", `forbid(principal, action, resource) unless { resource.readOnly };`, "...."},
		{"destructive ones", `forbid(principal, action, resource) when { resource.destructive };`, "...."},
		{"not idempotent", `forbid(principal, action, resource) unless { resource.idempotent };`, "T..."},
		{"open world", `forbid(principal, action, resource) when { resource.openWorld };`, "TPRt"},
		{"calls", `forbid(principal, action == Action::"call", resource);`, "T..."},
		{"gets", `forbid(principal, action == Action::"get", resource);`, ".P.."},
		{"reads", `forbid(principal, action == Action::"read", resource);`, "..Rt"},
		{"gets and reads", `forbid(principal, action in [Action::"get", Action::"read"], resource);`, ".PRt"},
		{"tools", `forbid(principal, action, resource is Tool);`, "T..."},
		{"prompts", `forbid(principal, action, resource is Prompt);`, ".P.."},
		{"resources", `forbid(principal, action, resource is Resource);`, "..Rt"},
		{"a condition on the type", `forbid(principal, action, resource) when { resource is Prompt || resource is Resource };`, ".PRt"},
		{"one tool", `forbid(principal, action, resource) when { resource == Tool::"fs:review" };`, "T..."},
		{"one prompt", `forbid(principal, action, resource == Prompt::"fs:prompt:review");`, ".P.."},
		{"one resource", `forbid(principal, action, resource) when { resource == Resource::"fs:resource:file:///etc/passwd" };`, "..R."},
		{"several", `forbid(principal, action, resource) when { [Tool::"fs:review"].contains(resource) || resource == Prompt::"fs:prompt:review" };`, "TP.."},
		{"an unknown claim", `forbid(principal, action == Action::"get", resource) when { principal.team == "x" };`, ".?.."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, cfg := mustParse(t, tt.rule), servers(t, "", "fs")
			if got := denied(p.Verdicts(cfg, identity.Agent{ID: "a"}, kinds3())); got != tt.want {
				t.Errorf("denied: %s, want %s", got, tt.want)
			}
			if tt.rule == "" {
				return
			}
			var matched strings.Builder
			m := p.Matches(cfg, kinds3())[0]
			for i, item := range kinds3() {
				switch {
				case strings.Contains(fmt.Sprint(m.Some), item.ID.String()):
					matched.WriteByte('?')
				case strings.Contains(fmt.Sprint(m.Always), item.ID.String()):
					matched.WriteByte("TPRt"[i])
				default:
					matched.WriteByte('.')
				}
			}
			if matched.String() != tt.want {
				t.Errorf("matches: %s, want %s", matched.String(), tt.want)
			}
		})
	}
}

func TestListsOnItems(t *testing.T) {
	for _, tt := range []struct{ name, server, tools, want string }{
		{"none", ``, ``, "...."},
		{"disabled tools", `"disabled_tools": ["*"]`, ``, "T..."},
		{"enabled tools", `"enabled_tools": ["other"]`, ``, "T..."},
		{"disabled prompts", `"disabled_prompts": ["rev*"]`, ``, ".P.."},
		{"disabled resources", `"disabled_resources": ["file:///*"]`, ``, "..Rt"},
		{"one resource", `"disabled_resources": ["file:///etc/passwd"]`, ``, "..R."},
		{"one template", `"disabled_resources": ["file:///{+path}"]`, ``, "...t"},
		{"the server's tools", ``, `"fs:*"`, "T..."},
		{"a bare name", ``, `"review"`, "T..."},
		{"the server's prompts", ``, `"fs:prompt:*"`, ".P.."},
		{"the server's resources", ``, `"fs:resource:*"`, "..Rt"},
		{"a glob of URIs", ``, `"fs:resource:file:///etc/*"`, "..R."},
		{"a prompt", ``, `"fs:prompt:review"`, ".P.."},
		{"another server's", ``, `"web:prompt:*", "web:*", "web:resource:*"`, "...."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			more := ""
			if tt.server != "" {
				more = ", " + tt.server
			}
			cfg := parseConfig(t, `{"mcpServers": {"fs": {"url": "https://fs.example"`+more+`}, "web": {"url": "https://web.example"}}, "tools": {"disabled": [`+tt.tools+`]}}`)
			if got := denied(Empty().Verdicts(cfg, identity.Agent{ID: "a"}, kinds3())); got != tt.want {
				t.Errorf("denied: %s, want %s", got, tt.want)
			}
			var matched []string
			for _, m := range Empty().Matches(cfg, kinds3()) {
				for _, id := range m.Always {
					matched = append(matched, id.String())
				}
			}
			var want []string
			for i, item := range kinds3() {
				if tt.want[i] != '.' {
					want = append(want, item.ID.String())
				}
			}
			if diff := cmp.Diff(want, matched); diff != "" {
				t.Errorf("matches (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRulesOnItems(t *testing.T) {
	for rule, want := range map[string]string{
		`forbid(principal, action, resource) when { resource == Tool::"a:b" };`:                             "",
		`forbid(principal, action == Action::"get", resource) when { [Tool::"a:b"].contains(resource) };`:   "1:1: not what the schema says: the types Prompt and Tool are not compatible",
		`forbid(principal, action == Action::"get", resource is Tool);`:                                     "1:1: not what the schema says: unable to find an applicable action given the policy scope constraints",
		`forbid(principal, action, resource == Prompt::"a:b");`:                                             `1:48: a prompt is written Prompt::"server:prompt:name", not Prompt::"a:b"`,
		`forbid(principal, action, resource == Resource::"a:prompt:b");`:                                    `1:50: a resource is written Resource::"server:resource:uri", not Resource::"a:prompt:b"`,
		`forbid(principal, action, resource == Tool::"a:prompt:b");`:                                        `1:46: a tool is written Tool::"server:tool", not Tool::"a:prompt:b"`,
		`forbid(principal, action == Action::"read", resource) when { resource.uri == "x" };`:               "1:71: not what the schema says: attribute `uri` on entity type `Resource` not found",
		`forbid(principal, action, resource) when { resource is Resource && resource.name like "file:*" };`: "",
	} {
		_, err := Parse([]byte(rule))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("Parse(%s)\n%s, want\n%s", rule, got, want)
		}
	}
}
