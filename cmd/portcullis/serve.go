package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/internal/bootadmin"
	"github.com/portcullis-mcp/portcullis/internal/demo"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
)

// A serveCmd is portcullis serve.
type serveCmd struct {
	folder
	Addr string `default:"127.0.0.1:8080" help:"Address to listen on."`
	Demo bool   `help:"Start two small MCP servers beside the gateway, with a config that shows every kind of lock."`
}

// Run answers requests and syncs until ctx ends.
func (c serveCmd) Run(ctx context.Context, env *environment) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("--addr %q: %w", c.Addr, err)
	}
	defer listener.Close()
	settings, err := localSettings(env.getenv, listener.Addr())
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(env.stderr, &slog.HandlerOptions{Level: settings.LogLevel}))
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("--dir %q: %w", c.Dir, err)
	}
	approvals, err := bolt.Open(filepath.Join(c.Dir, approvalsFile), &bolt.Options{KeepAudit: settings.KeepAudit})
	if err != nil {
		return err
	}
	defer func() {
		if err := approvals.Close(); err != nil {
			log.LogAttrs(ctx, slog.LevelError, "approvals not closed cleanly", slog.Any("error", err))
		}
	}()
	objects := dir.New(c.Dir)
	owner, err := c.owner(ctx, settings, listener.Addr(), log)
	if err != nil {
		return fmt.Errorf("--dir %q: %w", c.Dir, err)
	}

	var servers *demo.Servers
	if c.Demo {
		if servers, err = demo.Start(ctx, objects); err != nil {
			return fmt.Errorf("--demo: %w", err)
		}
		defer servers.Close()
	}
	p := boot.New(settings, boot.Stores{Objects: objects, Approvals: approvals, Tokens: approvals}, boot.Options{
		Log: log, Progress: (&progress{w: env.stderr}).show, Owner: owner,
	})
	return c.serve(ctx, p, listener, servers, env.stdout)
}

// localSettings are those of the environment with what goes without saying on
// one machine: loopback may be dialed, and a gateway that only this machine
// can reach lets every caller in unless told otherwise.
func localSettings(getenv func(string) string, addr net.Addr) (boot.Settings, error) {
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return boot.Settings{}, fmt.Errorf("address %q: %w", addr, err)
	}
	s, err := boot.Load(func(name string) string {
		v := getenv(name)
		switch {
		case v != "":
		case name == "PORTCULLIS_AUTH" && ap.Addr().IsLoopback():
			return "none"
		case name == "PORTCULLIS_BASE_URL" && ap.Addr().IsLoopback():
			return "http://" + addr.String()
		}
		return v
	})
	if err != nil {
		return s, err
	}
	s.SyncEvery = syncEvery
	s.AllowNets = append(s.AllowNets, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	return s, nil
}

// owner returns to whom the gateway belongs; nil if it tells its callers apart, or if more
// than this machine reaches it, where a key in a folder and a plain cookie are too little.
func (c serveCmd) owner(ctx context.Context, s boot.Settings, addr net.Addr, log *slog.Logger) (*boot.Owner, error) {
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil || !s.Access.Open() || !ap.Addr().IsLoopback() {
		return nil, err
	}
	key, err := adminKey(ctx, c.Dir, log)
	if err != nil {
		return nil, err
	}
	return &boot.Owner{Name: c.Actor, Key: key}, nil
}

// serve answers requests and syncs until ctx ends.
func (c serveCmd) serve(ctx context.Context, p *boot.Program, listener net.Listener, servers *demo.Servers, stdout io.Writer) error {
	handler, err := bootadmin.Everything(p)
	if err != nil {
		return err
	}
	requests, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	server := newServer(requests, handler, p.Log)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()

	ctx, cancel := context.WithCancel(ctx)
	synced := make(chan struct{})
	go func() {
		defer close(synced)
		syncLoop(ctx, p, servers, newBanner(stdout, p, listener.Addr(), c))
	}()
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	cancel()
	<-synced
	stop(context.WithoutCancel(ctx), server, patience, endRequests, p.Log)
	ending, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer done()
	p.Upstream.EndSessions(ending)
	return err
}

// patience is how long the requests in hand may go on after the program was told
// to stop. Whoever tells it kills it after 10 s as a rule.
const patience = 6 * time.Second

// stop lets the requests in hand end; those that take longer than patience are
// canceled, and answer so, or are cut off a second later.
func stop(ctx context.Context, server *http.Server, patience time.Duration, cancel context.CancelFunc, log *slog.Logger) {
	for _, limit := range []time.Duration{patience, time.Second} {
		stopping, done := context.WithTimeout(ctx, limit)
		err := server.Shutdown(stopping)
		done()
		if err == nil {
			return
		}
		log.LogAttrs(ctx, slog.LevelWarn, "requests are cut short", slog.Any("error", err))
		cancel()
	}
	_ = server.Close() // connections are all that is left; there is nothing to do about an error
}
