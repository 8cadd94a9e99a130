package infra

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/test/require"
)

// The pipeline deploys to staging and then to prod, each in its environment, with make targets.
func TestPipeline(t *testing.T) {
	const script = "import json, sys, yaml; json.dump(yaml.safe_load(open('.github/workflows/deploy.yml')), sys.stdout, default=str)"
	type job struct {
		Environment, Needs string
		Permissions        map[string]string
		Steps              []struct{ Run, Uses string }
	}
	workflow := require.JSON[struct{ Jobs map[string]job }](t, python(t, "-c", script))
	if len(workflow.Jobs) != 2 || workflow.Jobs["prod"].Needs != "staging" {
		t.Fatalf("the jobs are %+v", workflow.Jobs)
	}
	for name, j := range workflow.Jobs {
		if j.Environment != name || len(j.Permissions) != 2 ||
			j.Permissions["contents"] != "read" ||
			j.Permissions["id-token"] != "write" {
			t.Errorf("%s is in %q, with %v", name, j.Environment, j.Permissions)
		}
		var run []string
		for _, s := range j.Steps {
			if s.Uses != "" &&
				!regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`).MatchString(s.Uses) {
				t.Errorf("%s uses %s, which is not a commit", name, s.Uses)
			}
			if s.Run != "" {
				run = append(run, s.Run)
			}
		}
		if !slices.Equal(run, []string{"make deploy CONFIG=" + name, "make smoke CONFIG=" + name}) {
			t.Errorf("%s runs %q", name, run)
		}
		for _, line := range run {
			words := strings.Fields(line)
			out := command(
				t,
				[]string{"MAKEFLAGS=", "CFN_ROLE=arn:aws:iam::123456789012:role/cfn"},
				"make",
				append([]string{"-n"}, words[1:]...)...)
			if words[1] == "deploy" &&
				!strings.Contains(
					out,
					"--config-env "+name+" --no-confirm-changeset --role-arn arn:aws:iam::123456789012:role/cfn",
				) {
				t.Errorf("%s does %s", line, out)
			}
		}
	}
}

// The smoke test passes only if a gateway answers.
func TestSmoke(t *testing.T) {
	const well = `{"status":"steady"}`
	for _, c := range []struct {
		name        string
		health      int
		body        string
		mcp         int
		want, ended string
	}{
		{"a gateway", 200, well, 401, "the deployed gateway answers", ""},
		{"a gateway without authentication", 200, well, 200, "the deployed gateway answers", ""},
		{"a gateway that requires signatures", 200, well, 403, "the deployed gateway answers", ""},
		{"a gateway without a config", 503, `{"status":"failing"}`, 401, "the gateway works: 503", "exit status 1"},
		{"functions that do not start", 502, "", 502, "the gateway works: 502", "exit status 1"},
		{"another program", 200, "<html>", 401, "did not answer like a gateway", "exit status 1"},
		{"no such path", 200, well, 404, "without credentials: 404", "exit status 1"},
		{"agents get errors", 200, well, 500, "without credentials: 500", "exit status 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			answer := func(status int, body string) http.HandlerFunc {
				return func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(status)
					_, _ = w.Write([]byte(body))
				}
			}
			mux.HandleFunc("GET /healthz", answer(c.health, c.body))
			mux.HandleFunc("POST /mcp", answer(c.mcp, "{}"))
			server := httptest.NewServer(mux)
			defer server.Close()
			out, err := exec.CommandContext(t.Context(), filepath.Join(root, ".ci", "smoke"), server.URL+"/mcp").
				CombinedOutput()
			ended := ""
			if err != nil {
				ended = err.Error()
			}
			if ended != c.ended || !strings.Contains(string(out), c.want) {
				t.Errorf("the smoke test ends with %q, want %q:\n%s", ended, c.ended, out)
			}
		})
	}
}

// Only the workflow of the repository's environment may assume the deploy role. The deploy role may
// pass only one role, to CloudFormation. That role covers the services of all resources of the
// stack, and may change only IAM roles of the stack.
func TestRolesOfThePipeline(t *testing.T) {
	x := nested(t, "infra/github-oidc.yaml")
	document := x.Resources["DeployRole"].Properties["AssumeRolePolicyDocument"].(map[string]any)
	trust := document["Statement"].([]any)
	if len(trust) != 1 {
		t.Fatalf("trust policy of the deploy role: %v", trust)
	}
	const want = `{"StringEquals":{"token.actions.githubusercontent.com:aud":"sts.amazonaws.com","token.actions.githubusercontent.com:sub":{"Fn::Sub":"repo:${Repository}:environment:${Environment}"}}}`
	if got := text(trust[0].(map[string]any)["Condition"]); got != want {
		t.Errorf("condition of the deploy role: %s", got)
	}
	startsSync := false
	for _, s := range statements(x.Resources["DeployRole"]) {
		if strings.Contains(s.actions, "lambda:") {
			startsSync = s.actions == "lambda:InvokeFunction" &&
				strings.HasSuffix(s.resources, ":function:${StackName}-SyncFunction-*")
		}
		if strings.Contains(s.actions, "*") ||
			s.resources == "*" && s.actions != "cloudformation:GetTemplateSummary" {
			t.Errorf("the role that deploys may %s", s)
		}
		if strings.Contains(s.actions, "iam:") &&
			(s.actions != "iam:PassRole" || s.resources != "CloudFormationRole.Arn") {
			t.Errorf("the role that deploys may %s", s)
		}
	}
	if !startsSync {
		t.Error("the role that deploys cannot start the sync, or calls more of Lambda")
	}
	var allowed string
	for _, s := range statements(x.Resources["CloudFormationRole"]) {
		allowed += ", " + s.actions
		if strings.Contains(s.resources, "*") && strings.Contains(s.actions, "iam:") &&
			!strings.Contains(s.resources, "role${RolePath}${StackName}-*") {
			t.Errorf("CloudFormation may %s", s)
		}
	}
	services := map[string]string{
		"ApiGatewayV2":    "apigateway",
		"ApiGateway":      "apigateway",
		"KinesisFirehose": "firehose",
		"Route53":         "route53",
		"WAFv2":           "wafv2",
	}
	made := []template{expand(t)}
	files, err := filepath.Glob(filepath.Join(root, "infra", "*.yaml"))
	require.OK(t, err)
	for _, f := range files {
		if name := filepath.Base(f); name != "github-oidc.yaml" {
			made = append(made, nested(t, "infra/"+name))
		}
	}
	for _, x := range made {
		for name, r := range x.Resources {
			service := strings.Split(r.Type, "::")[1]
			prefix := services[service]
			if prefix == "" {
				prefix = strings.ToLower(service)
			}
			if prefix != "serverless" && !strings.Contains(allowed, ", "+prefix+":") {
				t.Errorf("CloudFormation may not create a %s (%s)", r.Type, name)
			}
		}
	}
}
