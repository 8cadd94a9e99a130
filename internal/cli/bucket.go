package cli

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/store/s3"
)

// openBucket returns the named bucket as a store, with the credentials of whoever runs the program.
func openBucket(ctx context.Context, name string) (object.Store, error) {
	c, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}))
	if err != nil {
		return nil, fmt.Errorf("aws config: %w", err)
	}
	return s3.New(s3.NewClient(c), name), nil
}
