package infra

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A deploy reports a bucket and a table that cannot work, with the step, and fails.
func TestDeployChecksData(t *testing.T) {
	program := filepath.Join(filepath.Dir(sam(t)), "python")
	endpoint := emulator.Start(t)
	bucket, table := emulator.S3(endpoint), dynamodb.NewFromConfig(emulator.Config(endpoint))
	for _, c := range []struct {
		name, want string // "": no fault
		spoil      func(t *testing.T, outputs map[string]string) error
	}{
		{"whole", "", func(*testing.T, map[string]string) error { return nil }},
		{"no versions", "keeps no old versions", func(t *testing.T, o map[string]string) error {
			off := &types.VersioningConfiguration{Status: types.BucketVersioningStatusSuspended}
			_, err := bucket.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
				Bucket: aws.String(o["BucketName"]), VersioningConfiguration: off,
			})
			return err
		}},
		{"no events", "sends no events to EventBridge", func(t *testing.T, o map[string]string) error {
			_, err := bucket.PutBucketNotificationConfiguration(t.Context(), &s3.PutBucketNotificationConfigurationInput{
				Bucket: aws.String(o["BucketName"]), NotificationConfiguration: &types.NotificationConfiguration{},
			})
			return err
		}},
		{"no index", "has no index decisions", func(t *testing.T, o map[string]string) error {
			_, err := table.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
				TableName: aws.String(o["TableName"]),
				GlobalSecondaryIndexUpdates: []dynamotypes.GlobalSecondaryIndexUpdate{
					{Delete: &dynamotypes.DeleteGlobalSecondaryIndexAction{IndexName: aws.String("decisions")}},
				},
			})
			return err
		}},
		{"no table", "does not exist", func(t *testing.T, o map[string]string) error {
			_, err := table.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String(o["TableName"])})
			return err
		}},
		{"no bucket", "does not exist", func(t *testing.T, o map[string]string) error {
			_, err := bucket.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: aws.String(o["BucketName"])})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			stack := "checked-" + strings.ReplaceAll(c.name, " ", "-")
			outputs := emulator.Deploy(t, endpoint, stack, filepath.Join(root, dataFile),
				map[string]string{"DeletionProtection": "false"})
			require.OK(t, c.spoil(t, outputs))
			cmd := exec.CommandContext(t.Context(), program, "infra/after_deploy.py", stack)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+endpoint, "AWS_ACCESS_KEY_ID=test",
				"AWS_SECRET_ACCESS_KEY=test", "AWS_DEFAULT_REGION=us-east-1")
			out, err := cmd.CombinedOutput()
			if (err != nil) != (c.want != "") || !strings.Contains(string(out), c.want) {
				t.Errorf("the check ends with %v and prints:\n%s", err, out)
			}
			if c.want != "" {
				t.Logf("%s", out)
			}
		})
	}
}
