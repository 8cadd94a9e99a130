package infra

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// unfit returns the parameters whose value breaks a pattern, a list or a limit of the template.
func (d deployment) unfit() (names []string) {
	d.t.Helper()
	for name, p := range d.Parameters {
		values := []string{d.values[name]}
		if p.Type == "CommaDelimitedList" {
			values = strings.Split(d.values[name], ",")
		}
		for _, v := range values {
			n, err := strconv.ParseFloat(v, 64)
			if p.AllowedPattern != "" && !regexp.MustCompile("^(?:"+p.AllowedPattern+")$").MatchString(v) ||
				p.AllowedValues != nil && !slices.ContainsFunc(p.AllowedValues, func(a any) bool { return fmt.Sprint(a) == v }) ||
				p.MinValue != nil && (err != nil || n < *p.MinValue) || p.MaxValue != nil && (err != nil || n > *p.MaxValue) {
				names = append(names, name)
			}
		}
	}
	return names
}

// A refusal is one reason for which a function does not start. text is the beginning of the error
// in the source. values are parameters that cause the error. If values is nil, reason says why no
// parameters can cause it.
type refusal struct {
	text   string
	values map[string]string
	reason string
}

const (
	made    = "the stack sets the variable from its own resources"
	program = "only for a local gateway: the template does not set the variable"
	twice   = "rules and patterns cannot compare two lists"
)

func refusals() []refusal {
	jwt := func(pairs ...string) map[string]string {
		out := map[string]string{"AuthMode": "jwt", "Issuer": "https://id.example.com"}
		for i := 0; i+1 < len(pairs); i += 2 {
			out[pairs[i]] = pairs[i+1]
		}
		return out
	}
	return []refusal{
		{"PORTCULLIS_AUTH is not set", map[string]string{}, ""},
		{"PORTCULLIS_AUTH names none together with other ways",
			map[string]string{"AuthMode": "none,token"}, ""},
		{"PORTCULLIS_AUTH: %q is not known", map[string]string{"AuthMode": "basic"}, ""},
		{"%s is set, but PORTCULLIS_AUTH does not name %s", map[string]string{"AuthMode": "none", "IamServers": "*"}, ""},
		{"%s: want the SHA-256 of a token", map[string]string{"AuthMode": "token", "BootstrapSha256": "hunter2"}, ""},
		{"PORTCULLIS_ISSUER, _AUDIENCE, _ALGORITHMS, _JWKS_URL", jwt("Issuer", "http://id.example.com"), ""},
		{"PORTCULLIS_ISSUER, _AUDIENCE, _ALGORITHMS, _JWKS_URL", jwt("KeysUrl", "id.example.com/keys"), ""},
		{"PORTCULLIS_ISSUER, _AUDIENCE, _ALGORITHMS, _JWKS_URL", jwt("Algorithms", "HS256"), ""},
		{"PORTCULLIS_BASE_URL is not set: clients find", nil, made},
		{"%s %q: want issuer, or nothing", nil, made},
		{"PORTCULLIS_BASE_URL is not set: a REST API", nil, made},
		{"%s: %w", map[string]string{"AuthMode": "iam", "IamTiers": "admin"}, ""},
		{"%s: %w", jwt("SignInScopes", "read,admin"), ""},
		{"%s %q: want a group, = and read, write or destructive", jwt("Tiers", "devs=write,ops"), ""},
		{"%s is set, but %s names no group", jwt("TiersClaim", "roles"), ""},
		{"%s is set, but %s is not: set the client id", map[string]string{"AuthMode": "token", "AdminClientSecret": "ssm:/portcullis/console"}, ""},
		{"%s is set, but PORTCULLIS_AUTH does not name jwt, and people", map[string]string{"AuthMode": "token", "KeysUrl": "https://id.example.com/keys"}, ""},
		{"%s is set, but PORTCULLIS_ISSUER is not", map[string]string{"AuthMode": "token", "AdminClientId": "console", "Operators": "ops"}, ""},
		{"PORTCULLIS_ISSUER, _ALGORITHMS, _JWKS_URL: %w", map[string]string{"AuthMode": "token", "AdminClientId": "console", "Operators": "ops", "Issuer": "id"}, ""},
		{"%s is set, but PORTCULLIS_BASE_URL is not", nil, made},
		{"%s is set, and browsers reach /admin at %s, which is not https", map[string]string{"AuthMode": "token", "AdminClientId": "console", "Operators": "ops", "Issuer": "https://id.example.com", "AdminUrl": "http://desk.example.com"}, ""},
		{"%s is set, and no group may do anything", map[string]string{"AuthMode": "token", "AdminClientId": "console", "Issuer": "https://id.example.com"}, ""},
		{"%s is set, but PORTCULLIS_AUTH names only iam", map[string]string{"AuthMode": "iam", "AdminClientId": "console", "Operators": "ops", "Issuer": "https://id.example.com"}, ""},
		{"%s names the group %q twice", nil, twice},
		{"%s names the group %q, and %s does too", nil, twice},
		{"%s %q: want a group (db-team), or a group", jwt("Approvers", "=git"), ""},
		{"%s %q names no server after the =", jwt("Approvers", "gate,db="), ""},
		{"%s: want %d random bytes or more", nil, made},
		{"PORTCULLIS_STREAMING %q", map[string]string{"AuthMode": "token", "Streaming": "sse"}, ""},
		{"PORTCULLIS_ALLOW_NETS: %w", map[string]string{"AuthMode": "token", "AllowedNetworks": "intranet"}, ""},
		{"PORTCULLIS_LOG_LEVEL %q", map[string]string{"AuthMode": "token", "LogLevel": "LOUD"}, ""},
		{"%s %q: want only a scheme and a host", map[string]string{"AuthMode": "token", "BaseUrl": "https://gate.example.com/mcp"}, ""},
		{"%s %q: want a scheme and a host", nil, program},
		{"%s %q: +", map[string]string{"AuthMode": "token", "TrustedProxies": "300"}, ""},
		{"%s %q: +", map[string]string{"AuthMode": "token", "AuditDays": "36501"}, ""},
		{"%s: want the address of an OTLP receiver", map[string]string{"AuthMode": "token", "TraceEndpoint": "collector"}, ""},
		{"%s %q: spans are sent only as %s", nil, program},
		{"%s %q: want true or false", nil, program},
		{"%s %q: want HOST:PORT", nil, program},
		{"%s has %d characters, want at least", nil, program},
		{"%s is set, but %s is not: set the address of /metrics", nil, program},
		{"PORTCULLIS_DRAIN %q: want a duration", nil, program},
		{"PORTCULLIS_LOG_FORMAT %q: want text or json", nil, program},
		{"%s: %w", map[string]string{"AuthMode": "token", "TraceEndpoint": "https://collector.example.com", "TraceHeaders": "authorization"}, ""},
		{"PORTCULLIS_BUCKET is not set", nil, made},
		{"PORTCULLIS_TABLE is not set", nil, made},
		{"PORTCULLIS_ADMIN_CLIENT_ID is set, but PORTCULLIS_SEAL_KEY is not", nil, made},
		{"PORTCULLIS_SYNC_FUNCTION is not set", nil, made},
		{"PORTCULLIS_SYNC_ROLE %q: want plan", nil, made},
		{"%s is not set: the URL of the SQS queue", nil, made},
		{"%s %q: want the URL of an SQS queue", nil, made},
		{"PORTCULLIS_NEW_VERSION is not set", nil, made},
	}
}

