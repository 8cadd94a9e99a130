package infra

import (
	"errors"
	"fmt"
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
	"github.com/aws/aws-sdk-go-v2/service/sns"

	gatesns "github.com/portcullis-mcp/portcullis/pkg/aws/sns"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// A deploy reports a bucket and a table that cannot work, with the step, and fails.
func TestDeployChecksData(t *testing.T) {
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
		{"no table", "or deploy with ExistingTable and the name", func(t *testing.T, o map[string]string) error {
			_, err := table.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String(o["TableName"])})
			return err
		}},
		{"no bucket", "or deploy with ExistingBucket and the name", func(t *testing.T, o map[string]string) error {
			_, err := bucket.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: aws.String(o["BucketName"])})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			stack := "checked-" + strings.ReplaceAll(c.name, " ", "-")
			outputs := emulator.Deploy(t, endpoint, stack, filepath.Join(root, dataFile),
				map[string]string{"DeletionProtection": "false"})
			require.OK(t, c.spoil(t, outputs))
			out, err := afterDeploy(t, endpoint, stack)
			if (err != nil) != (c.want != "") || !strings.Contains(out, c.want) {
				t.Errorf("the check ends with %v and prints:\n%s", err, out)
			}
			if c.want != "" {
				t.Logf("%s", out)
			}
		})
	}
	out, err := afterDeploy(t, endpoint, "mistyped")
	if err == nil || !strings.Contains(out, "nothing was checked and no sync was started") {
		t.Errorf("the check of no stack ends with %v and prints:\n%s", err, out)
	}
}

// afterDeploy runs the checks after a deploy, and returns what they print.
func afterDeploy(t *testing.T, endpoint, stack string) (string, error) {
	t.Helper()
	python := filepath.Join(filepath.Dir(sam(t)), "python")
	cmd := exec.CommandContext(t.Context(), python, "infra/after_deploy.py", stack)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+endpoint, "AWS_ACCESS_KEY_ID=test",
		"AWS_SECRET_ACCESS_KEY=test", "AWS_DEFAULT_REGION=us-east-1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// newTopic creates a topic with one subscription, or none if protocol is "", and returns its ARN.
func newTopic(t *testing.T, endpoint, name, protocol, receiver string) string {
	t.Helper()
	topics := sns.NewFromConfig(emulator.Config(endpoint))
	topic, err := topics.CreateTopic(t.Context(), &sns.CreateTopicInput{Name: &name})
	require.OK(t, err)
	if protocol != "" {
		_, err = topics.Subscribe(t.Context(), &sns.SubscribeInput{
			TopicArn: topic.TopicArn, Protocol: &protocol, Endpoint: &receiver,
		})
		require.OK(t, err)
	}
	return *topic.TopicArn
}

// A deploy reports alarms that reach nobody, with the step. It fails only if the topic does not
// exist, because a person can confirm a subscription only after the deploy. The admin function
// counts the same receivers.
func TestDeployChecksAlarms(t *testing.T) {
	endpoint := emulator.Start(t)
	data := emulator.Deploy(t, endpoint, "data", filepath.Join(root, dataFile), nil)
	// The emulator confirms mailboxes itself.
	confirmed := newTopic(t, endpoint, "confirmed", "email", "ops@example.com")
	pending := newTopic(t, endpoint, "pending", "http", "http://127.0.0.1:9/")
	const missing = "arn:aws:sns:us-east-1:000000000000:missing"
	for _, c := range []struct {
		topic, want string // "": nothing about the alarms
		fails       bool
		receivers   int
	}{
		{confirmed, "", false, 1},
		{pending, "has no confirmed subscription. Open the link", false, 0},
		{missing, "does not exist, so no alarm reaches anybody. Deploy with", true, 0},
	} {
		name := c.topic[strings.LastIndexByte(c.topic, ':')+1:]
		template := filepath.Join(t.TempDir(), "stack.json")
		require.OK(t, os.WriteFile(template, fmt.Appendf(nil, `{
			"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}},
			"Outputs": {"BucketName": {"Value": %q}, "TableName": {"Value": %q}, "AlarmTopic": {"Value": %q}}}`,
			data["BucketName"], data["TableName"], c.topic), 0o600))
		emulator.Deploy(t, endpoint, "alarms-"+name, template, nil)
		out, err := afterDeploy(t, endpoint, "alarms-"+name)
		reported := strings.Contains(out, c.topic)
		if (err != nil) != c.fails || !strings.Contains(out, c.want) || reported != (c.want != "") {
			t.Errorf("%s: the check ends with %v and prints:\n%s", name, err, out)
		}
		n, err := gatesns.NewTopic(emulator.Config(endpoint), c.topic).Confirmed(t.Context())
		if n != c.receivers || errors.Is(err, object.ErrNotFound) != c.fails ||
			(err != nil) != c.fails {
			t.Errorf("%s: the gateway counts %d receivers: %v", name, n, err)
		}
		t.Logf("%s", out)
	}
}
