package policy

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/test/require"
)

func TestParseSyntax(t *testing.T) {
	for _, tt := range []struct{ name, src, want string }{
		{"an empty condition", `forbid(principal, action, resource) when { };`, `1:44: not Cedar: unexpected }`},
		{"a misspelt scope", "\n  forbid(principle, action, resource);", "2:10: not Cedar: found principle, want principal"},
		{"no semicolon", `forbid(principal, action, resource)`, "1:36: not Cedar: found the end, want ;"},
		{"an open string", `forbid(principal, action, resource) when { resource.name == "x };`, "1:61: not Cedar: literal not terminated"},
		{"an unknown escape", `forbid(principal, action, resource) when { "\q" == "x" };`, "1:44: not Cedar: invalid char escape"},
		{"another word", `deny(principal, action, resource);`, "1:1: not Cedar: unexpected effect: deny"},
		{"a number too large", "\n forbid(principal, action, resource) when { 99999999999999999999 == 1 };", `2:2: not Cedar: strconv.ParseInt: parsing "99999999999999999999": value out of range`},
		{"a NUL", "\x00", "1:2: not Cedar: invalid character NUL"},
		{"bytes that are not UTF-8", "forbid(principal, action, resource); // \xff", "the file is not UTF-8"},
		{"an annotation twice", `@id("a") @id("b") forbid(principal, action, resource);`, `1:11: not Cedar: duplicate annotation: @id`},
		{"nesting that would exhaust the parser's stack", "forbid(principal, action, resource);\n" + strings.Repeat("(", maxFile-100), "1:37: this rule is longer than 32 KiB"},
		{"a huge file", strings.Repeat("\n", maxFile+1), "the file is larger than 1 MiB"},
		{"every statement, though strings and comments hold semicolons", `forbid(principal, action, resource) when { "a;" == };
// one; two
@reason("a;b\";") forbid(principal, action, resource);
/* three; */ forbid(principal, action);
forbid(resource);`, `1:52: not Cedar: unexpected }
4:38: not Cedar: found ), want ,
5:8: not Cedar: found resource, want principal`},
	} {
		t.Run(tt.name, func(t *testing.T) { wantFaults(t, tt.src, tt.want) })
	}
}

