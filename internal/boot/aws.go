package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	secretaws "github.com/portcullis-mcp/portcullis/pkg/aws/secrets"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/session"
	"github.com/portcullis-mcp/portcullis/pkg/store"
	"github.com/portcullis-mcp/portcullis/pkg/store/dynamo"
	s3store "github.com/portcullis-mcp/portcullis/pkg/store/s3"
)

// An AWS holds the clients of a deployed function.
type AWS struct {
	Stores  Stores
	Secrets secret.Source
	Config  aws.Config
}

// NewAWS builds the clients. It makes no call. Bucket and table must be set.
func NewAWS(s Settings, log *slog.Logger) (AWS, error) {
	var faults []error
	if s.Bucket == "" {
		faults = append(faults, errors.New("PORTCULLIS_BUCKET is not set: the S3 bucket of config, policy and catalog"))
	}
	if s.Table == "" {
		faults = append(faults, errors.New("PORTCULLIS_TABLE is not set: the DynamoDB table of the approvals"))
	}
	c, err := functionConfig(log)
	if err := errors.Join(append(faults, err)...); err != nil {
		return AWS{}, err
	}
	stores := c
	stores.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout = answerTime
	})
	db := dynamodb.NewFromConfig(stores)
	table := dynamo.New(db, s.Table, &store.Options{KeepAudit: s.KeepAudit})
	a := AWS{Stores: NewStores(s3store.New(newS3(stores), s.Bucket), table), Secrets: secretaws.New(c), Config: c}
	a.Stores.Events = dynamo.NewEvents(db, s.Table, &store.Options{KeepAudit: s.KeepAudit})
	a.Stores.Sessions = session.NewStore(table)
	return a, nil
}

// answerTime is how long one attempt of a call of S3 or DynamoDB waits until the answer begins. The SDK
// then tries again, so that one lost answer does not hold up whoever has no deadline of their own.
const answerTime = 3 * time.Second

// functionConfig reads the settings of the SDK in the environment, where Lambda puts region and
// credentials, and fills in the SDK's own defaults. The SDK's reader knows files, SSO and roles as
// well, and with that links four more services: 0.4 MB of each function's zip.
func functionConfig(log *slog.Logger) (aws.Config, error) {
	env, err := config.NewEnvConfig()
	if err != nil {
		return aws.Config{}, fmt.Errorf("aws config: %w", err)
	}
	c := aws.Config{
		Region: env.Region, AppID: env.AppID, RetryMode: env.RetryMode, RetryMaxAttempts: env.RetryMaxAttempts, ConfigSources: []any{env}, Logger: sdkLog{log},
		RequestChecksumCalculation: cmp.Or(env.RequestChecksumCalculation, aws.RequestChecksumCalculationWhenSupported),
		ResponseChecksumValidation: cmp.Or(env.ResponseChecksumValidation, aws.ResponseChecksumValidationWhenSupported),
		AccountIDEndpointMode:      cmp.Or(env.AccountIDEndpointMode, aws.AccountIDEndpointModePreferred),
		Credentials:                aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return env.Credentials, nil }),
	}
	if env.BaseEndpoint != "" {
		c.BaseEndpoint = &env.BaseEndpoint
	}
	return c, nil
}

// Bucket returns the named bucket as a store, for programs that need no more than that. It takes
// the credentials of whoever runs the program.
func Bucket(ctx context.Context, name string) (*s3store.Store, error) {
	c, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}))
	if err != nil {
		return nil, fmt.Errorf("aws config: %w", err)
	}
	return s3store.New(newS3(c), name), nil
}

func newS3(c aws.Config) *s3.Client {
	return s3.NewFromConfig(c, func(o *s3.Options) {
		o.UsePathStyle = o.BaseEndpoint != nil // an emulator has no name of its own for each bucket
		o.DisableLogOutputChecksumValidationSkipped = true
		// The SDK waits up to 20 s before it asks again, a request has two for this.
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) { r.MaxBackoff = 250 * time.Millisecond })
	})
}

// sdkLog takes what the SDK says on its own account, which would be plain text
// among lines of JSON.
type sdkLog struct{ log *slog.Logger }

// Logf implements [logging.Logger].
func (l sdkLog) Logf(c logging.Classification, format string, v ...any) {
	level := slog.LevelDebug
	if c == logging.Warn {
		level = slog.LevelWarn
	}
	l.log.LogAttrs(context.Background(), level, "aws sdk", slog.String("said", fmt.Sprintf(format, v...)))
}
