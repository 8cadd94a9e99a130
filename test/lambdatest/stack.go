package lambdatest

import (
	"crypto/rand"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/portcullis-mcp/portcullis/pkg/aws/awsjson"
	"github.com/portcullis-mcp/portcullis/test/agenttest"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/repo"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// BaseURL is the public address of the functions of a [Stack].
const BaseURL = "https://gate.example.com"

// A Stack contains the bucket and the table of infra/data.yaml and a seal key on an emulator. Its
// functions use these resources.
type Stack struct {
	Endpoint string // of the emulator
	Programs string // folder of the built functions
	Bucket   string
	Env      map[string]string // of each function
	Admin    string            // credentials for /admin

	t       testing.TB
	sealKey string // ARN
}

// NewStack creates a stack. env is added to the default environment of the functions.
func NewStack(t testing.TB, endpoint, programs string, env map[string]string) *Stack {
	t.Helper()
	outputs := emulator.Deploy(t, endpoint, "test-"+strings.ToLower(rand.Text()), repo.Path("infra/data.yaml"), map[string]string{"DeletionProtection": "false"})
	s := &Stack{Endpoint: endpoint, Programs: programs, Bucket: outputs["BucketName"], t: t, Env: map[string]string{
		"AWS_ENDPOINT_URL": endpoint, "PORTCULLIS_BUCKET": outputs["BucketName"], "PORTCULLIS_TABLE": outputs["TableName"],
		"PORTCULLIS_BASE_URL": BaseURL, "PORTCULLIS_ALLOW_NETS": "127.0.0.0/8", "PORTCULLIS_SYNC_FUNCTION": "portcullis-sync",
	}}
	s.sealKey = s.secret()
	s.Env["PORTCULLIS_SEAL_KEY"] = "secretsmanager:" + s.sealKey
	maps.Copy(s.Env, env)
	return s
}

// secrets returns a client of the service that stores the seal key.
func (s *Stack) secrets() *secretsmanager.Client {
	return secretsmanager.NewFromConfig(emulator.Config(s.Endpoint))
}

// secret creates the seal key, as the template does, and returns its ARN.
func (s *Stack) secret() string {
	s.t.Helper()
	name, value := "seal-"+s.Bucket, rand.Text()+rand.Text()
	out, err := s.secrets().CreateSecret(s.t.Context(), &secretsmanager.CreateSecretInput{Name: &name, SecretString: &value})
	require.OK(s.t, err)
	return *out.ARN
}

// ReplaceSealKey sets a new value of the seal key. The service keeps the old value as the previous
// version.
func (s *Stack) ReplaceSealKey() {
	s.t.Helper()
	value := rand.Text() + rand.Text()
	_, err := s.secrets().PutSecretValue(s.t.Context(), &secretsmanager.PutSecretValueInput{SecretId: &s.sealKey, SecretString: &value})
	require.OK(s.t, err)
}

// AllowSignIn creates the key that encrypts sign-ins at servers, and its alias, as the template
// does with SignIn=true. Functions that start later use it.
func (s *Stack) AllowSignIn() {
	s.t.Helper()
	kms := awsjson.New(emulator.Config(s.Endpoint), "kms")
	var made struct{ KeyMetadata struct{ Arn, KeyId string } }
	require.OK(s.t, kms.Call(s.t.Context(), "TrentService.CreateKey", struct{}{}, &made))
	name := "alias/" + s.Bucket + "-sign-in"
	in := map[string]string{"AliasName": name, "TargetKeyId": made.KeyMetadata.KeyId}
	var none struct{}
	if err := kms.Call(s.t.Context(), "TrentService.CreateAlias", in, &none); err != nil &&
		!strings.Contains(err.Error(), "JSON input") { // the answer has no body
		s.t.Fatal(err)
	}
	arn := strings.Replace(made.KeyMetadata.Arn, "key/"+made.KeyMetadata.KeyId, name, 1)
	s.Env["PORTCULLIS_VAULT_KEY"] = arn
}

// Configure stores a config.
func (s *Stack) Configure(data string) { s.Put("config/mcp_config.json", data) }

// Put stores an object.
func (s *Stack) Put(key, data string) {
	s.t.Helper()
	_, err := emulator.S3(s.Endpoint).PutObject(s.t.Context(), &s3.PutObjectInput{Bucket: &s.Bucket, Key: &key, Body: strings.NewReader(data)})
	require.OK(s.t, err)
}

// Parameter stores a secret.
func (s *Stack) Parameter(name, value string) {
	s.t.Helper()
	_, err := ssm.NewFromConfig(emulator.Config(s.Endpoint)).PutParameter(s.t.Context(), &ssm.PutParameterInput{
		Name: &name, Value: &value, Type: types.ParameterTypeSecureString, Overwrite: aws.Bool(true),
	})
	require.OK(s.t, err)
}

// Start starts one of the functions (mcp, sync, admin). Pairs of names and values override the
// environment.
func (s *Stack) Start(t testing.TB, name string, pairs ...string) *Function {
	t.Helper()
	env := maps.Clone(s.Env)
	for i := 0; i+1 < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	f := Start(t, filepath.Join(s.Programs, name), env)
	f.Client = agenttest.Client{T: t, URL: BaseURL, Transport: f.From(""), Admin: s.Admin}
	return f
}

// Front returns an HTTP server in front of the function that agents call. Pairs of names and values
// override the environment.
func (s *Stack) Front(t testing.TB, pairs ...string) *Front {
	t.Helper()
	return NewFront(t, func() *Function { return s.Start(t, "mcp", pairs...) })
}

// Sync runs a sync. An error ends the test.
func (s *Stack) Sync(t testing.TB) {
	t.Helper()
	if a := s.Start(t, "sync").Invoke([]byte(`{}`)); a.Failed {
		t.Fatalf("sync: %s", a.Payload)
	}
}
