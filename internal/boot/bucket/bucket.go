// Package bucket opens the bucket of a deployed gateway for the person who runs the program.
package bucket

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"

	"github.com/portcullis-mcp/portcullis/pkg/base/object"
	"github.com/portcullis-mcp/portcullis/pkg/store/s3"
)

// Open returns the named bucket as a store. It takes the credentials of whoever runs the program, from
// files, SSO and roles too: functions, which have them in the environment, do not link what reads that.
func Open(ctx context.Context, name string) (object.Store, error) {
	c, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}))
	if err != nil {
		return nil, fmt.Errorf("aws config: %w", err)
	}
	return s3.New(s3.NewClient(c), name), nil
}
