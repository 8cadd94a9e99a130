// Package localstack contains only tests, which run the scripts and the ready hook.
package localstack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/portcullis-mcp/portcullis/pkg/rules/approval"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	s3store "github.com/portcullis-mcp/portcullis/pkg/store/s3"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

const (
	home = "../../localstack" // the folder of the scripts and the hook
	hook = home + "/ready.d/10-data.py"
)

// beside returns the path of the program called name, in the same folder as the program in the
// environment variable. If the variable is not set, beside skips the test, or fails it if CI=true.
func beside(t *testing.T, variable, name string) string {
	t.Helper()
	program := filepath.Join(filepath.Dir(os.Getenv(variable)), name)
	if _, err := exec.LookPath(program); os.Getenv(variable) == "" || err != nil {
		local.Missing(t, fmt.Sprintf("%s names no program: %v (`make ministack sam` installs them)", variable, err))
	}
	return program
}

// stores contains the stores that the hook creates on an emulator.
type stores struct {
	bucket    *s3.Client
	objects   *s3store.Store
	approvals *dynamo.Store
}

func at(endpoint string) stores {
	bucket, table := emulator.S3(endpoint), dynamodb.NewFromConfig(emulator.Config(endpoint))
	return stores{bucket, s3store.New(bucket, "portcullis-data"), dynamo.New(table, "portcullis", nil)}
}

// versions returns all versions of all objects, newest first for each key.
func (s stores) versions(t *testing.T) []string {
	t.Helper()
	list, err := s.bucket.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: aws.String("portcullis-data")})
	require.OK(t, err)
	var all []string
	for _, v := range list.Versions {
		all = append(all, *v.Key+" "+*v.VersionId)
	}
	return all
}

// check compares the stores with the files of the example.
func (s stores) check(t *testing.T) {
	t.Helper()
	for _, key := range []string{config.Key, policy.Key} {
		want, err := os.ReadFile(filepath.Join(home, "example", filepath.FromSlash(key)))
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.objects.Get(t.Context(), key, "")
		if err != nil || !bytes.Equal(o.Data, want) {
			t.Errorf("the bucket has %s %q (%v), want the example's %q", key, o.Data, err, want)
		}
	}
	if _, err := approval.NewBaselines(s.approvals).Baseline(t.Context(), "https://mcp.deepwiki.com/mcp", approval.Tools); !errors.Is(err, approval.ErrNotFound) {
		t.Errorf("the table answers %v, want %v", err, approval.ErrNotFound)
	}
}

func TestReadyHookMakesTheDataAndLeavesWhatIsThere(t *testing.T) {
	python := beside(t, "PORTCULLIS_MINISTACK", "python") // has boto3
	t.Setenv("AWS_ENDPOINT_URL", "")                      // start another emulator: the hook would replace the data of a running one
	endpoint := emulator.Start(t)
	s := at(endpoint)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), python, args...)
		cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+endpoint, "PORTCULLIS_ROOT="+root)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}

	// LocalStack executes the text of a Python hook without globals, so the hook does not even have
	// its own path.
	run("-c", `import sys; exec(open(sys.argv[1], "rb").read(), {})`, hook)
	s.check(t)
	before := s.versions(t)
	run(hook)
	s.check(t)
	if after := s.versions(t); len(before) != 2 || len(after) != len(before) || after[0] != before[0] || after[1] != before[1] {
		t.Errorf("versions after a second run: %q, before: %q", after, before)
	}

	o, err := s.objects.Get(t.Context(), config.Key, "")
	if err != nil {
		t.Fatal(err)
	}
	mine := []byte(`{"mcpServers": {}}`)
	if _, err := s.objects.Put(t.Context(), config.Key, mine, o.ETag); err != nil {
		t.Fatal(err)
	}
	run(hook)
	if o, err := s.objects.Get(t.Context(), config.Key, ""); err != nil || !bytes.Equal(o.Data, mine) {
		t.Errorf("a config that somebody pushed became %q (%v)", o.Data, err)
	}
}

func TestExampleHasNoFault(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(home, "example", filepath.FromSlash(config.Key)))
	require.OK(t, err)
	c, err := config.Parse(data)
	if err != nil || len(c.Warnings) > 0 || len(c.Servers) == 0 {
		t.Errorf("%s: %d servers, warnings %v, %v", config.Key, len(c.Servers), c.Warnings, err)
	}
	if data, err = os.ReadFile(filepath.Join(home, "example", filepath.FromSlash(policy.Key))); err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse(data)
	if err != nil || len(p.Warnings()) > 0 {
		t.Errorf("%s: %v", policy.Key, err)
	}
	// The tool in `make invoke EVENT=events/http/blocked-call.json` exists, and the policy denies
	// it.
	event, err := os.ReadFile("../../events/http/blocked-call.json")
	require.OK(t, err)
	id := tool.ID{Server: "deepwiki", Name: "ask_question"}
	if _, ok := c.Server(id.Server); !ok || !bytes.Contains(event, []byte(id.String())) {
		t.Errorf("the event does not call the tool %s of the example", id)
	}
	everybody := identity.Agent{ID: "anonymous", Servers: []string{"*"}}
	if v := p.Verdicts(c, everybody, []policy.Tool{{ID: id}}); v[0].Denied != lock.Yes {
		t.Errorf("the example does not deny %s: %+v", id, v[0])
	}
}
