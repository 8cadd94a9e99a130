// Package bootaws builds the functions that run on AWS. It is not in package boot, so that the
// operator's program links neither DynamoDB nor the Lambda runtime.
package bootaws

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/aws/kms"
	secretaws "github.com/portcullis-mcp/portcullis/pkg/aws/secrets"
	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/connection"
)

// Clients holds the AWS clients of a function.
type Clients struct {
	Stores  boot.Stores
	Secrets secret.Source
	Vault   connection.Keys // nil: the settings name no key
	Config  aws.Config
}

// OpenBucket returns the store of objects in a bucket: [s3.Open], or [s3.OpenReader] for a function
// that only reads.
type OpenBucket func(c aws.Config, bucket string) object.Store

// NewClients builds the clients without any request. The settings must have a bucket and a table.
func NewClients(s boot.Settings, log *slog.Logger, open OpenBucket) (Clients, error) {
	var faults []error
	if s.Bucket == "" {
		faults = append(faults, errors.New("PORTCULLIS_BUCKET is not set: the S3 bucket of config, policy and catalog"))
	}
	if s.Table == "" {
		faults = append(faults, errors.New("PORTCULLIS_TABLE is not set: the DynamoDB table of the approvals"))
	}
	if err := errors.Join(faults...); err != nil {
		return Clients{}, err
	}
	c := functionConfig(log)
	stores := c
	stores.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout = answerTime
	})
	db := dynamodb.NewFromConfig(stores)
	table := dynamo.New(db, s.Table, &store.Options{KeepAudit: s.KeepAudit})
	a := Clients{Stores: boot.NewStores(open(stores, s.Bucket), table), Secrets: secretaws.New(c), Config: c}
	a.Stores.Events = dynamo.NewEvents(db, s.Table, &store.Options{KeepAudit: s.KeepAudit})
	a.Stores.Sessions = session.NewStore(table)
	if s.VaultKey != "" {
		a.Vault = kms.New(stores, s.VaultKey)
	}
	return a, nil
}

// answerTime is how long one attempt of an S3, DynamoDB or KMS call waits for the first byte of the
// answer. The SDK then retries, so a caller without a deadline does not wait for a lost answer.
const answerTime = 3 * time.Second

// functionConfig reads region, credentials and addresses from the environment, where Lambda puts
// them, and fills in the defaults of the SDK. The SDK's own reader also supports files, SSO and
// roles. It therefore links five more services, which would add 0.08 MB to each function's zip.
func functionConfig(log *slog.Logger) aws.Config {
	c := aws.Config{
		Region: os.Getenv("AWS_REGION"), Logger: sdkLog{log}, ConfigSources: []any{endpointEnv{}},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
		AccountIDEndpointMode:      aws.AccountIDEndpointModePreferred,
	}
	key := aws.Credentials{
		AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken: os.Getenv("AWS_SESSION_TOKEN"),
	}
	c.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return key, nil
	})
	if base := os.Getenv("AWS_ENDPOINT_URL"); base != "" {
		c.BaseEndpoint = &base
	}
	return c
}

// endpointEnv tells the SDK which kind of endpoint to use.
type endpointEnv struct{}

// GetUseFIPSEndpoint reports whether the SDK uses endpoints that comply with FIPS 140.
func (endpointEnv) GetUseFIPSEndpoint(context.Context) (aws.FIPSEndpointState, bool, error) {
	return aws.FIPSEndpointStateEnabled, os.Getenv("AWS_USE_FIPS_ENDPOINT") == "true", nil
}

// GetUseDualStackEndpoint reports whether the SDK uses endpoints that also support IPv6.
func (endpointEnv) GetUseDualStackEndpoint(context.Context) (aws.DualStackEndpointState, bool, error) {
	return aws.DualStackEndpointStateEnabled, os.Getenv("AWS_USE_DUALSTACK_ENDPOINT") == "true", nil
}

// sdkLog writes the SDK's own messages as JSON. Without it they would be plain text.
type sdkLog struct{ log *slog.Logger }

// Logf implements [logging.Logger].
func (l sdkLog) Logf(c logging.Classification, format string, v ...any) {
	level := slog.LevelDebug
	if c == logging.Warn {
		level = slog.LevelWarn
	}
	l.log.LogAttrs(context.Background(), level, "aws sdk", slog.String("said", fmt.Sprintf(format, v...)))
}
