// Command sync is the Lambda function that brings the catalog up to date, on a schedule, when the
// config changes and when it is invoked, and that sends what people are told. Where a sync is
// distributed over functions, it is each of them: PORTCULLIS_SYNC_ROLE says which.
package main

import (
	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/aws/sns"
)

func main() {
	boot.Main("sync", func(f *boot.Function) (boot.Handler, error) {
		h := handler{program: f.Program}
		switch f.Settings.Fanout.Role {
		case boot.RoleWork:
			return workHandler{f.Worker(), f.Log}, nil
		case boot.RoleAssemble:
			return assembleHandler{f.Assemble, f.Log}, nil
		case boot.RolePlan:
			h.planner = f.Planner()
		}
		f.Sender.PublishBy(sns.New(f.AWS.Config))
		return h, nil
	})
}
