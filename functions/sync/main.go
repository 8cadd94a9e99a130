// Command sync is the Lambda function that brings the catalog up to date: on a
// schedule, when the config changes, and when it is invoked.
package main

import (
	"context"
	"io"
	"os"

	"github.com/portcullis-mcp/portcullis/internal/boot"
)

func main() {
	if err := run(context.Background(), os.Getenv, os.Stdout, boot.Serve); err != nil {
		boot.Refuse(os.Stdout, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, getenv func(string) string, stdout io.Writer, serve func(boot.Handler)) error {
	f, err := boot.Start(ctx, "sync", getenv, stdout)
	if err != nil {
		return err
	}
	serve(boot.SyncHandler{Program: f.Program})
	return nil
}
