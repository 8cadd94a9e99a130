package cli

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	bootadmin "github.com/portcullis-mcp/portcullis/internal/boot/admin"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/internal/demo"
	"github.com/portcullis-mcp/portcullis/pkg/agent/mcphttp"
	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/capacity"
	"github.com/portcullis-mcp/portcullis/pkg/people/notify"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
)

// A serveCmd is portcullis serve.
type serveCmd struct {
	Dir           string `default:"." placeholder:"DIR" help:"Folder that holds config/mcp_config.json, config/policy.cedar and the gateway's state."`
	Actor         string `default:"${user}" help:"Name of the person in the audit for decisions made with the admin key."`
	Addr          string `default:"127.0.0.1:8080" help:"Address to listen on."`
	AllowCommands bool   `help:"Start the servers of the config that have a command. They run with your user's rights: allow it only for a config whose commands you know."`
	ForClient     bool   `hidden:"" help:"Run until standard input ends, as portcullis stdio starts it."`
	Demo          bool   `help:"Also start two small MCP servers, with a config that shows every kind of lock."`
}

// Validate implements kong's check of flags.
func (c serveCmd) Validate() error {
	if c.Actor == "" {
		return errNobody
	}
	return nil
}

// Run answers requests and syncs until ctx ends.
func (c serveCmd) Run(ctx context.Context, env *environment) error {
	switch {
	case c.Dir == "." && c.Demo:
		c.Dir = filepath.Join(".portcullis", "demo")
	// a folder that --dir names may get its config later
	case c.Dir == "." && !folder.HasGateway(c.Dir):
		return folder.NoGateway(c.Dir)
	}
	if c.ForClient {
		return c.forClient(ctx, env)
	}
	err := c.start(ctx, env)
	if s, runs := folder.FindInfo(c.Dir); err != nil && runs && s.Client {
		return fmt.Errorf("%w; process %d holds the folder: portcullis stdio started that gateway for a client, and it ends when the client has left and the first sync is over", err, s.PID)
	}
	return err
}

// start listens, and runs the gateway.
func (c serveCmd) start(ctx context.Context, env *environment) error {
	listener, err := c.listen(ctx)
	if err != nil {
		return err
	}
	// only a new folder needs disk space
	if err = c.serveListener(ctx, listener, env); capacity.IsDiskFull(err) {
		return fmt.Errorf("%w; the gateway was not started: a new folder needs room for its keys and its store: free some space, then start it again", err)
	}
	return err
}

func (c serveCmd) listen(ctx context.Context) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("--addr %q: %w; nothing was started: if your gateway runs there, "+
			"use that gateway; otherwise name another address", c.Addr, err)
	}
	if err != nil {
		return nil, fmt.Errorf("--addr %q: %w", c.Addr, err)
	}
	return listener, nil
}

// serveListener answers requests to listener, and syncs, until ctx ends. It closes listener.
func (c serveCmd) serveListener(ctx context.Context, listener net.Listener, env *environment) error {
	defer listener.Close()
	addr := listener.Addr().(*net.TCPAddr) // every listener of "tcp" has this type
	settings, err := folder.Settings(env.getenv, addr)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(env.stderr, &slog.HandlerOptions{Level: settings.LogLevel}))
	collect := boot.TuneGC()
	defer collect()
	objects := dir.New(c.Dir)
	var ahead *state.Prefetch
	if !c.Demo { // the demo writes its config first
		reading, stop := context.WithCancel(ctx)
		defer stop()
		ahead = state.StartPrefetch(reading, objects, nil)
	}
	stores, err := folder.Open(c.Dir, settings, log)
	if err != nil {
		return err
	}
	stores.Objects = objects // both share one mapping of an object
	defer stores.Close(ctx)
	owner, err := c.owner(ctx, settings, addr, log)
	if err != nil {
		return fmt.Errorf("--dir %q: %w", c.Dir, err)
	}
	var servers *demo.Servers
	if c.Demo {
		if servers, err = demo.Start(ctx, stores.Objects); err != nil {
			return fmt.Errorf("--demo: %w", err)
		}
		defer servers.Close()
	}
	worker := notify.NewWorker()
	p := stores.Build(settings, boot.Options{
		Commands: c.AllowCommands, Progress: newProgress(env.stderr, false, "syncing", "server").sync, Owner: owner, Ahead: ahead,
		Ending: ctx.Done(), Sends: true, Wake: worker.Wake, Rest: folder.SyncEvery, Gate: newGate(log),
	})
	here := folder.Info{Address: reachedAt(addr), PID: os.Getpid(), Key: owner != nil, Client: c.ForClient}
	here.NoAdmin = lacksAdmin(ctx, settings.Access, token.NewStore(stores.Approvals))
	defer folder.KeepInfo(ctx, c.Dir, here, log)()
	defer p.Counter.Start(ctx)()
	defer worker.Start(ctx, p.Sender)()
	browsers := bootadmin.Browsers{Store: signin.NewStore(stores.Approvals, nil)}
	if owner != nil {
		browsers.Codes = signin.NewCodes(nil)
	}
	start := newBanner(env.stdout, p, addr, c, browsers.Codes)
	start.noAdmin, start.client = here.NoAdmin, env.client
	handler, err := bootadmin.Everything(p, browsers)
	if err != nil {
		return err
	}
	env.client.ready(here.Address)
	return serve(ctx, p, env.client.handler(handler), listener, func(ctx context.Context) {
		if ahead.Ready() { // let waiting requests run first, if there is a catalog to answer them
			p.Yielder.First(ctx)
		}
		collect()
		syncLoop(ctx, p, servers, start, cmp.Or(env.look, lookEvery))
	})
}

