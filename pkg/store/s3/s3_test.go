package s3_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/object/objecttest"
	"github.com/portcullis-mcp/portcullis/pkg/store/s3"
	"github.com/portcullis-mcp/portcullis/test/emulator"
	"github.com/portcullis-mcp/portcullis/test/require"
)

// client returns a real client for the test's endpoint.
func client(endpoint string, transport http.RoundTripper) *awss3.Client {
	return awss3.NewFromConfig(emulator.Config(endpoint), func(o *awss3.Options) {
		o.UsePathStyle, o.HTTPClient = true, &http.Client{Transport: transport}
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return time.Millisecond, nil })
		})
	})
}

// TestOnAnEmulator runs against a new bucket of infra/data.yaml in each subtest.
func TestOnAnEmulator(t *testing.T) {
	endpoint := emulator.Start(t)
	run, buckets := time.Now().UnixNano(), 0
	bucket := func(t *testing.T) string {
		buckets++
		name := fmt.Sprintf("s3-test-%d-%d", run, buckets)
		outputs := emulator.Deploy(t, endpoint, name, "../../../infra/data.yaml", map[string]string{"DeletionProtection": "false", "BucketName": name})
		return outputs["BucketName"]
	}

	t.Run("the store fulfills its contract", func(t *testing.T) {
		objecttest.Run(t, func(t *testing.T) object.Store {
			return s3.New(client(endpoint, http.DefaultTransport), bucket(t))
		})
	})
	t.Run("a write whose answer is lost takes effect", func(t *testing.T) {
		objecttest.RunLost(t, func(t *testing.T) (object.Store, func()) {
			transport := new(emulator.Lossy)
			return s3.New(client(endpoint, transport), bucket(t)), transport.LoseNext
		})
	})
	t.Run("the error names a missing bucket", func(t *testing.T) {
		s := s3.New(client(endpoint, http.DefaultTransport), "no-such-bucket")
		_, get := s.Get(t.Context(), "a", "")
		_, put := s.Put(t.Context(), "a", nil, "")
		_, first := s.Put(t.Context(), "a", nil, object.IfAbsent)
		_, next := s.Put(t.Context(), "a", nil, `"e"`)
		gone := s.Delete(t.Context(), "a")
		for name, err := range map[string]error{"Delete": gone, "Get": get, "Put": put, "Put if absent": first, "Put if match": next} {
			if err == nil || !strings.Contains(err.Error(), `bucket "no-such-bucket"`) || errors.Is(err, object.ErrNotFound) || errors.Is(err, object.ErrConflict) {
				t.Errorf("%s = %v, want an error that names the bucket", name, err)
			}
		}
	})
	t.Run("the bucket is protected and outlives its stack", func(t *testing.T) {
		stack := fmt.Sprintf("s3-test-%d-guarded", run)
		outputs := emulator.Deploy(t, endpoint, stack, "../../../infra/data.yaml", map[string]string{"DeletionProtection": "false"})
		checkGuarded(t, client(endpoint, http.DefaultTransport), outputs["BucketName"])
		emulator.Destroy(t, endpoint, stack)
		checkGuarded(t, client(endpoint, http.DefaultTransport), outputs["BucketName"])
	})
}

// checkGuarded checks the protection that infra/data.yaml gives the bucket.
func checkGuarded(t *testing.T, c *awss3.Client, bucket string) {
	t.Helper()
	versioning, err := c.GetBucketVersioning(t.Context(), &awss3.GetBucketVersioningInput{Bucket: &bucket})
	if err != nil || versioning.Status != types.BucketVersioningStatusEnabled {
		t.Errorf("versioning is %+v, %v", versioning, err)
	}
	access, err := c.GetPublicAccessBlock(t.Context(), &awss3.GetPublicAccessBlockInput{Bucket: &bucket})
	require.OK(t, err)
	block := access.PublicAccessBlockConfiguration
	for name, on := range map[string]*bool{
		"BlockPublicAcls": block.BlockPublicAcls, "BlockPublicPolicy": block.BlockPublicPolicy,
		"IgnorePublicAcls": block.IgnorePublicAcls, "RestrictPublicBuckets": block.RestrictPublicBuckets,
	} {
		if on == nil || !*on {
			t.Errorf("%s is off", name)
		}
	}
	encryption, err := c.GetBucketEncryption(t.Context(), &awss3.GetBucketEncryptionInput{Bucket: &bucket})
	if err != nil || len(encryption.ServerSideEncryptionConfiguration.Rules) != 1 {
		t.Errorf("encryption is %+v, %v", encryption, err)
	}
	policy, err := c.GetBucketPolicy(t.Context(), &awss3.GetBucketPolicyInput{Bucket: &bucket})
	require.OK(t, err)
	if p := *policy.Policy; !strings.Contains(p, "aws:SecureTransport") || !strings.Contains(p, "Deny") {
		t.Errorf("the policy allows requests without TLS: %s", p)
	}
	events, err := c.GetBucketNotificationConfiguration(t.Context(), &awss3.GetBucketNotificationConfigurationInput{Bucket: &bucket})
	if err != nil || events.EventBridgeConfiguration == nil {
		t.Errorf("events are %+v, %v, want them on EventBridge", events, err)
	}
}
