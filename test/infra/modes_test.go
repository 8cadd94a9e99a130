package infra

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

// TestModes deploys the template in further modes, as far as the emulator supports them. Each mode
// takes half a minute, so only `make lanes` runs this test.
func TestModes(t *testing.T) {
	if os.Getenv("PORTCULLIS_LANES") == "" {
		t.Skip("make lanes runs this: PORTCULLIS_LANES is not set")
	}
	const domain = " DomainName=gate.example.com CertificateArn=" + certificate
	for _, mode := range []struct{ name, parameters, url string }{
		{"an HTTP API at a domain", "McpConcurrency=5 ProvisionedConcurrency=1 AccessLog=false" + domain, "https://gate.example.com/mcp"},
		{"a REST API from the start", "FrontDoor=rest WebAclRate=0 Audit=true KmsKeyArn=" + key + domain, "https://gate.example.com/mcp"},
		{"a distributed sync", "SyncMode=fanout Audit=true KmsKeyArn=" + key, ".execute-api."},
		{"a Function URL in a VPC", "Streaming=url VpcSubnetIds=subnet-0a,subnet-0b VpcSecurityGroupIds=sg-0a KmsKeyArn=" + key, ".lambda-url."},
	} {
		t.Run(mode.name, func(t *testing.T) {
			s := newStack(t)
			s.deploy("AuthMode=none BootstrapSha256=" + token.Digest(adminToken) + " AllowedNetworks=127.0.0.0/8 " + mode.parameters)
			if !strings.Contains(s.outputs["McpUrl"], mode.url) {
				t.Errorf("output McpUrl = %s, want %s", s.outputs["McpUrl"], mode.url)
			}
			tool := upstreamtest.Tool("read_mail", "Read the mails.", `{"readOnlyHint":true}`)
			server := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{tool}})
			s.make("push-config", "DIR="+s.folder(server.URL), "BUCKET="+s.outputs["BucketName"])
			local.Until(t, "the push of a config starts a sync", func() bool { return s.synced() == 1 })
			agent := s.client(t.Context())
			defer agent.Close()
			if tools, err := agent.ListTools(t.Context(), nil); err != nil || len(tools.Tools) == 0 {
				t.Errorf("tools/list: %+v, %v", tools, err)
			}
			s.URL = strings.TrimSuffix(s.outputs["McpUrl"], "/mcp")
			if a := s.Do(http.MethodGet, "/healthz", "", nil); a.Status != http.StatusOK || !strings.Contains(a.Body, `"ok"`) {
				t.Errorf("health: %d %s", a.Status, a.Body)
			}
		})
	}
}
