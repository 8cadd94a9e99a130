// Command admin is the Lambda function behind /admin: where people decide which
// tools agents may call.
package main

import (
	"errors"

	metrics "github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	logs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	bootadmin "github.com/portcullis-mcp/portcullis/internal/boot/admin"
	"github.com/portcullis-mcp/portcullis/pkg/aws/cloudwatch"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/usage"
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
	f.Usage = usageOf(f)
	h, err := bootadmin.Handler(f.Program, sync, bootadmin.Browsers{Store: signin.NewStore(f.Stores.Approvals, nil)})
	if err != nil {
		return nil, err
	}
	return f.HTTP(h), nil
}

// usageOf returns what says how the tools are used: by the metrics and, if its name is set, by the log
// of the function that agents call.
func usageOf(f *boot.Function) usage.Source {
	c, o := f.AWS.Config, &cloudwatch.Options{Log: f.Log, Region: f.AWS.Config.Region, Stack: f.Settings.Stack}
	totals := cloudwatch.NewMetrics(metrics.NewFromConfig(c), o)
	if f.Settings.UsageLogs == "" {
		return totals
	}
	return cloudwatch.New(totals, logs.NewFromConfig(c), f.Settings.UsageLogs)
}
