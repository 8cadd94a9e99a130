package cli

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
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
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
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
		err = fmt.Errorf(
			"%w; process %d holds the folder: portcullis stdio started that gateway for a client, "+
				"and it ends when the client has left and the first sync is over",
			err,
			s.PID,
		)
	}
	if log, isJSON, _ := boot.LoadLog(env.getenv, env.stderr); isJSON && err != nil {
		log.LogAttrs(ctx, slog.LevelError, "gateway ended", slog.Any("error", err))
		return loggedError{err}
	}
	return err
}

// A loggedError is an error that the log already has.
type loggedError struct{ error }

func (e loggedError) Unwrap() error { return e.error }

// start listens, and runs the gateway.
func (c serveCmd) start(ctx context.Context, env *environment) error {
	listener, err := listen(ctx, "--addr", c.Addr,
		"if your gateway runs there, use that gateway; otherwise name another address")
	if err != nil {
		return err
	}
	// only a new folder needs disk space
	if err = c.serveListener(ctx, listener, env); capacity.IsDiskFull(err) {
		return fmt.Errorf(
			"%w; the gateway was not started: a new folder needs room for its keys and its store: "+
				"free some space, then start it again",
			err,
		)
	}
	return err
}

// listen listens at the address that a setting names. fix says what to do if another program does.
func listen(ctx context.Context, setting, addr, fix string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s %q: %w; nothing was started: %s", setting, addr, err, fix)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", setting, addr, err)
	}
	return listener, nil
}

// serveListener answers requests to listener, and syncs, until ctx ends. It closes listener.
func (c serveCmd) serveListener(
	ctx context.Context, listener net.Listener, env *environment,
) error {
	defer listener.Close()
	addr := listener.Addr().(*net.TCPAddr) // every listener of "tcp" has this type
	settings, err := folder.Settings(env.getenv, addr)
	if err != nil {
		return err
	}
	measured, err := listenMetrics(ctx, settings.Process)
	if err != nil {
		return err
	}
	defer measured.close()
	log := settings.Process.NewLog(env.stderr, settings.LogLevel)
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
		Commands: c.AllowCommands, Progress: syncProgress(settings.Process, env.stderr),
		Owner: owner, Ahead: ahead, Ending: ctx.Done(), Syncs: true, Sends: true,
		Wake: worker.Wake, Rest: folder.SyncEvery,
		Gate: newGate(log), Recorder: measured.recorder(),
	})
	here := folder.Info{
		Address: reachedAt(addr), PID: os.Getpid(), Key: owner != nil, Client: c.ForClient,
	}
	here.NoAdmin = lacksAdmin(ctx, settings.Access, token.NewStore(stores.Approvals))
	defer folder.KeepInfo(ctx, c.Dir, here, log)()
	defer p.Counter.Start(ctx)()
	defer worker.Start(ctx, p.Sender)()
	browsers := bootadmin.Browsers{
		Config: configFile{c.Dir}, Store: signin.NewStore(stores.Approvals, nil),
	}
	if owner != nil {
		browsers.Codes = signin.NewCodes(nil)
	}
	start := newBanner(env.stdout, p, addr, c, browsers.Codes)
	start.noAdmin, start.client = here.NoAdmin, env.client
	handler, err := bootadmin.Everything(p, browsers)
	if err != nil {
		return err
	}
	defer measured.serve(ctx, p, stores)()
	env.client.ready(here.Address)
	return serve(ctx, p, env.client, handler, listener, func(ctx context.Context) {
		if ahead.Ready() { // let waiting requests run first, if there is a catalog to answer them
			p.Yielder.First(ctx)
		}
		collect()
		syncLoop(ctx, p, servers, start, cmp.Or(env.look, lookEvery))
	})
}

// syncProgress returns the function that prints the progress of a sync, or nil if standard error
// has only JSON.
func syncProgress(s boot.Process, stderr io.Writer) func(catalog.Progress) {
	if s.LogJSON {
		return nil
	}
	return newProgress(stderr, false, "syncing", "server").sync
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
func (c serveCmd) owner(
	ctx context.Context, s boot.Settings, addr *net.TCPAddr, log *slog.Logger,
) (*boot.Owner, error) {
	if !s.Access.Open() || !addr.IP.IsLoopback() {
		return nil, nil //nolint:nilnil // a gateway without an owner is valid
	}
	key, err := folder.AdminKey(ctx, c.Dir, log)
	return &boot.Owner{Name: c.Actor, Key: key}, err
}

// serve answers requests and runs syncs until ctx ends.
func serve(
	ctx context.Context, p *boot.Program, client *clientGateway, handler http.Handler,
	listener net.Listener, syncs func(context.Context),
) (err error) {
	requests, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	defer p.Tracer.Close(ctx)
	handler = p.Gate.Handler(p.Yielder.Handler(client.handler(handler)))
	handler = mcphttp.Below(handler, p.Settings.BaseURL, p.Settings.AdminURL)
	server := newServer(requests, handler, p.Log)
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
	gate := p.Gate
	if client != nil {
		gate = nil // other clients start a gateway themselves once this one no longer listens
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		stop(context.WithoutCancel(ctx), server, gate, p.Settings.Process.Drain, endRequests, p.Log)
	}()
	<-synced
	<-drained
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
	return capacity.NewGate(capacity.Detect(), &capacity.GateOptions{
		Health: []string{boot.HealthPath, boot.LivePath, boot.ReadyPath},
		Agents: "/mcp", Refuse: mcphttp.RefuseBusy, Log: log,
	})
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
