package main

import (
	"context"
	"errors"
	"flag"
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
	"github.com/portcullis-mcp/portcullis/internal/demo"
	"github.com/portcullis-mcp/portcullis/pkg/store/bolt"
	"github.com/portcullis-mcp/portcullis/pkg/store/dir"
)

// options are the command line.
type options struct {
	dir   string
	addr  string
	demo  bool
	actor string
	check string

	approvals string
	version   bool
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("local", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.dir, "dir", "", "folder that holds config/mcp_config.json, config/policy.cedar and the gateway's state")
	f.StringVar(&o.addr, "addr", "127.0.0.1:8080", "address to listen on")
	f.BoolVar(&o.demo, "demo", false, "start two small MCP servers beside the gateway, and a config that shows every kind of lock")
	f.StringVar(&o.actor, "actor", osUser(), "who the audit names for deeds at /admin, where that takes the admin key")
	f.StringVar(&o.check, "check", "", "check config and policy in this folder, say what they deny, and exit")
	f.StringVar(&o.approvals, "approvals", "", "after approvals.db lost something: restore lets what the tool catalog knows hold, accept what the file has; say what became of each tool, and exit")
	f.BoolVar(&o.version, "version", false, "print the program's version, and exit")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.version {
		return o, nil
	}
	var faults []error
	if f.NArg() > 0 {
		faults = append(faults, fmt.Errorf("argument %q is not understood: every setting is a flag", f.Arg(0)))
	}
	if o.check == "" && o.dir == "" {
		faults = append(faults, errors.New("-dir is required: the folder for config and state, such as -dir .portcullis"))
	}
	if _, ok := settlements[o.approvals]; !ok && o.approvals != "" {
		faults = append(faults, fmt.Errorf("-approvals %q is not understood: want restore or accept", o.approvals))
	}
	if o.actor == "" {
		faults = append(faults, errors.New("-actor is empty: the audit must name somebody"))
	}
	return o, errors.Join(faults...)
}

// run is the program; tests call it as main does.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	o, err := parseFlags(args, stderr)
	if err != nil {
		return err
	}
	if o.version {
		fmt.Fprintln(stdout, "portcullis", boot.LongVersion())
		return nil
	}
	if o.check != "" {
		return check(ctx, o.check, getenv, stdout)
	}
	if o.approvals != "" {
		return settleApprovals(ctx, o, stdout)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.addr)
	if err != nil {
		return fmt.Errorf("-addr %q: %w", o.addr, err)
	}
	defer listener.Close()
	settings, err := localSettings(getenv, listener.Addr())
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: settings.LogLevel}))
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return fmt.Errorf("-dir %q: %w", o.dir, err)
	}
	approvals, err := bolt.Open(filepath.Join(o.dir, approvalsFile), &bolt.Options{KeepAudit: settings.KeepAudit})
	if err != nil {
		return err
	}
	defer func() {
		if err := approvals.Close(); err != nil {
			log.LogAttrs(ctx, slog.LevelError, "approvals not closed cleanly", slog.Any("error", err))
		}
	}()
	objects := dir.New(o.dir)
	owner, err := ownerOf(ctx, o, settings, listener.Addr(), log)
	if err != nil {
		return fmt.Errorf("-dir %q: %w", o.dir, err)
	}

	var servers *demo.Servers
	if o.demo {
		if servers, err = demo.Start(ctx, objects); err != nil {
			return fmt.Errorf("-demo: %w", err)
		}
		defer servers.Close()
	}
	p := boot.New(settings, boot.Stores{Objects: objects, Approvals: approvals, Tokens: approvals}, boot.Options{
		Function: "local", Log: log, Progress: (&progress{w: stderr}).show, Owner: owner,
	})
	return serve(ctx, p, listener, servers, o, stdout)
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

// ownerOf returns to whom the gateway belongs; nil if it tells its callers apart, or if more
// than this machine reaches it, where a key in a folder and a plain cookie are too little.
func ownerOf(ctx context.Context, o options, s boot.Settings, addr net.Addr, log *slog.Logger) (*boot.Owner, error) {
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil || !s.Access.Open() || !ap.Addr().IsLoopback() {
		return nil, err
	}
	key, err := adminKey(ctx, o.dir, log)
	if err != nil {
		return nil, err
	}
	return &boot.Owner{Name: o.actor, Key: key}, nil
}

// serve answers requests and syncs until ctx ends.
func serve(ctx context.Context, p *boot.Program, listener net.Listener, servers *demo.Servers, o options, stdout io.Writer) error {
	actor, err := p.Actor(ctx)
	if err != nil {
		return err
	}
	handler, err := p.Everything(actor)
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
		syncLoop(ctx, p, servers, newBanner(stdout, p, listener.Addr(), o))
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
