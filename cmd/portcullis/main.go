// Command portcullis is the operator's program: it serves the whole gateway on one port without
// AWS, checks a folder's config and policy, and puts them into the bucket of a deployed gateway.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/object"
)

func main() {
	os.Exit(code())
}

// code runs the program until it is told to stop, and returns the exit code:
// 0, 1 for a fault, 2 for a command line that is not understood.
func code() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], &environment{
		getenv: os.Getenv, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		bucket: func(ctx context.Context, name string) (object.Store, error) { return boot.Bucket(ctx, name) },
	})
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "portcullis:", err)
	if _, usage := errors.AsType[*kong.ParseError](err); usage {
		fmt.Fprintln(os.Stderr, "portcullis --help lists the commands, portcullis COMMAND --help the flags of one")
		return 2
	}
	return 1
}
