// Command mcp is the Lambda function behind /mcp: what agents call.
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
	f, err := boot.Start(ctx, "mcp", getenv, stdout)
	if err != nil {
		return err
	}
	h, err := f.Public()
	if err != nil {
		return err
	}
	serve(f.HTTP(h))
	return nil
}
