package boot

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/portcullis-mcp/portcullis/pkg/admin"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

// Admin returns the handler of /admin, whose syncs the sync function runs, or the program
// itself if the setting says so.
func (f *Function) Admin() (Handler, error) {
	actor, err := f.Actor(context.Background())
	if err != nil {
		return nil, err
	}
	if f.Settings.SyncFunction == "" {
		return nil, errors.New("PORTCULLIS_SYNC_FUNCTION is not set: the function that syncs")
	}
	var sync admin.Syncer = remote{lambda.NewFromConfig(f.aws.config), f.Settings.SyncFunction}
	if f.Settings.SyncFunction == inProcess {
		sync = f.Program
	}
	return f.HTTP(f.Program.Admin(actor, sync)), nil
}

// inProcess in the place of a function's name makes the admin function sync by itself, which
// `sam local` needs: there is no function that it could start.
const inProcess = "in-process"

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
	return catalog.Report{}, admin.ErrStarted
}
