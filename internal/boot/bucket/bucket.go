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

// Open returns the named bucket as a store. It reads the person's credentials from the environment,
// files, SSO and roles. A function has its credentials in the environment, so it does not link this
// package.
func Open(ctx context.Context, name string) (object.Store, error) {
	c, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}))
	if err != nil {
		return nil, fmt.Errorf("aws config: %w", err)
	}
	return s3.Open(c, name), nil
}