// TestStarts compares the checks at the functions' start with the template. If parameters can cause
// a fault, a rule or a pattern must refuse them. For every other fault, refusals has the reason.
func TestStarts(t *testing.T) {
	x := expand(t)
	sites := faults(t)
	for _, r := range refusals() {
		known := false
		for _, site := range sites {
			known = known || strings.HasPrefix(site, r.text)
		}
		if !known {
			t.Errorf("no function has the error %q: remove the row", r.text)
		}
		if r.values == nil {
			continue
		}
		d := x.deployed(t, r.values)
		if said := d.refusals(); said == nil && d.unfit() == nil {
			t.Errorf("%q: the template accepts %v", r.text, r.values)
		}
		pattern := regexp.MustCompile(regexp.MustCompile(`%\w`).ReplaceAllString(regexp.QuoteMeta(strings.TrimSuffix(r.text, "+")), ".+"))
		var said []string
		for _, function := range d.functions() {
			env := d.environment(function)
			if _, err := boot.Load(func(name string) string { return env[name] }); err != nil {
				said = append(said, err.Error())
			}
		}
		if !pattern.MatchString(strings.Join(said, "\n")) {
			t.Errorf("%q: with %v the functions return %q", r.text, r.values, said)
		}
	}
	for _, site := range sites {
		if !slices.ContainsFunc(refusals(), func(r refusal) bool { return strings.HasPrefix(site, r.text) }) {
			t.Errorf("a function can refuse to start with %q: give the template a rule or a pattern, and refusals a row", site)
		}
	}
	if d := x.deployed(t, map[string]string{"AuthMode": "token"}); d.unfit() != nil || d.refusals() != nil {
		t.Errorf("the template refuses the defaults with AuthMode=token: %v, %v", d.unfit(), d.refusals())
	}
	for _, c := range combinations() {
		if d := x.deployed(t, c.values); d.unfit() != nil {
			t.Errorf("%s: the template does not accept %v", c.name, d.unfit())
		}
	}
}

// faults returns the errors with which functions refuse to start, as in the source. A text that is
// the first part of a concatenation ends in +.
func faults(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	for _, pattern := range []string{"internal/boot/*.go", "internal/boot/*/*.go", "functions/*/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.OK(t, err)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			src, err := os.ReadFile(path)
			require.OK(t, err)
			f, err := parser.ParseFile(token.NewFileSet(), path, src, 0)
			require.OK(t, err)
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				text := literal(call.Args[0])
				switch s, _ := call.Fun.(*ast.SelectorExpr); {
				case s == nil:
				case s.Sel.Name == "fault", s.Sel.Name == "New" && strings.HasPrefix(text, "PORTCULLIS_"):
					found[text] = true
				}
				return true
			})
		}
	}
	if len(found) < 25 {
		t.Fatalf("found %d texts: the search is broken", len(found))
	}
	return slices.Sorted(maps.Keys(found))
}

// literal returns the text of a string literal, or of the literal at the start of a concatenation.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return literal(e.X) + "+"
	}
	return ""
}
