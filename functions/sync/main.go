// Command sync is the Lambda function that brings the catalog up to date, on a schedule, when the
// config changes and when it is invoked, and that sends what people are told.
package main

import (
	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/notify/sns"
)

func main() {
	boot.Main("sync", func(f *boot.Function) (boot.Handler, error) {
		f.Sender.PublishBy(sns.New(f.AWS.Config))
		return handler{f.Program}, nil
	})
}
