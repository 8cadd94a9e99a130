// Command sync is the Lambda function that brings the catalog up to date: on a
// schedule, when the config changes, and when it is invoked.
package main

import "github.com/portcullis-mcp/portcullis/internal/boot"

func main() {
	boot.Main("sync", func(f *boot.Function) (boot.Handler, error) { return handler{f.Program}, nil })
}
