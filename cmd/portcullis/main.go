// Command portcullis is the operator's program: it serves the whole gateway on one port without
// AWS, checks a folder's config and policy, and puts them into the bucket of a deployed gateway.
package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/term"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/object"
)

func main() {
	os.Exit(code())
}

// code runs the program until it is told to stop, and returns the exit code.
func code() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], &environment{
		getenv: os.Getenv, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		terminal:    term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())),
		interrupted: ctx.Done(),
		colour:      term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && !slices.Contains([]string{"", "dumb"}, os.Getenv("TERM")),
		browse:      browser(os.Getenv),
		bucket:      func(ctx context.Context, name string) (object.Store, error) { return boot.Bucket(ctx, name) },
	})
	return exitCode(err, os.Stderr)
}
