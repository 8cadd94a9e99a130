package infra

import (
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A rule refuses values of parameters before CloudFormation creates any resource.
type rule struct {
	RuleCondition any
	Assertions    []struct {
		Assert            any
		AssertDescription string
	}
}

// refusals returns the messages of the rules that refuse the values, in the order of the rules'
// names.
func (d deployment) refusals() []string {
	d.t.Helper()
	var said []string
	for _, name := range slices.Sorted(maps.Keys(d.Rules)) {
		if r := d.Rules[name]; r.RuleCondition == nil || d.holds(r.RuleCondition) {
			for _, a := range r.Assertions {
				if !d.holds(a.Assert) {
					said = append(said, a.AssertDescription)
				}
			}
		}
	}
	return said
}

// environment returns the variables of a function.
func (d deployment) environment(function string) map[string]string {
	d.t.Helper()
	env := map[string]string{}
	for name, v := range d.Resources[function].Properties["Environment"].(map[string]any)["Variables"].(map[string]any) {
		env[name] = d.text(v)
	}
	return env
}

// functions returns the functions of the gateway that the deployment contains.
func (d deployment) functions() []string {
	d.t.Helper()
	return slices.DeleteFunc([]string{"McpFunction", "SyncFunction", "WorkFunction", "AssembleFunction", "AdminFunction"}, func(name string) bool { return !d.has(name) })
}

const (
	certificate = "arn:aws:acm:us-east-1:123456789012:certificate/6f1c0f3e-2d2b-4c58-9a52-0c1f4f7f2a11"
	key         = "arn:aws:kms:us-east-1:123456789012:key/0f1c0f3e-2d2b-4c58-9a52-0c1f4f7f2a11"
)

// A combination contains values of parameters, and the refusal of a rule.
type combination struct {
	name   string
	values map[string]string
	want   string // part of the refusal; "": the rules accept the values
}

func combinations() []combination {
	const issuer = "https://id.example.com"
	with := func(pairs ...string) map[string]string { // adds values to AuthMode=token
		values := map[string]string{"AuthMode": "token"}
		for pair := range slices.Chunk(pairs, 2) {
			values[pair[0]] = pair[1]
		}
		return values
	}
	return []combination{
		{"tokens", map[string]string{"AuthMode": "token"}, ""},
		{"signatures", map[string]string{"AuthMode": "iam", "IamAdmins": "*"}, ""},
		{"everybody", map[string]string{"AuthMode": "none"}, ""},
		{"an issuer for agents", map[string]string{"AuthMode": "jwt", "Issuer": issuer, "Operators": "admins"}, ""},
		{"roles for JWTs", map[string]string{"AuthMode": "jwt,token", "Issuer": issuer, "Viewers": "all", "Approvers": "gate,db=postgres|mysql", "Operators": "ops"}, ""},
		{"tiers of groups", map[string]string{"AuthMode": "jwt", "Issuer": issuer, "SignInScopes": "none", "TiersClaim": "roles", "Tiers": "devs=write, on call=destructive"}, ""},
		{"a claim without groups", map[string]string{"AuthMode": "jwt", "Issuer": issuer, "TiersClaim": "roles"}, "Tiers names none"},
		{"tiers without JWTs", map[string]string{"AuthMode": "token", "Tiers": "devs=write"}, "apply to an issuer's tokens"},
		{"an issuer for agents and people", map[string]string{"AuthMode": "jwt", "Issuer": issuer, "AdminClientId": "console", "AdminClientSecret": "secretsmanager:portcullis/console", "Operators": "ops"}, ""},
		{"an issuer only for people", map[string]string{"AuthMode": "token", "Issuer": issuer, "AdminClientId": "console", "Approvers": "gate", "AdminClaim": "roles"}, ""},
		{"an issuer for people, no authentication of agents", map[string]string{"AuthMode": "none", "Issuer": issuer, "AdminClientId": "console", "Operators": "ops"}, ""},
		{"a Function URL for JWTs", map[string]string{"AuthMode": "jwt", "Issuer": issuer, "Streaming": "url"}, ""},
		{"topics", map[string]string{"AuthMode": "token", "NotifyTopics": "arn:aws:sns:eu-central-1:123456789012:gate,arn:aws:sns:eu-central-1:123456789012:people"}, ""},
		{"people who may do nothing", map[string]string{"AuthMode": "token", "Issuer": issuer, "AdminClientId": "console"}, "would have no rights"},
		{"audit lines as files", map[string]string{"AuthMode": "token", "Audit": "true", "AuditLock": "COMPLIANCE:365"}, ""},
		{"audit lines as files, debug log", map[string]string{"AuthMode": "token", "Audit": "true", "LogLevel": "DEBUG"}, ""},
		{"audit lines above the log level", map[string]string{"AuthMode": "token", "Audit": "true", "LogLevel": "WARN"}, "log lines at INFO"},
		{"audit lines, only errors logged", map[string]string{"AuthMode": "token", "Audit": "true", "LogLevel": "ERROR"}, "log lines at INFO"},
		{"a lock without audit files", map[string]string{"AuthMode": "token", "AuditLock": "GOVERNANCE:90"}, "Set Audit to true"},
		{"alarms by mail", map[string]string{"AuthMode": "token", "AlarmEmail": "ops@example.com"}, ""},
		{"alarms by mail and to a topic", map[string]string{"AuthMode": "token", "AlarmEmail": "ops@example.com", "AlarmTopicArn": "arn:aws:sns:eu-central-1:123456789012:ops"}, "AlarmEmail creates a topic"},
		{"alarms to the address of the sample", map[string]string{"AuthMode": "token", "AlarmEmail": "set-me@example.com"}, "Set AlarmEmail to an address, or put AlarmTopicArn"},
		{"the defaults", nil, "AuthMode is empty. Set it"},
		{"claims without JWTs", map[string]string{"AuthMode": "token", "DefaultServers": "*"}, "apply to an issuer's tokens"},
		{"an audience with signed requests", map[string]string{"AuthMode": "iam", "Audience": "api://gate"}, "apply to an issuer's tokens"},
		{"a bootstrap token with only JWTs", map[string]string{"AuthMode": "jwt", "Issuer": issuer, "BootstrapSha256": strings.Repeat("a", 64)}, "a token that opens /admin"},
		{"proxies without agent tokens", map[string]string{"AuthMode": "none", "TrustedProxies": "2"}, "failed agent tokens"},
		{"signers without signed requests", map[string]string{"AuthMode": "token", "IamAdmins": "*"}, "signed requests"},
		{"algorithms without an issuer", map[string]string{"AuthMode": "token", "Algorithms": "RS256"}, "apply to an issuer"},
		{"a claim without an issuer", map[string]string{"AuthMode": "none", "AdminClaim": "roles"}, "apply to an issuer"},
		{"jwt without issuer", map[string]string{"AuthMode": "jwt"}, "AuthMode names jwt"},
		{"an issuer without a use", map[string]string{"AuthMode": "token", "Issuer": issuer}, "Nobody uses Issuer"},
		{"a client without an issuer", map[string]string{"AuthMode": "token", "AdminClientId": "console", "Viewers": "all"}, "a client of an issuer"},
		{"browsers with signed requests", map[string]string{"AuthMode": "iam", "Issuer": issuer, "AdminClientId": "console", "Viewers": "all"}, "no browser sends"},
		{"a client secret without a client", map[string]string{"AuthMode": "jwt", "Issuer": issuer, "AdminClientSecret": "ssm:/portcullis/console"}, "the secret of a client"},
		{"a domain", with("DomainName", "gate.example.com", "CertificateArn", certificate, "HostedZoneId", "Z1D633PJN98FT9", "OwnAddress", "open"), ""},
		{"a REST API", with("FrontDoor", "rest", "DomainName", "gate.example.com", "CertificateArn", certificate), ""},
		{"a REST API for JWTs", map[string]string{"AuthMode": "jwt", "Issuer": issuer, "FrontDoor": "rest", "DomainName": "gate.example.com", "CertificateArn": certificate}, ""},
		{"a REST API with reserved environments", with("FrontDoor", "rest", "DomainName", "gate.example.com", "CertificateArn", certificate, "McpConcurrency", "20"), ""},
		{"reserved environments", with("McpConcurrency", "20", "ProvisionedConcurrency", "5"), ""},
		{"a key and a network", with("KmsKeyArn", key, "VpcSubnetIds", "subnet-0a,subnet-0b", "VpcSecurityGroupIds", "sg-0a", "AllowedNetworks", "10.0.0.0/8"), ""},
		{"a REST API without a domain", with("FrontDoor", "rest"), "Set DomainName"},
		{"a REST API and a Function URL", with("FrontDoor", "rest", "Streaming", "url", "DomainName", "gate.example.com", "CertificateArn", certificate), "FrontDoor=rest already streams"},
		{"a domain without a certificate", with("DomainName", "gate.example.com"), "needs a certificate"},
		{"a domain with a Function URL", with("DomainName", "gate.example.com", "CertificateArn", certificate, "Streaming", "url"), "cannot have its own domain"},
		{"a certificate without a domain", with("CertificateArn", certificate), "Name the domain in DomainName"},
		{"a zone without a domain", with("HostedZoneId", "Z1D633PJN98FT9"), "Name the domain in DomainName"},
		{"a REST API at its own address", with("FrontDoor", "rest", "DomainName", "gate.example.com", "CertificateArn", certificate, "OwnAddress", "open"), "Leave OwnAddress closed"},
		{"environments for streams", with("Streaming", "url", "McpConcurrency", "20"), ""},
		{"environments that cannot be reserved", with("ReserveConcurrency", "false", "McpConcurrency", "20"), "none to reserve"},
		{"subnets without groups", with("VpcSubnetIds", "subnet-0a"), "need both"},
		{"groups without subnets", with("VpcSecurityGroupIds", "sg-0a"), "need both"},
		{"a distributed sync", with("SyncMode", "fanout", "WorkConcurrency", "50", "WorkMemorySize", "1024"), ""},
		{"a distributed sync with a key, a network, files and roles", with("SyncMode", "fanout", "KmsKeyArn", key, "VpcSubnetIds", "subnet-0a", "VpcSecurityGroupIds", "sg-0a", "Audit", "true", "TraceEndpoint", "https://collector.example.com", "TraceHeaders", "ssm:/portcullis/traces"), ""},
		{"workers of a single sync", with("WorkConcurrency", "50"), "SyncMode=single has none"},
		{"workers without reserved environments", with("SyncMode", "fanout", "ReserveConcurrency", "false"), "none to reserve"},
		{"a schedule for a distributed sync", with("SyncMode", "fanout", "SyncSchedule", "rate(1 hour)"), "Leave SyncSchedule at"},
		{"roles without an issuer", map[string]string{"AuthMode": "token", "Operators": "ops"}, "groups of an issuer"},
	}
}

// TestRules compares the rules with the functions. If no rule refuses the values, every function
// must accept them. If a rule refuses the values, its message must be the expected message.
func TestRules(t *testing.T) {
	x := expand(t)
	for _, c := range combinations() {
		t.Run(c.name, func(t *testing.T) {
			d := x.deployed(t, c.values)
			said := strings.Join(d.refusals(), "\n")
			if c.want == "" && said != "" || !strings.Contains(said, c.want) || strings.Contains(said, "\n") {
				t.Errorf("refused with %q, want %q", said, c.want)
			}
			for _, function := range d.functions() {
				env := d.environment(function)
				settings, err := boot.Load(func(name string) string { return env[name] })
				if err != nil && c.want == "" {
					t.Errorf("%s does not start: %v", function, err)
				}
				if starts := function == "McpFunction" || function == "AdminFunction"; (settings.SyncFunction == "SyncFunction:live") != starts {
					t.Errorf("%s has the sync function %q", function, settings.SyncFunction)
				}
				if reads := function == "AdminFunction"; (settings.UsageLogs != "") != reads || (settings.AuditStore != "") != (reads && c.values["Audit"] == "true") {
					t.Errorf("%s reads usage from %q and audit lines from %q", function, settings.UsageLogs, settings.AuditStore)
				}
			}
		})
	}
}

// TestRulesOfCloudFormation makes the emulator evaluate the rules, with a single resource in the
// template.
func TestRulesOfCloudFormation(t *testing.T) {
	endpoint, x := emulator.Start(t), expand(t)
	parameters := map[string]any{}
	for name, p := range x.Parameters {
		parameters[name] = map[string]any{"Type": "String", "Default": fmt.Sprint(p.Default)}
	}
	body, err := json.Marshal(map[string]any{
		"Parameters": parameters, "Rules": x.Rules, "Resources": map[string]any{"Queue": map[string]any{"Type": "AWS::SQS::Queue"}},
	})
	require.OK(t, err)
	for i, c := range combinations() {
		err := emulator.Create(t, endpoint, fmt.Sprintf("rules-%d", i), string(body), c.values)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(html.UnescapeString(err.Error()), c.want)) {
			t.Errorf("%s: refused with %v, want %q", c.name, err, c.want)
		}
	}
}

