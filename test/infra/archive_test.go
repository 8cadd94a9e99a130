package infra

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/emulator"
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
		local.Missing(t, fmt.Sprintf("no AWS CLI beside MiniStack: %q is no program (`make ministack` installs it)", program))
	}
	s := archived{newStack(t), program, "uploads"}
	_, err := emulator.S3(s.endpoint).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(s.uploads)})
	require.OK(t, err)
	first, second := s.unpack("v1.0.0"), s.unpack("v1.1.0")
	tool := upstreamtest.Tool("read_mail", "Read the mails.", `{"readOnlyHint":true}`)
	server := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{tool}})
	config := filepath.Join(t.TempDir(), "mcp_config.json")
	require.OK(t, os.WriteFile(config, []byte(`{"mcpServers":{"mail":{"url":"`+server.URL+`","approval":"off"}}}`), 0o600))

	s.deploy(first, "AuthMode=none", "BootstrapSha256="+token.Digest(adminToken), "AllowedNetworks=127.0.0.0/8", "RollOut=none", "SavedQueries=false")
	s.run("s3", "cp", config, "s3://"+s.outputs["BucketName"]+"/config/mcp_config.json")
	local.Until(t, "the upload of a config starts a sync", func() bool { return s.synced() == 1 })
	s.checkServes("v1.0.0", 1)

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
}

// unpack makes the archive of a version, and returns an empty folder into which it was unpacked.
func (s archived) unpack(version string) string {
	s.t.Helper()
	folder := s.t.TempDir()
	s.make("package", "VERSION="+version, "PACKAGE="+folder)
	archive := filepath.Join(folder, "portcullis-aws_"+strings.TrimPrefix(version, "v")+"_"+map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]+".zip")
	unpacked := s.t.TempDir()
	python := filepath.Join(filepath.Dir(sam(s.t)), "python")
	command(s.t, nil, python, "-m", "zipfile", "-e", archive, unpacked)
	command(s.t, nil, python, "localstack/emulated.py", filepath.Join(unpacked, "template.yaml"))
	return unpacked
}

// run runs the AWS CLI and returns its output.
func (s archived) run(args ...string) string {
	s.t.Helper()
	return command(s.t, s.env, s.aws, args...)
}

// deploy runs the two commands in the folder of an unpacked archive. A stack keeps the parameters
// that are not given.
func (s archived) deploy(folder string, parameters ...string) {
	s.t.Helper()
	packaged := filepath.Join(folder, "packaged.yaml")
	s.run("cloudformation", "package", "--template-file", filepath.Join(folder, "template.yaml"), "--s3-bucket", s.uploads, "--output-template-file", packaged)
	args := []string{
		"cloudformation", "deploy", "--template-file", packaged, "--s3-bucket", s.uploads, "--stack-name", s.name, "--no-fail-on-empty-changeset",
		"--capabilities", "CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND",
	}
	if len(parameters) > 0 {
		args = append(append(args, "--parameter-overrides"), parameters...)
	}
	s.connect(s.run(args...))
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
	if text, refused := s.call(agent, "call_tool_read", map[string]any{"name": "mail:read_mail", "args": map[string]any{}}); refused || text != "read_mail" {
		s.t.Errorf("call with %s: %s", version, text)
	}
	for _, function := range []string{"McpFunction", "SyncFunction", "AdminFunction"} {
		name := s.run("cloudformation", "describe-stack-resource", "--stack-name", s.name, "--logical-resource-id", function, "--query", "StackResourceDetail.PhysicalResourceId", "--output", "text")
		versions := strings.Fields(s.run("lambda", "list-versions-by-function", "--function-name", strings.TrimSpace(name), "--query", "Versions[].Version", "--output", "text"))
		if len(versions) != published+1 { // and $LATEST
			s.t.Errorf("%s has the versions %v after the deploy of %s, want %d", function, versions, version, published)
		}
	}
}
