// Command admin is the Lambda function behind /admin, where people decide which tools agents may
// call.
package main

import (
	"context"
	"errors"

	bootadmin "github.com/portcullis-mcp/portcullis/internal/boot/admin"
	bootaws "github.com/portcullis-mcp/portcullis/internal/boot/aws"
	"github.com/portcullis-mcp/portcullis/pkg/aws/cloudwatch"
	"github.com/portcullis-mcp/portcullis/pkg/aws/sns"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/store/s3"
)

func main() {
	bootaws.Main("admin", s3.Open, handler)
}

func handler(f *bootaws.Function) (bootaws.Handler, error) {
	var sync decide.Syncer = f.Program
	switch f.Settings.SyncFunction {
	case "":
		return nil, errors.New("PORTCULLIS_SYNC_FUNCTION is not set: want the name of the function that syncs")
	case bootaws.InProcess:
	default:
		sync = remote{f.Remote}
	}
	if group := f.Settings.UsageLogs; group != "" {
		f.Usage = cloudwatch.New(f.AWS.Config, group, cloudwatch.Options{Log: f.Log, Stack: f.Settings.Stack})
	}
	if topic := f.Settings.AlarmTopic; topic != "" {
		f.AlarmReceivers = sns.NewTopic(f.AWS.Config, topic).Confirmed
	}
	h, err := bootadmin.Handler(f.Program, sync, bootadmin.Browsers{Store: signin.NewStore(f.Stores.Approvals, nil)})
	if err != nil {
		return nil, err
	}
	return f.HTTP(h), nil
}

// A remote starts syncs in the sync function.
type remote struct{ function bootaws.SyncFunction }

// Sync starts a sync and does not wait for it.
func (r remote) Sync(ctx context.Context) (catalog.Report, error) {
	if err := r.function.Start(ctx, bootaws.SourceAdmin, ""); err != nil {
		return catalog.Report{}, err
	}
	return catalog.Report{}, decide.ErrStarted
}

// SyncServers starts a sync of every server: the sync function loads servers in parts.
func (r remote) SyncServers(ctx context.Context, _ []string) (catalog.Report, error) {
	return r.Sync(ctx)
}
