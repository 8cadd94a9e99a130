package infra

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/portcullis-mcp/portcullis/pkg/token"
)

// TestModes deploys the template anew in modes that TestDeployedStack does not go through, as far as the
// emulator has them. Each takes half a minute, so `make lanes` runs it and `make test` does not.
func TestModes(t *testing.T) {
	if os.Getenv("PORTCULLIS_LANES") == "" {
		t.Skip("make lanes runs this: PORTCULLIS_LANES is not set")
	}
	const domain = " DomainName=gate.example.com CertificateArn=" + certificate
	for _, mode := range []struct{ name, parameters, url string }{
		{"an HTTP API at a domain", "McpConcurrency=5 ProvisionedConcurrency=1 HostedZoneId=Z1D633PJN98FT9 AccessLog=false" + domain, "https://gate.example.com/mcp"},
		{"a REST API from the start", "FrontDoor=rest RestTransfer=BUFFERED WebAcl=false Audit=true KmsKeyArn=" + key + domain, "https://gate.example.com/mcp"},
		{"a Function URL in a VPC", "Streaming=url VpcSubnetIds=subnet-0a,subnet-0b VpcSecurityGroupIds=sg-0a KmsKeyArn=" + key, ".lambda-url."},
	} {
		t.Run(mode.name, func(t *testing.T) {
			s := newStack(t)
			s.deploy("AuthMode=none BootstrapSha256=" + token.Digest(adminToken) + " SavedQueries=false " + mode.parameters)
			if !strings.Contains(s.outputs["McpUrl"], mode.url) {
				t.Errorf("clients go to %s, want %s", s.outputs["McpUrl"], mode.url)
			}
			agent := s.client(t.Context())
			defer agent.Close()
			if tools, err := agent.ListTools(t.Context(), nil); err != nil || len(tools.Tools) == 0 {
				t.Errorf("tools/list: %+v, %v", tools, err)
			}
			s.Client.URL = strings.TrimSuffix(s.outputs["McpUrl"], "/mcp")
			if a := s.Do(http.MethodGet, "/healthz", "", nil); a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, `"failing"`) {
				t.Errorf("a gateway without a config is %d %s", a.Status, a.Body)
			}
		})
	}
}
