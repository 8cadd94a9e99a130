package infra

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// An archived is a stack that the AWS CLI deploys from archives of `make package`.
type archived struct {
	*stack
	aws     string // the AWS CLI
	uploads string // the bucket of `aws cloudformation package`
}

// TestArchive deploys archives with the commands of docs/aws.md, which need neither Go nor make nor
// SAM: the first release, the next one, and the first one again.
func TestArchive(t *testing.T) {
	program := filepath.Join(filepath.Dir(os.Getenv("PORTCULLIS_MINISTACK")), "aws")
	if _, err := exec.LookPath(program); err != nil {
		local.Missing(t, fmt.Sprintf("no AWS CLI: %q is no program (make ministack)", program))
	}
	s := archived{newStack(t), program, "uploads"}
	s.run("s3 mb s3://%s", s.uploads)
	first, second := s.unpack("v1.0.0"), s.unpack("v1.1.0")
	tool := upstreamtest.Tool("read_mail", "Read the mails.", `{"readOnlyHint":true}`)
	server := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{tool}})
	config := filepath.Join(t.TempDir(), "mcp_config.json")
	text := `{"mcpServers":{"mail":{"url":"` + server.URL + `","approval":"off"}}}`
	require.OK(t, os.WriteFile(config, []byte(text), 0o600))

	parameters := []string{
		"AuthMode=none", "BootstrapSha256=" + token.Digest(adminToken),
		"AllowedNetworks=127.0.0.0/8", "RollOut=none",
	}
	s.deploy(first, parameters...)
	after := filepath.Join(first, "infra", "after_deploy.py")
	check := func(want string) {
		t.Helper()
		said := command(t, s.env, filepath.Join(filepath.Dir(sam(t)), "python"), after, s.name)
		if !strings.Contains(said, want) {
			t.Errorf("the check of the archive prints %q, want %q", said, want)
		}
	}
	check("the sync found no config in the bucket. Push a config")
	s.run("s3 cp %s s3://%s/config/mcp_config.json", config, s.outputs["BucketName"])
	local.Until(t, "the upload of a config starts a sync", func() bool { return s.synced() == 1 })
	s.checkServes("v1.0.0", 1)
	check("the new version synced: 1 servers, 1 tools")

	for _, next := range []struct {
		folder, version string
		published       int
	}{{first, "v1.0.0", 1}, {second, "v1.1.0", 2}, {first, "v1.0.0", 3}} {
		s.deploy(next.folder)
		s.checkServes(next.version, next.published)
	}
	if n := s.synced(); n != 1 {
		t.Errorf("the catalog has %d tools after the deploys", n)
	}
	s.checkBeside(first, parameters)
}

// checkBeside deploys a second stack beside the first one. It has its own data, keys, functions and
// metrics, and the first stack goes on serving.
func (s archived) checkBeside(folder string, parameters []string) {
	s.t.Helper()
	copied := *s.stack
	other := archived{&copied, s.aws, s.uploads}
	other.name += "-beside"
	other.deploy(folder, parameters...)
	first, second := s.resources(), other.resources()
	if len(first) < 30 || len(first) != len(second) {
		s.t.Errorf("the stacks have %d and %d resources", len(first), len(second))
	}
	for id, name := range second {
		if first[id] == "" || first[id] == name && name != "$default" { // of each API
			s.t.Errorf("%s is %q in one stack and %q in the other", id, first[id], name)
		}
	}
	for _, output := range []string{"McpUrl", "AdminUrl", "BucketName", "TableName"} {
		if s.outputs[output] == other.outputs[output] {
			s.t.Errorf("both stacks have the %s %s", output, s.outputs[output])
		}
	}
	dimension := other.run("lambda get-function-configuration --function-name %s --output text "+
		"--query Environment.Variables.PORTCULLIS_STACK", second["McpFunction"])
	if strings.TrimSpace(dimension) != other.name {
		s.t.Errorf("metrics of %s have the dimension Stack %s", other.name, dimension)
	}
	agent := other.client(s.t.Context())
	defer agent.Close()
	call := map[string]any{"name": "mail:read_mail", "args": map[string]any{}}
	if text, refused := s.call(agent, "call_tool_read", call); !refused {
		s.t.Errorf("the other stack, which has no config, answers %s", text)
	}
	s.checkServes("v1.0.0", 3)
}

