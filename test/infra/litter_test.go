package infra

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/local"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// If the first deploy fails, CloudFormation deletes the bucket. It cannot delete the protected
// table: docs/operate.md says what to do. If somebody deletes a stack, the bucket and the table
// remain.
func TestLitter(t *testing.T) {
	endpoint := emulator.Start(t)
	data, err := os.ReadFile(filepath.Join(root, "infra", "data.yaml"))
	require.OK(t, err)
	objects, db := emulator.S3(endpoint), dynamodb.NewFromConfig(emulator.Config(endpoint))
	there := func(bucket, table string) (b, d bool) {
		_, err := objects.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String(bucket)})
		_, missing := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table)})
		return err == nil, missing == nil
	}
	const fails = "  Fails:\n    Type: AWS::Lambda::Url\n    DependsOn: [Bucket, Table, BucketPolicy]\n" +
		"    Properties: {TargetFunctionArn: none, AuthType: NONE}\n\nOutputs:\n"
	failing := strings.Replace(string(data), "Outputs:\n", fails, 1)
	names := map[string]string{"BucketName": "litter-first", "TableName": "litter-first"}
	require.OK(t, emulator.Create(t, endpoint, "litter-first", failing, names))
	came := false
	local.Until(t, "the failed deploy is rolled back", func() bool {
		b, d := there("litter-first", "litter-first")
		came = came || d
		return came && !b
	})
	if _, d := there("litter-first", "litter-first"); !d {
		t.Error("CloudFormation deleted the protected table; docs/operate.md says that it stays")
	}

	names = map[string]string{"BucketName": "litter-second", "TableName": "litter-second"}
	emulator.Deploy(t, endpoint, "litter-second", filepath.Join(root, "infra", "data.yaml"), names)
	emulator.Destroy(t, endpoint, "litter-second")
	if b, d := there("litter-second", "litter-second"); !b || !d {
		t.Errorf("after the stack is deleted: bucket exists %v, table exists %v, want both", b, d)
	}
}
