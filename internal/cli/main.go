// Package cli contains the commands of the program portcullis: serve, which runs the whole gateway
// on one port, and the commands for operators to check, decide and read.
package cli

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/term"

	"github.com/portcullis-mcp/portcullis/internal/boot/bucket"
)

// Main runs the program until it ends or gets a signal, and returns the exit code.
func Main() int {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
		if s, ok := (<-signals).(syscall.Signal); ok {
			os.Exit(exitSignal + int(s)) // a second signal ends the program at once
		}
	}()
	err := run(ctx, os.Args[1:], &environment{
		getenv: os.Getenv, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		terminal:    term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())),
		interrupted: ctx.Done(),
		colour:      term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && !slices.Contains([]string{"", "dumb"}, os.Getenv("TERM")),
		browse:      browser(os.Getenv),
		bucket:      bucket.Open,
		ownConfig:   os.UserConfigDir,
	})
	return exitCode(err, os.Stderr)
}