// resources returns the name or ARN of each resource of the stack, by its id in the template.
func (s archived) resources() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(s.run("cloudformation list-stack-resources --stack-name %s "+
		"--output text --query StackResourceSummaries[].[LogicalResourceId,PhysicalResourceId]", s.name)) {
		if f := strings.Fields(line); len(f) == 2 {
			all[f[0]] = f[1]
		}
	}
	return all
}

// unpack makes the archive of a version, and returns an empty folder into which it was unpacked.
func (s archived) unpack(version string) string {
	s.t.Helper()
	folder := s.t.TempDir()
	s.make("package", "VERSION="+version, "PACKAGE="+folder)
	name := "portcullis-aws_" + strings.TrimPrefix(version, "v") + "_*.zip"
	archives, err := filepath.Glob(filepath.Join(folder, name))
	require.OK(s.t, err)
	if len(archives) != 1 {
		s.t.Fatalf("make package writes %v, want one file %s", archives, name)
	}
	unpacked := s.t.TempDir()
	python := filepath.Join(filepath.Dir(sam(s.t)), "python")
	command(s.t, nil, python, "-m", "zipfile", "-e", archives[0], unpacked)
	command(s.t, nil, python, "localstack/emulated.py", filepath.Join(unpacked, "template.yaml"))
	return unpacked
}

// run runs the AWS CLI with the words of a line, and returns its output.
func (s archived) run(line string, values ...any) string {
	s.t.Helper()
	return command(s.t, s.env, s.aws, strings.Fields(fmt.Sprintf(line, values...))...)
}

// deploy runs the two commands for the folder of an unpacked archive. A stack keeps the parameters
// that are not given.
func (s archived) deploy(folder string, parameters ...string) {
	s.t.Helper()
	packaged := filepath.Join(folder, "packaged.yaml")
	s.run("cloudformation package --template-file %s --s3-bucket %s --output-template-file %s",
		filepath.Join(folder, "template.yaml"), s.uploads, packaged)
	given := ""
	if len(parameters) > 0 {
		given = "--parameter-overrides " + strings.Join(parameters, " ")
	}
	s.connect(s.run("cloudformation deploy --template-file %s --s3-bucket %s --stack-name %s "+
		"--capabilities CAPABILITY_IAM CAPABILITY_NAMED_IAM CAPABILITY_AUTO_EXPAND "+
		"--no-fail-on-empty-changeset %s", packaged, s.uploads, s.name, given))
}

// checkServes connects as an agent, which reads the version of the program, lists the tools and
// calls one. Each function must have this number of published versions.
func (s archived) checkServes(version string, published int) {
	s.t.Helper()
	agent := s.client(s.t.Context())
	defer agent.Close()
	if got := agent.InitializeResult().ServerInfo.Version; got != version {
		s.t.Errorf("the gateway has the version %q, want %q", got, version)
	}
	list, err := agent.ListTools(s.t.Context(), nil)
	require.OK(s.t, err)
	if len(list.Tools) < 6 {
		s.t.Errorf("the gateway lists %d tools", len(list.Tools))
	}
	call := map[string]any{"name": "mail:read_mail", "args": map[string]any{}}
	if text, refused := s.call(agent, "call_tool_read", call); refused || text != "read_mail" {
		s.t.Errorf("call with %s: %s", version, text)
	}
	for _, function := range []string{"McpFunction", "SyncFunction", "AdminFunction"} {
		versions := strings.Fields(s.run("lambda list-versions-by-function --function-name %s "+
			"--output text --query Versions[].Version", s.resources()[function]))
		if len(versions) != published+1 { // and $LATEST
			s.t.Errorf("%s has the versions %v after the deploy of %s, want %d",
				function, versions, version, published)
		}
	}
}
