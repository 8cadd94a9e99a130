// Package roletest checks requests against the roles that template.yaml gives to the functions.
// Emulators allow every request. With this package, tests find requests that AWS would refuse, and
// rights that a role should not have.
//
//	roles := roletest.Load(t)
//	roles["sync"].Allows(roletest.Request{Action: "dynamodb:PutItem", Resource: roletest.Table, LeadingKeys: []string{"TOKENS"}})
package roletest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// Resources of the stack, with the names of the template.
const (
	Table  = "Data.Outputs.TableArn"
	Bucket = "Data.Outputs.BucketArn"
	Syncer = "${SyncFunction.Arn}:live"
	Topics = "NotifyTopics" // the parameter with the ARNs of the topics

	VaultKey = "VaultKey" // of KMS

	WorkQueue     = "FanOut.Outputs.WorkArn"
	AssembleQueue = "FanOut.Outputs.AssembleArn"
)

// Place returns the encryption context of a document of the vault.
func Place(part string) string {
	return "portcullis vault 1/${Data.Outputs.TableName}/" + part + "/0a1b"
}

// Index returns the named index of the table.
func Index(name string) string { return "${" + Table + "}/index/" + name }

// Object returns the object of the bucket with this key.
func Object(key string) string { return "${" + Bucket + "}/" + key }

// Parameter returns the ARN of the SSM parameter with this name below the prefix of secrets.
func Parameter(name string) string {
	return partition + "ssm" + account + "parameter/${SecretPrefix}/" + name
}

// Secret returns the ARN of the Secrets Manager secret with this name below the prefix of secrets.
func Secret(name string) string {
	return partition + "secretsmanager" + account + "secret:${SecretPrefix}/" + name + "-AbCdEf"
}

// Parts of ARNs in the form of the template.
const partition, account = "arn:${AWS::Partition}:", ":${AWS::Region}:${AWS::AccountId}:"

// ClientSecret is the parameter that AdminClientSecret names.
const ClientSecret = partition + "ssm" + account + "parameter${Name}"

// A Request contains the parts of one AWS call that IAM checks.
type Request struct {
	Action      string   // such as dynamodb:GetItem
	Resource    string   // [Table], [Index], [Bucket], [Object], [Parameter], [Secret], [Syncer], [Topics], [WorkQueue], [AssembleQueue], [VaultKey]
	LeadingKeys []string // partition keys of the items, of DynamoDB
	Attributes  []string // names of the attributes that the call writes or reads, of DynamoDB
	Place       string   // encryption context place of a call of KMS; "": none
	Via         string   // service that calls KMS for the caller; "": the caller itself
	ByLambda    bool     // Lambda itself makes the call, before the function's code runs
	Owner       string   // account of the resource; "": the account of the stack
	Stack       string   // tag aws:cloudformation:stack-name of the resource; "": none
}

// String implements fmt.Stringer.
func (q Request) String() string {
	return fmt.Sprintf("%s on %s, keys %q, attributes %q", q.Action, q.Resource, q.LeadingKeys, q.Attributes)
}

// A Role contains the statements about what one function may do.
type Role struct{ statements []statement }

type statement struct {
	only       string // condition of the template under which the statement exists
	deny       bool
	actions    []string
	resources  []string
	principals []string                       // of the policy of a key
	conditions map[string]map[string][]string // operator → context key → values
}

// Load returns the roles by the name of their function: mcp, sync, admin, work, assemble. A role
// has the rights of its policies and of the policies of keys. Load includes statements that exist
// only under a condition of the template. The role of the sync function is sync with
// SyncMode=single, and plan with SyncMode=fanout. Load needs the Python of the SAM CLI
// (PORTCULLIS_SAM). Without it, Load skips the test, or fails it if CI=true.
func Load(t testing.TB) map[string]Role {
	t.Helper()
	return load(t, "infra/expand.py", "template.yaml")
}

// LoadPipeline returns the roles of the pipeline, deploy and cloudformation, in the form of [Load].
func LoadPipeline(t testing.TB) map[string]Role {
	t.Helper()
	return load(t, "-c", "import json, sys; from samcli.yamlhelper import yaml_parse; json.dump(yaml_parse(open(sys.argv[1]).read()), sys.stdout)", "infra/github-oidc.yaml")
}

