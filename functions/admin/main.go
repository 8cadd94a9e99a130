// Command admin is the Lambda function behind /admin: where people decide which
// tools agents may call.
package main

import (
	"errors"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	bootadmin "github.com/portcullis-mcp/portcullis/internal/boot/admin"
	"github.com/portcullis-mcp/portcullis/pkg/aws/cloudwatch"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
)

func main() {
	boot.Main("admin", handler)
}

func handler(f *boot.Function) (boot.Handler, error) {
	var sync decide.Syncer = f.Program
	switch f.Settings.SyncFunction {
	case "":
		return nil, errors.New("PORTCULLIS_SYNC_FUNCTION is not set: the function that syncs")
	case boot.InProcess:
	default:
		sync = remote{f.Remote}
	}
	if group := f.Settings.UsageLogs; group != "" {
		f.Usage = cloudwatch.New(f.AWS.Config, group, cloudwatch.Options{Log: f.Log, Stack: f.Settings.Stack})
	}
	h, err := bootadmin.Handler(f.Program, sync, bootadmin.Browsers{Store: signin.NewStore(f.Stores.Approvals, nil)})
	if err != nil {
		return nil, err
	}
	return f.HTTP(h), nil
}
