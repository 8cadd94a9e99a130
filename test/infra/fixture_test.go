// Package infra contains only tests, which expand, build and deploy the templates.
package infra

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/browsertest"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/local"
)

const root = "../.."

func TestMain(m *testing.M) { os.Exit(browsertest.Main(m)) }

// adminToken opens /admin. Every agent may connect.
var adminToken = token.New()

// sam returns the path of the SAM CLI. If there is none, sam skips the test, or fails it if
// CI=true.
func sam(t *testing.T) string {
	t.Helper()
	program := os.Getenv("PORTCULLIS_SAM")
	if _, err := exec.LookPath(program); err != nil {
		local.Missing(t, fmt.Sprintf("no SAM CLI: PORTCULLIS_SAM=%q is no program (`make sam` installs it)", program))
	}
	return program
}

// command runs a program in the module's root and returns its standard output.
func command(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	return commandIn(t, root, env, name, args...)
}

// commandIn runs a program in a folder and returns its standard output.
func commandIn(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append([]string{"SAM_CLI_TELEMETRY=0", "AWS_DEFAULT_REGION=us-east-1"}, env...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s\n%s", name, strings.Join(args, " "), err, out, said.String())
	}
	return string(out)
}

// A stack is a stack of template.yaml on an emulator.
type stack struct {
	agenttest.Client // for /admin
	t                *testing.T
	endpoint         string
	name             string
	dir              string // in which make runs
	env              []string
	build            string
	outputs          map[string]string
}

func newStack(t *testing.T) *stack {
	t.Helper()
	sam(t)
	endpoint := emulator.Start(t)
	return &stack{
		t: t, endpoint: endpoint, dir: root, name: fmt.Sprintf("portcullis-%d", time.Now().Unix()), build: filepath.Join(t.TempDir(), "build"),
		env: []string{"AWS_ENDPOINT_URL=" + endpoint, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_REGION=us-east-1", "MAKEFLAGS="},
	}
}

// make runs a make target for the stack and returns its output.
func (s *stack) make(target string, vars ...string) string {
	s.t.Helper()
	arch := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]
	args := append([]string{"--no-print-directory", target, "STACK=" + s.name, "ARCH=" + arch, "BUILD_DIR=" + s.build}, vars...)
	return commandIn(s.t, s.dir, s.env, "make", args...)
}

// deploy creates or updates the stack, and reads its outputs.
func (s *stack) deploy(parameters string) {
	s.t.Helper()
	s.connect(s.make("deploy", "PARAMS="+parameters))
}

// connect reads the outputs of the stack. It takes what the deploy printed.
func (s *stack) connect(printed string) {
	s.t.Helper()
	s.outputs = map[string]string{}
	for line := range strings.Lines(s.make("outputs")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			s.outputs[name] = strings.TrimSpace(value)
		}
	}
	if s.outputs["McpUrl"] == "" || s.outputs["BucketName"] == "" {
		s.t.Fatalf("outputs: %v; the deploy printed:\n%s", s.outputs, printed)
	}
	s.Client = agenttest.Client{T: s.t, URL: strings.TrimSuffix(s.outputs["AdminUrl"], "/admin"), Transport: s, Admin: adminToken.Reveal()}
}

// RoundTrip implements [http.RoundTripper]. It sends requests for an emulated API or Function URL
// to the emulator, because not every machine resolves their host names.
func (s *stack) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = r.URL.Host
	r.URL.Scheme, r.URL.Host = "http", strings.TrimPrefix(s.endpoint, "http://")
	return http.DefaultTransport.RoundTrip(r)
}

// client opens an MCP session, as agents do.
func (s *stack) client(ctx context.Context) *mcp.ClientSession {
	s.t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.outputs["McpUrl"], HTTPClient: &http.Client{Transport: s}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		s.t.Fatalf("connect to %s: %v", s.outputs["McpUrl"], err)
	}
	return session
}

// call calls one of the gateway's tools and returns its text.
func (s *stack) call(session *mcp.ClientSession, name string, args map[string]any) (text string, isError bool) {
	s.t.Helper()
	r, err := session.CallTool(s.t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil || len(r.Content) == 0 {
		s.t.Fatalf("%s: %v: %+v", name, err, r)
	}
	return r.Content[0].(*mcp.TextContent).Text, r.IsError
}
