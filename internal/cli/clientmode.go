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

// Clients close the standard input of a command that they have started, and kill it seconds later. So
// portcullis stdio starts the gateway of a folder as a process of its own, portcullis serve
// --for-client, which can end the first sync: a program that is being installed is not cut off.
//
// The gateway's standard input ends when the client leaves, however portcullis stdio ends. Its
// standard output has its address in a line once it answers, and then an error, or goesOn, if there
// is one.

const (
	// firstAnswer is how long an answer waits for the first sync of a folder.
	firstAnswer = 20 * time.Second

	// firstSync is how long that goes on after the client has left: the time that a program has
	// until its first message.
	firstSync = 10 * time.Minute

	// goesOn says that the client has left, and that the process stays for the first sync.
	goesOn = "the first sync goes on"
)

// A clientGateway is what a gateway for a client does beside serving. A nil clientGateway belongs to
// portcullis serve, and does nothing.
type clientGateway struct {
	out              io.Writer     // read by portcullis stdio
	ended, installed chan struct{} // closed when the first sync has ended, and when no program of it is starting
	end, install     func()        // close them
}

func newClientGateway(folder string, out io.Writer) *clientGateway {
	g := &clientGateway{out: out, ended: make(chan struct{}), installed: make(chan struct{})}
	g.end = sync.OnceFunc(func() { close(g.ended) })
	g.install = sync.OnceFunc(func() { close(g.installed) })
	if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(catalog.CurrentKey))); err == nil {
		g.synced(false) // an earlier one has made the catalog
	}
	return g
}

// ready says where the gateway answers.
func (g *clientGateway) ready(address string) {
	if g != nil {
		fmt.Fprintln(g.out, address)
	}
}

// synced notes that a sync has ended. If a program is starting, the next sync asks for it again.
func (g *clientGateway) synced(starting bool) {
	if g == nil {
		return
	}
	g.end()
	if !starting {
		g.install()
	}
}

// handler returns h, whose answers to agents wait for the first sync, each for a time.
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

// wait returns when the client has left and the first sync is through, or has taken too long.
func (g *clientGateway) wait(ctx context.Context, in io.Reader) {
	_, _ = io.Copy(io.Discard, in) // the end is all that comes
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
	// Standard error ends with portcullis stdio, and without this a line of the log would end the
	// process. The programs that it starts do not inherit it, as they would if the signal was ignored.
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
		return nil // portcullis stdio says so
	}
	return err
}
