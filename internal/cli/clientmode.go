package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/catalog"
)

// When a client ends, it closes the standard input of each command that it has started, and kills
// the command seconds later. So portcullis stdio starts the gateway of a folder as a separate
// process, portcullis serve --for-client. That process can finish the first sync, so the client
// does not abort the installation of a program.
//
// The gateway's standard input ends when portcullis stdio ends, for any reason. Once the gateway
// answers, it writes its address as a line to standard output. When the client leaves, the gateway
// writes goesOn if it stays for the first sync. If it ends with an error, it writes the error.

const (
	// firstAnswer is the maximum time that an answer waits for the first sync of a folder.
	firstAnswer = 20 * time.Second

	// firstSync is the maximum time that the first sync continues after the client has left. A
	// server program has the same time until its first message.
	firstSync = 10 * time.Minute

	// goesOn is the line with which the process reports that it stays for the first sync after the
	// client has left.
	goesOn = "the first sync goes on"
)

// A clientGateway holds the state of a gateway that runs for one client. It is nil for other
// gateways, and its methods then do nothing.
type clientGateway struct {
	out io.Writer // read by portcullis stdio
	// ended is closed after the first sync; installed is closed after a sync at whose end no
	// program is still starting
	ended, installed chan struct{}
	end, install     func() // close ended and installed
}

func newClientGateway(folder string, out io.Writer) *clientGateway {
	g := &clientGateway{out: out, ended: make(chan struct{}), installed: make(chan struct{})}
	g.end = sync.OnceFunc(func() { close(g.ended) })
	g.install = sync.OnceFunc(func() { close(g.installed) })
	for _, key := range catalog.CurrentKeys() {
		if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(key))); err == nil {
			g.synced(false) // an earlier sync has made the catalog
			break
		}
	}
	return g
}

// ready writes the gateway's address.
func (g *clientGateway) ready(address string) {
	if g != nil {
		fmt.Fprintln(g.out, address)
	}
}

// synced records that a sync has ended. If starting is set, a program is still starting, and the
// next sync calls synced again.
func (g *clientGateway) synced(starting bool) {
	if g == nil {
		return
	}
	g.end()
	if !starting {
		g.install()
	}
}

// handler wraps h: answers to agents wait a limited time for the first sync.
func (g *clientGateway) handler(h http.Handler) http.Handler {
	if g == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path+"/", "/mcp/") {
			select {
			case <-g.ended:
			case <-r.Context().Done():
			case <-time.After(firstAnswer):
			}
		}
		h.ServeHTTP(w, r)
	})
}

// wait returns when the client has left and the first sync has ended or taken too long.
func (g *clientGateway) wait(ctx context.Context, in io.Reader) {
	_, _ = io.Copy(io.Discard, in) // standard input never has data: only its end matters
	select {
	case <-g.installed:
		return
	default:
	}
	fmt.Fprintln(g.out, goesOn)
	select {
	case <-g.installed:
	case <-ctx.Done():
	case <-time.After(firstSync):
	}
}

// forClient runs the gateway until its client has left.
func (c serveCmd) forClient(ctx context.Context, env *environment) error {
	// Standard error closes when portcullis stdio ends. Without this call, the next log line would
	// end this process with SIGPIPE. signal.Ignore would also help, but the programs of servers
	// would inherit the setting.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	of := *env
	of.client, of.stdout = newClientGateway(c.Dir, env.stdout), env.stderr
	go func() {
		defer cancel()
		of.client.wait(ctx, env.stdin)
	}()
	err := c.start(ctx, &of)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; if a gateway runs there, start this command with --url", err)
	}
	if err == nil {
		return nil
	}
	if _, failed := fmt.Fprintln(env.stdout, err); failed == nil {
		return nil // portcullis stdio reports it
	}
	return err
}