// reachedAt returns the URL at which this machine reaches a listener.
func reachedAt(addr *net.TCPAddr) string {
	if addr.IP.IsUnspecified() {
		addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: addr.Port}
	}
	return "http://" + addr.String()
}

// owner returns the owner of the gateway. It returns nil if callers authenticate. It also returns
// nil if other machines can reach the gateway, because a key in a folder and a plain cookie are
// then too weak.
func (c serveCmd) owner(ctx context.Context, s boot.Settings, addr *net.TCPAddr, log *slog.Logger) (*boot.Owner, error) {
	if !s.Access.Open() || !addr.IP.IsLoopback() {
		return nil, nil //nolint:nilnil // a gateway without an owner is valid
	}
	key, err := folder.AdminKey(ctx, c.Dir, log)
	return &boot.Owner{Name: c.Actor, Key: key}, err
}

// serve answers requests and runs syncs until ctx ends.
func serve(ctx context.Context, p *boot.Program, handler http.Handler, listener net.Listener, syncs func(context.Context)) (err error) {
	requests, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	defer p.Tracer.Close(ctx)
	server := newServer(requests, p.Gate.Handler(p.Yielder.Handler(handler)), p.Log)
	server.ConnContext = capacity.WithConn
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(p.Gate.Listener(listener)) }()

	ctx, cancel := context.WithCancel(ctx)
	synced := make(chan struct{})
	go func() {
		defer close(synced)
		syncs(ctx)
	}()
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	cancel()
	<-synced
	stop(context.WithoutCancel(ctx), server, patience, endRequests, p.Log)
	keepDecisions(context.WithoutCancel(ctx), p)
	folder.EndServers(context.WithoutCancel(ctx), p.Upstream)
	return err
}

// How long the program waits for a client that sends slowly or nothing.
const (
	headerTime  = 10 * time.Second
	requestTime = 30 * time.Second // until the body is complete; 4 MiB need 140 KB a second
	idleTime    = 2 * time.Minute  // between two requests of a connection
)

// newGate returns the limits of requests and connections of this process.
func newGate(log *slog.Logger) *capacity.Gate {
	// Read the pool of certificates now: Go reads it only once, and if no file descriptor were free
	// then, the pool would stay empty.
	_, _ = x509.SystemCertPool()
	return capacity.NewGate(capacity.Detect(), &capacity.GateOptions{Health: "/healthz", Agents: "/mcp", Refuse: mcphttp.RefuseBusy, Log: log})
}

// newServer returns a server that cancels its requests when base ends. It does not limit the time
// of an answer, because a sync may take minutes.
func newServer(base context.Context, h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, IdleTimeout: idleTime,
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context { return base },
	}
}

// patience is how long active requests may continue after a signal to stop. Supervisors usually
// kill the program after 10 s.
const patience = 6 * time.Second

// stop waits for active requests. If requests take longer than patience, it cancels them, so that
// they answer with an error. It closes their connections a second later.
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
	_ = server.Close() // only connections remain, so the error does not matter
}