// printed contains the output of Python by its arguments. Python is slow to start.
var printed sync.Map

// load runs Python, which prints a template, and returns the template's roles.
func load(t testing.TB, args ...string) map[string]Role {
	t.Helper()
	key := strings.Join(args, "\n")
	out, ok := printed.Load(key)
	if !ok {
		out = python(t, args...)
		printed.Store(key, out)
	}
	roles, err := parse(out.([]byte))
	require.OK(t, err)
	return roles
}

// python runs Python with the libraries of the SAM CLI.
func python(t testing.TB, args ...string) []byte {
	t.Helper()
	program := filepath.Join(filepath.Dir(os.Getenv("PORTCULLIS_SAM")), "python")
	if _, err := exec.LookPath(program); err != nil {
		local.Missing(t, fmt.Sprintf("no SAM CLI beside PORTCULLIS_SAM=%q (`make sam` installs it)", os.Getenv("PORTCULLIS_SAM")))
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Stderr = repo.Path("."), os.Stderr
	cmd.Env = append(os.Environ(), "AWS_DEFAULT_REGION=us-east-1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("read %s: %v", args[len(args)-1], err)
	}
	return out
}

// parse reads the roles of an expanded template.
func parse(expanded []byte) (map[string]Role, error) {
	var template struct {
		Resources map[string]struct {
			Type       string
			Properties struct {
				Policies []struct {
					PolicyDocument struct{ Statement []json.RawMessage }
				}
				KeyPolicy struct{ Statement []json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal(expanded, &template); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	roles := map[string]Role{}
	for name, r := range template.Resources {
		if r.Type != "AWS::IAM::Role" {
			continue
		}
		var role Role
		for _, p := range r.Properties.Policies {
			for _, raw := range p.PolicyDocument.Statement {
				s, err := parseStatement(raw)
				if err != nil {
					return nil, fmt.Errorf("role %s: %w", name, err)
				}
				role.statements = append(role.statements, s)
			}
		}
		roles[functionOf(name)] = role
	}
	for name, r := range template.Resources {
		for _, raw := range r.Properties.KeyPolicy.Statement {
			s, err := parseStatement(raw)
			if err != nil {
				return nil, fmt.Errorf("policy of %s: %w", name, err)
			}
			s.resources = []string{name} // in the policy it is "*"
			for _, principal := range s.principals {
				if role, ok := roles[functionOf(strings.TrimSuffix(principal, ".Arn"))]; ok {
					role.statements = append(role.statements, s)
					roles[functionOf(strings.TrimSuffix(principal, ".Arn"))] = role
				}
			}
		}
	}
	roles["plan"] = roles["sync"].without("Single").without("SyncSignsIn")
	roles["sync"] = roles["sync"].without("FansOut")
	return roles, nil
}

// functionOf returns the function that has a role.
func functionOf(role string) string { return strings.ToLower(strings.TrimSuffix(role, "Role")) }

func parseStatement(raw json.RawMessage) (statement, error) {
	var choice struct {
		If []json.RawMessage `json:"Fn::If"`
	}
	if err := json.Unmarshal(raw, &choice); err != nil {
		return statement{}, err
	}
	only := ""
	if len(choice.If) > 1 { // the other branch is AWS::NoValue
		raw = choice.If[1]
		if err := json.Unmarshal(choice.If[0], &only); err != nil {
			return statement{}, err
		}
	}
	var s struct {
		Effect           string
		Action, Resource any
		Principal        struct{ AWS any }
		Condition        map[string]map[string]any
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return statement{}, err
	}
	if s.Effect != "Allow" && s.Effect != "Deny" {
		return statement{}, fmt.Errorf("unknown effect %q", s.Effect)
	}
	out := statement{only: only, deny: s.Effect == "Deny", actions: texts(s.Action), resources: texts(s.Resource), principals: texts(s.Principal.AWS), conditions: map[string]map[string][]string{}}
	for operator, keys := range s.Condition {
		out.conditions[operator] = map[string][]string{}
		for key, values := range keys {
			out.conditions[operator][key] = texts(values)
		}
	}
	return out, nil
}

// texts returns a value as a list of texts. It replaces each intrinsic function with its argument.
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			out = append(out, texts(e)...)
		}
		return out
	case map[string]any:
		for name, arg := range v {
			parts := texts(arg)
			if name == "Fn::GetAtt" {
				return []string{strings.Join(parts, ".")}
			}
			return parts
		}
	}
	return nil
}

// without returns the role for a stack in which a condition of the template is false.
func (r Role) without(condition string) Role {
	return Role{slices.DeleteFunc(slices.Clone(r.statements), func(s statement) bool { return s.only == condition })}
}

// With returns the role for a stack with these parameters of the template.
func (r Role) With(values map[string]string) Role {
	fill := func(texts []string) []string {
		texts = slices.Clone(texts)
		for i, s := range texts {
			for name, value := range values {
				s = strings.ReplaceAll(s, "${"+name+"}", value)
				if s == name { // the argument of a Ref
					s = value
				}
			}
			texts[i] = s
		}
		return texts
	}
	out := Role{slices.Clone(r.statements)}
	for i, s := range out.statements {
		conditions := map[string]map[string][]string{}
		for operator, keys := range s.conditions {
			conditions[operator] = map[string][]string{}
			for key, want := range keys {
				conditions[operator][key] = fill(want)
			}
		}
		out.statements[i].resources, out.statements[i].conditions = fill(s.resources), conditions
	}
	return out
}

// Allows reports whether a statement of the role allows q, and no statement denies it.
func (r Role) Allows(q Request) bool {
	allowed := false
	for _, s := range r.statements {
		if s.matches(q) {
			if s.deny {
				return false
			}
			allowed = true
		}
	}
	return allowed
}

func (s statement) matches(q Request) bool {
	if !slices.ContainsFunc(s.actions, func(p string) bool { return like(p, q.Action) }) || !slices.ContainsFunc(s.resources, func(p string) bool { return like(p, q.Resource) }) {
		return false
	}
	context := map[string][]string{"dynamodb:LeadingKeys": q.LeadingKeys, "dynamodb:Attributes": q.Attributes, "lambda:SourceFunctionArn": {"of the function"}, "aws:ResourceAccount": {cmp.Or(q.Owner, "AWS::AccountId")}}
	if q.ByLambda {
		context["lambda:SourceFunctionArn"] = nil
	}
	if q.Via != "" {
		context["kms:ViaService"] = []string{q.Via + ".${AWS::Region}.${AWS::URLSuffix}"}
	}
	if q.Place != "" {
		context["kms:EncryptionContext:place"] = []string{q.Place}
	}
	if q.Stack != "" {
		context["aws:ResourceTag/aws:cloudformation:stack-name"] = []string{q.Stack}
	}
	for _, operator := range slices.Sorted(maps.Keys(s.conditions)) {
		base, optional := strings.CutSuffix(operator, "IfExists")
		for key, want := range s.conditions[operator] {
			got, known := context[key]
			if !known && optional {
				continue
			}
			if !known || !holds(base, got, want) {
				return false
			}
		}
	}
	return true
}

// holds evaluates one condition. A condition with an unknown operator is false.
func holds(operator string, got, want []string) bool {
	any := func(match func(pattern, s string) bool, s string) bool {
		return slices.ContainsFunc(want, func(p string) bool { return match(p, s) })
	}
	all := func(match func(pattern, s string) bool) bool {
		return !slices.ContainsFunc(got, func(s string) bool { return !any(match, s) })
	}
	switch operator {
	case "StringNotEquals":
		return !holds("StringEquals", got, want)
	case "StringEquals":
		return len(got) == 1 && slices.Contains(want, got[0])
	case "StringLike":
		return len(got) == 1 && any(like, got[0])
	case "ForAllValues:StringEquals": // true if there is no value, so the template adds Null
		return all(func(p, s string) bool { return p == s })
	case "ForAllValues:StringLike":
		return all(like)
	case "Null":
		return slices.Equal(want, []string{fmt.Sprint(len(got) == 0)})
	}
	return false
}

// like reports whether s matches a pattern of IAM. * matches any text, and ? matches one character.
func like(pattern, s string) bool {
	quoted := regexp.QuoteMeta(pattern)
	quoted = strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(quoted)
	return regexp.MustCompile("^(?s:" + quoted + ")$").MatchString(s)
}
