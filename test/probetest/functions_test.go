package probetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/portcullis-mcp/portcullis/pkg/identity/identitytest"
	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/token"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/lambdatest"
	"github.com/portcullis-mcp/portcullis/test/probetest"
	"github.com/portcullis-mcp/portcullis/test/upstreamtest"
)

const (
	root     = "../.."
	audience = "https://gate.example.com/mcp"
	keyName  = "/portcullis/probe/token-key"
)

// A deployed gateway is the built functions on an emulator.
type deployed struct {
	programs string
	env      map[string]string
	issuer   *identitytest.Issuer
	boot     secret.Text
	vault    *upstreamtest.Server
}

func deploy(t *testing.T) deployed {
	t.Helper()
	endpoint := emulator.Start(t)
	d := deployed{programs: lambdatest.Build(t, root, "mcp", "sync", "admin"), issuer: identitytest.Start(t), boot: token.New()}
	files := upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{upstreamtest.Tool("read_file", "Read a file.", `{"readOnlyHint":true}`, "path")}})
	d.vault = upstreamtest.New(t, upstreamtest.Options{Tools: []json.RawMessage{
		upstreamtest.Tool(probetest.Secret, "it is a secret", `{"readOnlyHint":true}`, "path"),
		upstreamtest.Tool(probetest.Long, "it is a secret", `{"readOnlyHint":true}`, "path"),
	}})
	outputs := emulator.Deploy(t, endpoint, fmt.Sprintf("probe-%d", time.Now().UnixNano()), root+"/infra/data.yaml", map[string]string{"DeletionProtection": "false"})
	d.env = map[string]string{
		"AWS_ENDPOINT_URL": endpoint, "PORTCULLIS_BUCKET": outputs["BucketName"], "PORTCULLIS_TABLE": outputs["TableName"],
		"PORTCULLIS_AUTH": "jwt,token", "PORTCULLIS_ISSUER": d.issuer.URL, "PORTCULLIS_AUDIENCE": audience, "PORTCULLIS_ALGORITHMS": "ES256,RS256",
		"PORTCULLIS_DEFAULT_SERVERS": "files", "PORTCULLIS_TOKEN_KEY": "${ssm:" + keyName + "}",
		"PORTCULLIS_BOOTSTRAP_SHA256": token.Digest(d.boot), "PORTCULLIS_BASE_URL": "https://gate.example.com",
		"PORTCULLIS_ALLOW_NETS": "127.0.0.0/8", "PORTCULLIS_SYNC_FUNCTION": "portcullis-sync",
	}
	config := fmt.Sprintf(`{"mcpServers":{"files":{"url":%q,"approval":"off"},"vault":{"url":%q,"approval":"off"}}}`, files.URL, d.vault.URL)
	credentials := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
	})
	parameters := ssm.New(ssm.Options{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials})
	_, err := parameters.PutParameter(t.Context(), &ssm.PutParameterInput{
		Name: aws.String(keyName), Value: aws.String("a key that is for tests alone, of 32 bytes and more"), Type: types.ParameterTypeSecureString, Overwrite: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	client := s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true, Credentials: credentials})
	_, err = client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(outputs["BucketName"]), Key: aws.String("config/mcp_config.json"), Body: strings.NewReader(config)})
	if err != nil {
		t.Fatal(err)
	}
	if a := d.start(t, "sync").Invoke([]byte(`{}`)); a.Failed {
		t.Fatalf("sync: %s", a.Payload)
	}
	return d
}

func (d deployed) start(t *testing.T, name string) *lambdatest.Function {
	t.Helper()
	f := lambdatest.Start(t, filepath.Join(d.programs, name), d.env)
	if !f.Ready() {
		t.Fatalf("%s does not start:\n%s", name, f.Output())
	}
	return f
}

// send hands a request to a function as API Gateway does.
func send(t *testing.T, f *lambdatest.Function, r probetest.Request) probetest.Answer {
	t.Helper()
	path, query, _ := strings.Cut(r.Path, "?")
	if path == "" {
		path = "/mcp"
	}
	if r.Source == "" {
		r.Source = "203.0.113.7"
	}
	headers := map[string]string{"host": "gate.example.com", "content-type": "application/json"}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	event, err := json.Marshal(map[string]any{
		"version": "2.0", "rawPath": path, "rawQueryString": query, "headers": headers, "body": r.Body,
		"requestContext": map[string]any{"stage": "$default", "http": map[string]any{"method": http.MethodPost, "path": path, "sourceIp": r.Source}},
	})
	if err != nil {
		t.Fatal(err)
	}
	answer := f.Invoke(event)
	var out struct {
		StatusCode        int
		Headers           map[string]string
		MultiValueHeaders map[string][]string
		Body              string
	}
	if err := json.Unmarshal(answer.Payload, &out); err != nil || answer.Failed {
		t.Fatalf("answer %s: %v", answer.Payload, err)
	}
	h := http.Header{}
	for name, value := range out.Headers {
		h.Set(name, value)
	}
	for name, values := range out.MultiValueHeaders {
		h[http.CanonicalHeaderKey(name)] = values
	}
	return probetest.Answer{Status: out.StatusCode, Header: h, Body: out.Body}
}

// decide sends a request to the admin function as the holder of the bootstrap token.
func (d deployed) decide(t *testing.T, admin *lambdatest.Function, path, body string, want int) (made struct{ ID, Token string }) {
	t.Helper()
	a := send(t, admin, probetest.Request{Path: path, Header: http.Header{"Authorization": {"Bearer " + d.boot.Reveal()}}, Body: body})
	if a.Status != want {
		t.Fatalf("%s: %d %s", path, a.Status, a.Body)
	}
	if err := json.Unmarshal([]byte(a.Body), &made); err != nil {
		t.Fatal(err)
	}
	return made
}

func TestTheDeployedGateStaysShut(t *testing.T) {
	d := deploy(t)
	admin, one, two := d.start(t, "admin"), d.start(t, "mcp"), d.start(t, "mcp")
	const files = `{"name":"ci","servers":["files"],"tiers":["read","write","destructive"],"days":1}`
	agent, revoked := d.decide(t, admin, "/admin/tokens", files, http.StatusCreated), d.decide(t, admin, "/admin/tokens", files, http.StatusCreated)

	t.Run("a revoked token is refused by the next request of every process", func(t *testing.T) {
		list := func(f *lambdatest.Function) int {
			return send(t, f, probetest.Request{Header: http.Header{"Authorization": {"Bearer " + revoked.Token}}, Body: probetest.RPC("tools/list", `{}`)}).Status
		}
		if a, b := list(one), list(two); a != http.StatusOK || b != http.StatusOK {
			t.Fatalf("before it was revoked: %d and %d", a, b)
		}
		d.decide(t, admin, "/admin/tokens/"+revoked.ID+"/revoke", `{}`, http.StatusOK)
		if a, b := list(one), list(two); a != http.StatusUnauthorized || b != http.StatusUnauthorized {
			t.Errorf("after it was revoked: %d and %d, want 401", a, b)
		}
	})
	w := probetest.World{
		Send:   func(t *testing.T, r probetest.Request) probetest.Answer { return send(t, one, r) },
		Issuer: d.issuer, Audience: audience, Agent: agent.Token, Revoked: revoked.Token,
	}
	t.Run("out of scope", w.OutOfScope)
	t.Run("strangers", w.Strangers)
	t.Run("flood", w.Flood)
	if n := len(d.vault.Calls()); n > 0 {
		t.Errorf("%d calls reached the server that is out of scope", n)
	}
	w.Quiet(t, []byte(one.Output()+two.Output()+admin.Output()))
}
