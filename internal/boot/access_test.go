package boot

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const testKey = "a key that is for tests alone, of 32 bytes and more"

func TestLoadAccessFaults(t *testing.T) {
	base := []string{"PORTCULLIS_BASE_URL=https://gate.example.com"}
	people := slices.Clip(append(base, "PORTCULLIS_ISSUER=https://login.example.com", "PORTCULLIS_ADMIN_CLIENT_ID=gate", "PORTCULLIS_OPERATORS=gate"))
	jwt := slices.Concat(base, []string{"PORTCULLIS_AUTH=jwt", "PORTCULLIS_ISSUER=https://login.example.com", "PORTCULLIS_AUDIENCE=a"})
	for _, tt := range []struct {
		name string
		env  []string
		want []string // nil: no fault
	}{
		{"no setting", nil, []string{"PORTCULLIS_AUTH is not set"}},
		{"none, explicitly", []string{"PORTCULLIS_AUTH=none"}, nil},
		{"none together with others", []string{"PORTCULLIS_AUTH=none,iam"}, []string{"none together with other ways"}},
		{"an unknown way", []string{"PORTCULLIS_AUTH=iam, basic"}, []string{`"basic"`}},
		{"a way in capitals", []string{"PORTCULLIS_AUTH=NONE"}, []string{`"NONE"`}},
		{"jwt without anything", []string{"PORTCULLIS_AUTH=jwt"}, []string{"issuer", "audience", "PORTCULLIS_BASE_URL"}},
		{"jwt whole", append(base, "PORTCULLIS_AUTH=jwt", "PORTCULLIS_ISSUER=https://login.example.com", "PORTCULLIS_AUDIENCE=a"), nil},
		{"jwt with a shared secret", append(base, "PORTCULLIS_AUTH=jwt", "PORTCULLIS_ISSUER=https://login.example.com", "PORTCULLIS_AUDIENCE=a", "PORTCULLIS_ALGORITHMS=RS256,HS256"), []string{"HS256"}},
		{"an issuer without a use", []string{"PORTCULLIS_AUTH=none", "PORTCULLIS_ISSUER=https://login.example.com"}, []string{"PORTCULLIS_ISSUER is set, but PORTCULLIS_AUTH does not name jwt"}},
		{"people who sign in", append(people, "PORTCULLIS_AUTH=jwt", "PORTCULLIS_AUDIENCE=a"), nil},
		{"an issuer only for people, agents use tokens", append(people, "PORTCULLIS_AUTH=token", "PORTCULLIS_TOKEN_KEY="+testKey, "PORTCULLIS_ADMIN_CLIENT_SECRET=${ssm:/x}"), nil},
		{"an issuer only for people, auth none", append(people, "PORTCULLIS_AUTH=none"), nil},
		{"people on a laptop", append(people, "PORTCULLIS_AUTH=none", "PORTCULLIS_BASE_URL=http://127.0.0.1:8080"), nil},
		{"people without an issuer", append(people, "PORTCULLIS_AUTH=none", "PORTCULLIS_ISSUER="), []string{"PORTCULLIS_ADMIN_CLIENT_ID is set, but PORTCULLIS_ISSUER is not"}},
		{"people with a bad issuer", append(people, "PORTCULLIS_AUTH=none", "PORTCULLIS_ISSUER=http://login.example.com"), []string{"PORTCULLIS_ISSUER", "not https"}},
		{"people without an address", append(people, "PORTCULLIS_AUTH=none", "PORTCULLIS_BASE_URL="), []string{"PORTCULLIS_ADMIN_CLIENT_ID is set, but PORTCULLIS_BASE_URL is not"}},
		{"people over plain http", append(people, "PORTCULLIS_AUTH=none", "PORTCULLIS_BASE_URL=http://gate.example.com"), []string{"http://gate.example.com, which is not https"}},
		{"people without a role", append(people, "PORTCULLIS_AUTH=none", "PORTCULLIS_OPERATORS="), []string{"no group may do anything: name one in PORTCULLIS_OPERATORS"}},
		{"people sign in, but all requests must be signed", append(people, "PORTCULLIS_AUTH=iam"), []string{"browsers do not sign"}},
		{"people sign in, agents sign requests or use tokens", append(people, "PORTCULLIS_AUTH=iam,token", "PORTCULLIS_TOKEN_KEY="+testKey), nil},
		{"roles without people who sign in", append(base, "PORTCULLIS_AUTH=none", "PORTCULLIS_VIEWERS=staff"), []string{"PORTCULLIS_VIEWERS is set, but PORTCULLIS_AUTH does not name jwt", "PORTCULLIS_ADMIN_CLIENT_ID"}},
		{"a client secret without a client id", append(base, "PORTCULLIS_AUTH=none", "PORTCULLIS_ADMIN_CLIENT_SECRET=pct_abc"), []string{"PORTCULLIS_ADMIN_CLIENT_SECRET is set, but PORTCULLIS_ADMIN_CLIENT_ID is not"}},
		{"a group twice", append(people, "PORTCULLIS_AUTH=none", "PORTCULLIS_APPROVERS=db=a,db=b"), []string{`PORTCULLIS_APPROVERS names the group "db" twice`}},
		{"a group with two roles", append(people, "PORTCULLIS_AUTH=none", "PORTCULLIS_VIEWERS=gate"), []string{`PORTCULLIS_OPERATORS names the group "gate", and PORTCULLIS_VIEWERS does too`}},
		{"an approver without servers", append(people, "PORTCULLIS_AUTH=none", "PORTCULLIS_APPROVERS=db= | "), []string{`names no server after the =`}},
		{"an approver without a group", append(people, "PORTCULLIS_AUTH=none", "PORTCULLIS_APPROVERS==postgres"), []string{`PORTCULLIS_APPROVERS "=postgres": want a group`}},
		{"token without a key", []string{"PORTCULLIS_AUTH=token"}, []string{"PORTCULLIS_TOKEN_KEY"}},
		{"token with a short key", []string{"PORTCULLIS_AUTH=token", "PORTCULLIS_TOKEN_KEY=short"}, []string{"PORTCULLIS_TOKEN_KEY"}},
		{"token with a key in SSM", []string{"PORTCULLIS_AUTH=token", "PORTCULLIS_TOKEN_KEY=${ssm:/k}"}, nil},
		{"the bootstrap token itself", []string{"PORTCULLIS_AUTH=token", "PORTCULLIS_TOKEN_KEY=" + testKey, "PORTCULLIS_BOOTSTRAP_SHA256=pct_abc"}, []string{"never the token"}},
		{"none with a bootstrap token", []string{"PORTCULLIS_AUTH=none", "PORTCULLIS_BOOTSTRAP_SHA256=" + strings.Repeat("aB", 32)}, nil},
		{"none with the bootstrap token itself", []string{"PORTCULLIS_AUTH=none", "PORTCULLIS_BOOTSTRAP_SHA256=pct_abc"}, []string{"never the token"}},
		{"a bootstrap token without a use", []string{"PORTCULLIS_AUTH=iam", "PORTCULLIS_BOOTSTRAP_SHA256=" + strings.Repeat("a", 64)}, []string{"PORTCULLIS_BOOTSTRAP_SHA256 is set, but PORTCULLIS_AUTH does not name token"}},
		{"token with a key in Secrets Manager, without ${}", []string{"PORTCULLIS_AUTH=token", "PORTCULLIS_TOKEN_KEY=secretsmanager:arn:aws:secretsmanager:k"}, nil},
		{"trusted proxies", []string{"PORTCULLIS_AUTH=token", "PORTCULLIS_TOKEN_KEY=" + testKey, "PORTCULLIS_TRUSTED_PROXIES=2"}, nil},
		{"proxies as an address", []string{"PORTCULLIS_AUTH=token", "PORTCULLIS_TOKEN_KEY=" + testKey, "PORTCULLIS_TRUSTED_PROXIES=10.0.0.1"}, []string{"PORTCULLIS_TRUSTED_PROXIES", "number of proxies"}},
		{"an audience that is not an endpoint of the gateway", append(base, "PORTCULLIS_AUTH=jwt", "PORTCULLIS_ISSUER=https://login.example.com", "PORTCULLIS_AUDIENCE=https://gate.example.com/api"), []string{"https://gate.example.com/api"}},
		{"iam with a bad tier", []string{"PORTCULLIS_AUTH=iam", "PORTCULLIS_IAM_TIERS=root"}, []string{"PORTCULLIS_IAM_TIERS"}},
		{"sign-in scopes that are not tiers", slices.Concat(jwt, []string{"PORTCULLIS_SIGN_IN_SCOPES=read,admin"}), []string{`PORTCULLIS_SIGN_IN_SCOPES: tier "admin" is not read, write or destructive`}},
		{"sign-in scopes without an issuer", []string{"PORTCULLIS_AUTH=iam", "PORTCULLIS_SIGN_IN_SCOPES=read"}, []string{"PORTCULLIS_SIGN_IN_SCOPES is set, but PORTCULLIS_AUTH does not name jwt"}},
		{"a group with an unknown tier", slices.Concat(jwt, []string{"PORTCULLIS_TIERS=ops=destructive,devs=admin"}), []string{`PORTCULLIS_TIERS "devs=admin": want a group, = and read, write or destructive: devs=write`}},
		{"a tier without a group", slices.Concat(jwt, []string{"PORTCULLIS_TIERS= = write"}), []string{`PORTCULLIS_TIERS "= write": want a group`}},
		{"a group without a tier", slices.Concat(jwt, []string{"PORTCULLIS_TIERS=devs"}), []string{`PORTCULLIS_TIERS "devs": want a group`}},
		{"a claim for tiers without groups", slices.Concat(jwt, []string{"PORTCULLIS_TIERS_CLAIM=groups"}), []string{"PORTCULLIS_TIERS_CLAIM is set, but PORTCULLIS_TIERS names no group"}},
		{"groups with tiers", slices.Concat(jwt, []string{"PORTCULLIS_TIERS_CLAIM=groups", "PORTCULLIS_TIERS=devs=write, cn=ops=destructive"}), nil},
		{"an unknown kind of sign-in", []string{"PORTCULLIS_AUTH=none", "PORTCULLIS_SIGN_IN=yes"}, []string{"PORTCULLIS_SIGN_IN", `"yes"`}},
		{"everything at once", []string{"PORTCULLIS_AUTH=jwt,token,x", "PORTCULLIS_LOG_LEVEL=LOUD"}, []string{`"x"`, "issuer", "PORTCULLIS_TOKEN_KEY", "LOUD"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(environ(tt.env))
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("Load = %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Load = %v, want it to name %q", err, want)
				}
			}
			if strings.Contains(fmt.Sprint(err), "short") || strings.Contains(fmt.Sprint(err), "pct_abc") {
				t.Errorf("a secret is in the fault: %v", err)
			}
		})
	}
}