// AdminClientSecret accepts only a reference to a secret, never a secret. The function can resolve
// each reference that the pattern accepts.
func TestClientSecretIsAReference(t *testing.T) {
	pattern := regexp.MustCompile(expand(t).Parameters["AdminClientSecret"].AllowedPattern)
	for text, want := range map[string]bool{
		"": true, "ssm:/portcullis/console": true, "secretsmanager:portcullis/console": true, "secretsmanager:portcullis/prod/console": true,
		"hunter2": false, "GOCSPX-abc_DEF": false, "ssm:portcullis/console": false, "secretsmanager:console": false, "env:SECRET": false,
		"secretsmanager:portcullis/*": false, "ssm:/portcullis/con?ole": false, "secretsmanager:arn:aws:secretsmanager:eu-central-1:1:secret:x": false,
	} {
		if got := pattern.MatchString(text); got != want {
			t.Errorf("the pattern accepts %q: %v", text, got)
		}
		if ref, ok := secret.Reference(text); want && text != "" && (!ok || secret.Check(ref) != nil) {
			t.Errorf("the pattern accepts %q, which is not a reference", text)
		}
	}
}

// NotifyTopics accepts only full ARNs. With a wildcard, the sync function could publish to topics
// of others.
func TestTopicsAreNamed(t *testing.T) {
	pattern := regexp.MustCompile(expand(t).Parameters["NotifyTopics"].AllowedPattern)
	for arn, want := range map[string]bool{
		"": true, "arn:aws:sns:eu-central-1:123456789012:gate": true, "arn:aws-us-gov:sns:us-gov-west-1:123456789012:gate_people-1": true,
		"*": false, "gate": false, "arn:aws:sns:eu-central-1:123456789012:*": false, "arn:aws:sns:*:123456789012:gate": false,
		"arn:aws:sns:eu-central-1:123456789012:gate:9d0e3c62-6a2e-4b1c-9b0e-0d5f6a0f3f11": false, "arn:aws:sns:eu-central-1:123456789012:gate.fifo": false,
		"arn:aws:sqs:eu-central-1:123456789012:gate": false,
	} {
		if got := pattern.MatchString(arn); got != want {
			t.Errorf("the pattern accepts %q: %v", arn, got)
		}
	}
}

