// Command pushconfig puts a folder's config and policy into the bucket of a
// deployed gateway, where the sync function notices them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/object"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], func(ctx context.Context, bucket string) (object.Store, error) { return boot.Bucket(ctx, bucket) }, os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "pushconfig:", err)
		os.Exit(1)
	}
}