// By default, agents may request access if a person who may decide can sign in.
func TestWhereApproversSignIn(t *testing.T) {
	people := []string{"PORTCULLIS_BASE_URL=https://gate.example.com", "PORTCULLIS_ISSUER=https://login.example.com", "PORTCULLIS_ADMIN_CLIENT_ID=gate"}
	boot := "PORTCULLIS_BOOTSTRAP_SHA256=" + strings.Repeat("0", 64)
	for _, tt := range []struct {
		name string
		env  []string
		want bool
	}{
		{"agent tokens", []string{"PORTCULLIS_AUTH=token", "PORTCULLIS_TOKEN_KEY=" + testKey}, true},
		{"none", []string{"PORTCULLIS_AUTH=none"}, false},
		{"none, with a bootstrap token", []string{"PORTCULLIS_AUTH=none", boot}, true},
		{"iam", []string{"PORTCULLIS_AUTH=iam", "PORTCULLIS_IAM_ADMINS=*"}, false},
		{"jwt", append(people[:2:2], "PORTCULLIS_AUDIENCE=https://gate.example.com/mcp", "PORTCULLIS_AUTH=jwt", "PORTCULLIS_OPERATORS=ops"), false},
		{"an issuer with operators", append(people[:3:3], "PORTCULLIS_AUDIENCE=https://gate.example.com/mcp", "PORTCULLIS_AUTH=jwt", "PORTCULLIS_OPERATORS=ops"), true},
		{"an issuer with approvers", append(people[:3:3], "PORTCULLIS_AUTH=none", "PORTCULLIS_APPROVERS=db=postgres"), true},
		{"an issuer with viewers only", append(people[:3:3], "PORTCULLIS_AUTH=none", "PORTCULLIS_VIEWERS=staff"), false},
		{"sign-in at another function", []string{"PORTCULLIS_AUTH=iam", "PORTCULLIS_SIGN_IN=issuer"}, true},
	} {
		s, err := Load(environ(tt.env))
		if got := s.Access.HasApprovers(); err != nil || got != tt.want {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
}

func TestTokenKeyDoesNotPrint(t *testing.T) {
	s, err := Load(environ([]string{"PORTCULLIS_AUTH=token", "PORTCULLIS_TOKEN_KEY=" + testKey}))
	require.OK(t, err)
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).InfoContext(t.Context(), "settings", slog.Any("settings", s))
	if out := fmt.Sprintf("%v %+v %#v", s, s, s) + log.String(); strings.Contains(out, "tests alone") {
		t.Errorf("the token key is in the output: %s", out)
	}
}

func TestLoadAccessIAMTiers(t *testing.T) {
	for env, want := range map[string][]tool.Tier{
		"PORTCULLIS_IAM_TIERS=":           {tool.Read},
		"PORTCULLIS_IAM_TIERS=read,write": {tool.Read, tool.Write},
	} {
		s, err := Load(environ([]string{"PORTCULLIS_AUTH=iam", env}))
		require.OK(t, err)
		if d := cmp.Diff(want, s.Access.IAMTiers); d != "" || s.Access.IAMServers != nil {
			t.Errorf("%s: servers %v, tiers (-want +got):\n%s", env, s.Access.IAMServers, d)
		}
	}
}

// The first challenge and the metadata name the same scopes. A refused call names a scope only if
// the issuer has scopes of the gateway.
func TestSignInScopes(t *testing.T) {
	for setting, want := range map[string]struct {
		first  []string
		beyond string
	}{
		"":           {[]string{"read", "write", "destructive"}, "api/gate:destructive"},
		"read,write": {[]string{"read", "write"}, "api/gate:destructive"},
		"none":       {nil, ""},
	} {
		s, err := Load(environ([]string{
			"PORTCULLIS_AUTH=jwt", "PORTCULLIS_BASE_URL=https://gate.example.com", "PORTCULLIS_ISSUER=https://login.example.com", "PORTCULLIS_AUDIENCE=a",
			"PORTCULLIS_SCOPE_PREFIX=gate:", "PORTCULLIS_SCOPE_REQUEST_PREFIX=api/", "PORTCULLIS_SIGN_IN_SCOPES=" + setting,
		}))
		require.OK(t, err)
		auth, err := (&Program{Settings: s, now: time.Now}).Authenticator(t.Context())
		require.OK(t, err)
		_, err = auth.Authenticate(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil))
		if refused, ok := errors.AsType[*identity.Error](err); !ok || !slices.Equal(refused.Scopes, want.first) {
			t.Errorf("%q: the first challenge is %+v, want scopes %q", setting, err, want.first)
		}
		var metadata []string
		for _, tier := range want.first {
			metadata = append(metadata, "api/gate:"+tier)
		}
		if got := s.resource().Scopes; !slices.Equal(got, metadata) {
			t.Errorf("%q: the metadata have the scopes %q, want %q", setting, got, metadata)
		}
		if got := s.Access.scope(tool.Destructive); got != want.beyond {
			t.Errorf("%q: a refused call names the scope %q, want %q", setting, got, want.beyond)
		}
	}
}