// Only the admin function has the settings for the sign-in of people.
func TestSettingsOfPeople(t *testing.T) {
	d := expand(t).deployed(t, map[string]string{"AuthMode": "token", "Issuer": "https://id.example.com", "AdminClientId": "console", "Operators": "ops"})
	if got := d.environment("AdminFunction")["PORTCULLIS_AUDIT_STORE"]; got != "" {
		t.Errorf("the admin function has the audit store %q without Audit=true", got)
	}
	if got := d.environment("McpFunction")["PORTCULLIS_SIGN_IN"]; got != "issuer" {
		t.Errorf("with approvers the mcp function has %q", got)
	}
	viewers := expand(t).deployed(t, map[string]string{"AuthMode": "token", "Issuer": "https://id.example.com", "AdminClientId": "console", "Viewers": "staff"})
	if got := viewers.environment("McpFunction")["PORTCULLIS_SIGN_IN"]; got != "" {
		t.Errorf("with only viewers the mcp function has %q", got)
	}
	d = expand(t).deployed(t, map[string]string{"AuthMode": "token", "Issuer": "https://id.example.com", "AdminClientId": "console", "Operators": "ops", "Audit": "true"})
	names := []string{"AUDIT_STORE", "ISSUER", "ADMIN_CLIENT_ID", "ADMIN_CLIENT_SECRET", "VIEWERS", "APPROVERS", "OPERATORS", "USAGE_LOGS"}
	for _, name := range names {
		if _, ok := d.environment("AdminFunction")["PORTCULLIS_"+name]; !ok {
			t.Errorf("the admin function does not have %s", name)
		}
		for _, other := range []string{"McpFunction", "SyncFunction"} {
			if v := d.environment(other)["PORTCULLIS_"+name]; v != "" {
				t.Errorf("%s has %s = %q", other, name, v)
			}
		}
	}
}
