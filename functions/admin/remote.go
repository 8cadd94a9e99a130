package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/decide"
)

// A remote starts syncs in the sync function.
type remote struct {
	client   *lambda.Client
	function string
}

// Sync starts a sync and does not wait for it: it may last longer than an API's
// request may, and while one is running Lambda refuses a call that waits, but keeps
// one that does not until the function is free.
func (r remote) Sync(ctx context.Context) (catalog.Report, error) {
	_, err := r.client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &r.function, InvocationType: types.InvocationTypeEvent, Payload: []byte(`{"source":"portcullis.admin"}`),
	})
	if err != nil {
		return catalog.Report{}, fmt.Errorf("start the sync function: %w", err)
	}
	return catalog.Report{}, decide.ErrStarted
}