func TestLoadTiers(t *testing.T) {
	s, err := Load(environ([]string{
		"PORTCULLIS_AUTH=jwt", "PORTCULLIS_BASE_URL=https://gate.example.com", "PORTCULLIS_ISSUER=https://login.example.com", "PORTCULLIS_AUDIENCE=a",
		"PORTCULLIS_TIERS_CLAIM=roles", "PORTCULLIS_TIERS=devs=write, cn=ops = destructive",
	}))
	require.OK(t, err)
	want := []identity.TierGroup{{Group: "devs", Tier: tool.Write}, {Group: "cn=ops", Tier: tool.Destructive}}
	if d := cmp.Diff(want, s.Access.JWT.Claims.TierGroups); d != "" || s.Access.JWT.Claims.TierClaim != "roles" {
		t.Errorf("claim %q, groups (-want +got):\n%s", s.Access.JWT.Claims.TierClaim, d)
	}
}

func TestLoadRoles(t *testing.T) {
	s, err := Load(environ([]string{
		"PORTCULLIS_AUTH=none", "PORTCULLIS_BASE_URL=https://gate.example.com", "PORTCULLIS_ISSUER=https://login.example.com", "PORTCULLIS_ADMIN_CLIENT_ID=gate",
		"PORTCULLIS_VIEWERS=staff, sales", "PORTCULLIS_APPROVERS=gate-approvers, db-team = postgres | mysql", "PORTCULLIS_OPERATORS=ops", "PORTCULLIS_ADMIN_GROUP=gatekeepers",
		"PORTCULLIS_ADMIN_CLAIM=roles",
	}))
	require.OK(t, err)
	want := identity.Roles{
		Viewers: []string{"staff", "sales"}, Approvers: []identity.ApproverGroup{{Group: "gate-approvers"}, {Group: "db-team", Servers: []string{"postgres", "mysql"}}},
		Operators: []string{"ops", "gatekeepers"},
	}
	if d := cmp.Diff(want, s.Access.JWT.Claims.Roles); d != "" || s.Access.JWT.Claims.AdminClaim != "roles" {
		t.Errorf("roles (-want +got):\n%s", d)
	}
}

func environ(pairs []string) func(string) string {
	m := map[string]string{}
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		m[name] = value
	}
	return func(name string) string { return m[name] }
}

func TestLoadAddress(t *testing.T) {
	for name, tt := range map[string]struct{ setting, bucket, want string }{
		"on a server, with a path": {"PORTCULLIS_BASE_URL=https://example.com/gate/", "", ""},
		"of the endpoint": {
			"PORTCULLIS_BASE_URL=https://example.com/gate/mcp", "", "and not the endpoint",
		},
		"of a function, with a path": {
			"PORTCULLIS_ADMIN_URL=https://example.com/gate", "b", "want only a scheme and a host",
		},
	} {
		env := []string{"PORTCULLIS_AUTH=none", "PORTCULLIS_BUCKET=" + tt.bucket, tt.setting}
		_, err := Load(environ(env))
		if (tt.want == "") != (err == nil) || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("an address %s: %v, want %q", name, err, tt.want)
		}
	}
}
