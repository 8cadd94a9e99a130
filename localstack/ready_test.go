// Package localstack holds no code: its test runs the ready hook.
package localstack

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/portcullis-mcp/portcullis/localstack/emulator"
	"github.com/portcullis-mcp/portcullis/pkg/approval"
	"github.com/portcullis-mcp/portcullis/pkg/approval/dynamo"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	s3store "github.com/portcullis-mcp/portcullis/pkg/object/s3"
)

// The hook makes the bucket and the table on an emulator, with the example config in it, and does
// nothing more when it runs again.
func TestReadyHookMakesTheData(t *testing.T) {
	endpoint := emulator.Start(t)
	python := filepath.Join(filepath.Dir(os.Getenv("PORTCULLIS_MINISTACK")), "python") // has boto3
	if _, err := exec.LookPath(python); err != nil {
		t.Skipf("no Python with boto3 beside PORTCULLIS_MINISTACK: %v", err)
	}
	credentials := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
	})
	objects := s3store.New(s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true, Credentials: credentials, HTTPClient: http.DefaultClient}), "portcullis-data")
	approvals := dynamo.New(dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials}), "portcullis", nil)
	etag := ""
	for range 2 {
		cmd := exec.Command(python, filepath.Join("ready.d", "10-data.py"))
		cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+endpoint)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		o, err := objects.Get(t.Context(), config.Key, "")
		if err != nil || etag != "" && o.ETag != etag {
			t.Fatalf("config has the ETag %s, had %s: %v", o.ETag, etag, err)
		}
		if _, err := config.Parse(o.Data); err != nil {
			t.Errorf("the example config: %v", err)
		}
		etag = o.ETag
		if _, err := approvals.Baseline(t.Context(), "deepwiki"); !errors.Is(err, approval.ErrNotFound) {
			t.Errorf("the table answers %v", err)
		}
	}
}
