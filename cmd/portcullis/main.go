// Command local is the whole gateway on one port, without AWS: MCP at /mcp,
// the approvals API at /admin, /healthz. Its state is a folder and an
// embedded database, and it syncs by itself.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(code())
}

// code runs the program until it is told to stop, and returns the exit code.
func code() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 2
	case err != nil:
		fmt.Fprintln(os.Stderr, "portcullis:", err)
		return 1
	}
	return 0
}
