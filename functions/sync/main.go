// Command sync is the Lambda function that updates the catalog and sends notices. It runs on a
// schedule, after a config change and when it is invoked. In a distributed sync it runs as several
// functions; PORTCULLIS_SYNC_ROLE says which one.
package main

import (
	"context"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	bootaws "github.com/portcullis-mcp/portcullis/internal/boot/aws"
	"github.com/portcullis-mcp/portcullis/pkg/aws/sns"
	"github.com/portcullis-mcp/portcullis/pkg/aws/sqs"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/store/s3"
)

func main() {
	bootaws.Main("sync", s3.Open, func(f *bootaws.Function) (bootaws.Handler, error) {
		h, o := handler{program: f.Program}, f.Settings.Fanout
		h.queues = catalog.Queues{
			Work:     sqs.New(f.AWS.Config, o.Work),
			Assemble: sqs.New(f.AWS.Config, o.Assemble),
			Gather:   o.Gather,
		}
		switch o.Role {
		case boot.RoleWork:
			return workHandler{func(ctx context.Context, j catalog.Job) (catalog.LoadReport, error) {
				return f.Work(ctx, h.queues, j)
			}, f.Log}, nil
		case boot.RoleAssemble:
			return assembleHandler{f.Assemble, f.Log}, nil
		}
		h.isPlanner = o.Role == boot.RolePlan
		f.Sender.PublishBy(sns.New(f.AWS.Config))
		return h, nil
	})
}