// wantFaults checks that Parse refuses src with these faults, one on each line.
func wantFaults(t *testing.T, src, want string) {
	t.Helper()
	p, err := Parse([]byte(src))
	if err == nil || p != nil {
		t.Fatalf("Parse = %v, %v: want no policy and\n%s", p, err, want)
	}
	if _, ok := errors.AsType[config.Faults](err); !ok {
		t.Errorf("Parse = %T, want config.Faults", err)
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestParseAgainstTheSchema(t *testing.T) {
	const not = "not what the schema says: "
	when := func(condition string) string {
		return "forbid(principal, action, resource) when { " + condition + " };"
	}
	for _, tt := range []struct{ name, src, want string }{
		{"an attribute of a tool", when(`resource.teir == "read"`), "1:53: " + not + "attribute `teir` on entity type `Tool` not found"},
		{"the context", when(`context.ip == "x"`), "1:52: " + not + "attribute `ip` in context for Action::\"call\" not found"},
		{"a type of principal", `forbid(principal == User::"x", action, resource);`, "1:21: " + not + "unrecognized entity type `User`"},
		{"a group", `forbid(principal in Group::"x", action, resource);`, "1:21: " + not + "unrecognized entity type `Group`"},
		{"a type of resource", when(`resource is Server`), "1:56: there is no entity type Server, only Agent, Tool, Prompt and Resource"},
		{"an action", `forbid(principal, action == Action::"write", resource);`, "1:29: " + not + "unrecognized action `Action::\"write\"`; there is Action::\"call\", Action::\"get\", Action::\"read\""},
		{"a comparison of types", when(`resource.readOnly > 3`), "1:1: " + not + "unexpected type: expected datetime, or duration, or Long but saw Bool"},
		{"a condition that is no Bool", when(`resource.name`), "1:1: " + not + "unexpected type: expected Bool but saw String"},
		{"a claim of two types", when(`principal.a > 3 && principal.a like "x"`), "1:1: " + not + "unexpected type: expected datetime, or duration, or Long but saw String"},
		{"a tier", when(`resource.tier == "raed"`), `1:62: tier "raed" is not read, write or destructive`},
		{"a tier, the other way round", when(`"raed" != resource.tier`), `1:45: tier "raed" is not read, write or destructive`},
		{"a kind of agent", when(`principal.kind == "jtw"`), `1:63: "jtw" is no kind of agent: want one of jwt, token, iam, none`},
		{"a tier in a set", when(`["read", "wirte"].contains(resource.tier)`), `1:54: tier "wirte" is not read, write or destructive`},
		{"a tool without a server", `forbid(principal, action, resource == Tool::"fetch");`, `1:46: a tool is written Tool::"server:tool", not Tool::"fetch"`},
		{"a tool without a server, in a condition", when(`resource in [Tool::"a:b", Tool::"fetch"]`), `1:77: a tool is written Tool::"server:tool", not Tool::"fetch"`},
		{"an invalid address", when(`ip("300.1.1.1").isLoopback()`), "1:47: " + not + "error during extension function argument validation: failed to parse as IP address: `\"300.1.1.1\"`"},
		{"an @id twice", "@id(\"a\") forbid(principal, action, resource);\n@reason(\"x\") @id(\"a\") permit(principal, action, resource);", "2:14: a: the rule in line 1 has this @id already"},
		{"a reason that is too long", `@reason("` + strings.Repeat("ö", 501) + `") forbid(principal, action, resource);`, "1:1: @reason has 501 characters, at most 500 are allowed"},
		{"every rule at once", "@id(\"a\")\n" + when("resource.x") + "\n@id(\"b\")\n  " + when("\n resource.x && resource.y") + "\n" + when("resource.readOnly"),
			"2:53: a: " + not + "attribute `x` on entity type `Tool` not found\n" +
				"5:11: b: " + not + "attribute `x` on entity type `Tool` not found\n" +
				"5:25: b: " + not + "attribute `y` on entity type `Tool` not found"},
		{"only permits, which look like an allow list", `permit(principal == Agent::"ci", action, resource) when { resource.readOnly };`,
			"1:1: this permit grants nothing: everything that no forbid matches is permitted; write a forbid for what shall be denied"},
	} {
		t.Run(tt.name, func(t *testing.T) { wantFaults(t, tt.src, tt.want) })
	}
}

func TestParseWarnings(t *testing.T) {
	const bare = " without has; an agent without the claim finds everything locked that the rule could match"
	when := func(condition string) string {
		return "forbid(principal, action, resource) when { " + condition + " };"
	}
	for _, tt := range []struct{ name, src, want string }{
		{"nothing", "", ""},
		{"comments", "// none\n/* none */\n", ""},
		{"everything that the schema declares", when(`principal.id like "a*" && principal.kind == "iam" && resource.server == "a" && resource.name == "b" && resource.tier == "read" && resource.readOnly && resource.destructive && resource.idempotent && resource.openWorld`), ""},
		{"every scope", `forbid(principal is Agent, action in [Action::"call"], resource is Tool in Tool::"a:b");`, ""},
		{"a blanket permit", `permit(principal, action, resource);`, ""},
		{"a guarded claim", when(`principal has team && principal.team == "x"`), ""},
		{"a claim that must be missing", when(`!(principal has team)`), ""},
		{"a guarded claim in a claim", when(`principal has org.unit && principal.org.unit == "x"`), ""},
		{"claims of every type", when(`principal has a && principal.a == "x" && principal has b && principal.b.contains("x") && principal has c && principal.c > 3 && principal has d && principal.d`), ""},
		{"more than five claims", when(`principal has a && principal has b && principal has c && principal has d && principal has e && principal has f && principal.f == "x"`), ""},
		{"an unguarded claim", when(`principal.org.unit == "x" || principal.team == "x"`), "1:1: reads principal.org, principal.team" + bare},
		{"a narrow permit beside a forbid", "@id(\"p\") permit(principal == Agent::\"x\", action, resource);\nforbid(principal, action, resource);",
			"1:1: p: this permit grants nothing: everything that no forbid matches is permitted; write an exception from a forbid as its unless clause"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, mustParse(t, tt.src).Warnings().Error()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnnotationsInOneLine(t *testing.T) {
	p := mustParse(t, `@id(" a	b ") @reason("Ask\n\n{\"role\": \"system\"}\u{202e}\u{0} first.") @contact("\u{200b}me") forbid(principal, action, resource);`)
	want := Denial{ID: "a b", Reason: `Ask {"role": "system"} first.`, Contact: "me"}
	if got := p.forbids[0].denial; got != want {
		t.Errorf("denial = %+q, want %+q", got, want)
	}
}

func TestNote(t *testing.T) {
	for _, tt := range []struct {
		denial Denial
		want   string
	}{
		{Denial{}, ""},
		{Denial{ID: "a"}, "rule a"},
		{Denial{Reason: "No."}, "No."},
		{Denial{Contact: "me"}, "contact me"},
		{Denial{ID: "a", Contact: "me"}, "rule a, contact me"},
		{Denial{ID: "a", Reason: "No.", Contact: "me"}, "No. (rule a, contact me)"},
	} {
		if got := tt.denial.Note(); got != tt.want {
			t.Errorf("%+v.Note() = %q, want %q", tt.denial, got, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, e := range mustReadDir(f, "testdata/policies") {
		if strings.HasSuffix(e, ".cedar") {
			src, err := os.ReadFile("testdata/policies/" + e)
			require.OK(f, err)
			f.Add(src)
		}
	}
	f.Add([]byte(`@id("a") @reason("b") forbid(principal in Agent::"x", action, resource in [Tool::"a:b"]) when { principal.a.b.c[0] == ip("::1") } unless { if resource.tier like "*" then true else false };`))
	f.Add([]byte("forbid(principal, action, resource) when { \"\\u{41}\" == 'x' /* ; */ }; ;;; // x"))
	cfg := servers(f, "", "files", "infra", "payroll", "web")
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := Parse(src)
		if err != nil {
			if faults, ok := errors.AsType[config.Faults](err); !ok || len(faults) == 0 || p != nil {
				t.Fatalf("Parse = %v, %#v: want faults and no policy", p, err)
			}
			return
		}
		for _, agent := range agents() {
			first, second := p.Verdicts(cfg, agent, catalog()), p.Verdicts(cfg, agent, catalog())
			if diff := cmp.Diff(first, second); diff != "" {
				t.Fatalf("two verdicts differ:\n%s", diff)
			}
		}
		p.Matches(cfg, catalog())
	})
}

func mustReadDir(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.OK(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
