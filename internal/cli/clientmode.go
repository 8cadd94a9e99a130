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

// Clients close the standard input of a command that they have started, and kill it seconds later.
// So portcullis stdio starts the gateway of a folder as a separate process, portcullis serve
// --for-client. That process can finish the first sync, so the installation of a program is not
// aborted.
//
// The gateway's standard input ends when the client leaves, however portcullis stdio ends. Its
// standard output contains a line with its address once it answers, and then an error or goesOn, if
// there is one.

const (
	// firstAnswer is how long an answer waits for the first sync of a folder.
	firstAnswer = 20 * time.Second

	// firstSync is how long the first sync may continue after the client has left: the time that a
	// program has until its first message.
	firstSync = 10 * time.Minute

	// goesOn says that the client has left, and that the process stays for the first sync.
	goesOn = "the first sync goes on"
)

// A clientGateway is the part of a gateway for a client in addition to serving. A nil clientGateway
// belongs to portcullis serve, and does nothing.
type clientGateway struct {
	out io.Writer // read by portcullis stdio
	// closed when the first sync has ended, and when none of its programs is starting
	ended, installed chan struct{}
	end, install     func() // close them
}

func newClientGateway(folder string, out io.Writer) *clientGateway {
	g := &clientGateway{out: out, ended: make(chan struct{}), installed: make(chan struct{})}
	g.end = sync.OnceFunc(func() { close(g.ended) })
	g.install = sync.OnceFunc(func() { close(g.installed) })
	if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(catalog.CurrentKey))); err == nil {
		g.synced(false) // an earlier sync has made the catalog
	}
	return g
}

// ready writes the gateway's address.
func (g *clientGateway) ready(address string) {
	if g != nil {
		fmt.Fprintln(g.out, address)
	}
}

// synced records that a sync has ended. If a program is starting, the next sync calls synced again.
func (g *clientGateway) synced(starting bool) {
	if g == nil {
		return
	}
	g.end()
	if !starting {
		g.install()
	}
}

// handler returns h. Its answers to agents wait a limited time for the first sync.
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
	_, _ = io.Copy(io.Discard, in) // it contains only its end
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
	// Standard error ends with portcullis stdio. Without this call a line of the log would then end
	// the process. The programs that it starts do not inherit the setting, as they would if the
	// signal was ignored.
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
