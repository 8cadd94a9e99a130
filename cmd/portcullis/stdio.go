package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/pkg/catalog"
	"github.com/portcullis-mcp/portcullis/pkg/relay"
	"github.com/portcullis-mcp/portcullis/pkg/secret"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// tokenVariable holds the credential for a gateway: a flag would show it to every process.
const tokenVariable = "PORTCULLIS_TOKEN"

// A stdioCmd is portcullis stdio.
type stdioCmd struct {
	URL           string   `placeholder:"URL" xor:"gateway" help:"Gateway that runs, to pass everything on to, such as https://gateway.example.com or http://127.0.0.1:8080/mcp/readonly. A credential for it is read from PORTCULLIS_TOKEN."`
	Dir           string   `placeholder:"DIR" xor:"gateway" help:"Folder of the gateway; without it, and without --url, the one that you are in. If a gateway runs on it everything is passed on to that one, else it runs in this process, as portcullis serve runs it."`
	Addr          string   `default:"127.0.0.1:8080" help:"Address for /admin, where the gateway runs in this process."`
	AllowCommands bool     `help:"Start the servers of the config that have a command, where the gateway runs in this process."`
	Actor         string   `default:"${user}" placeholder:"NAME" help:"Whom the audit names for decisions made with the admin key, where the gateway runs in this process."`
	Header        []string `placeholder:"NAME:VALUE" sep:"none" help:"Header of every request, such as X-MCP-Toolsets:github. May be given several times."`
}

// Help implements kong's longer help.
func (stdioCmd) Help() string {
	return `For clients that can only start a command. In their config:

  {"mcpServers": {"portcullis": {"command": "portcullis", "args": ["stdio", "--url", "http://127.0.0.1:8080"]}}}

and without a gateway that runs, over a folder:

  portcullis stdio --dir ~/portcullis --allow-commands

Messages go over standard input and output; everything else goes to standard error.`
}

// Run passes messages on until the client closes standard input.
func (c stdioCmd) Run(ctx context.Context, env *environment) error {
	header, err := headerFlags(c.Header)
	if err != nil {
		return err
	}
	o := relay.Options{Header: header, Token: secret.New(env.getenv(tokenVariable))}
	if c.URL == "" {
		switch there, err := c.running(ctx); {
		case err != nil:
			return err
		case there == "":
			return c.own(ctx, env, o)
		default:
			c.URL = there
		}
	}
	level := slog.LevelInfo
	if text := env.getenv("PORTCULLIS_LOG_LEVEL"); text != "" && level.UnmarshalText([]byte(text)) != nil {
		return fmt.Errorf("PORTCULLIS_LOG_LEVEL %q: want DEBUG, INFO, WARN or ERROR", text)
	}
	o.Log = slog.New(slog.NewTextHandler(env.stderr, &slog.HandlerOptions{Level: level}))
	if o.URL, err = endpoint(c.URL); err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	if strings.HasPrefix(o.URL, "http://") && o.Token.Reveal() != "" && !toLoopback(o.URL) {
		o.Log.LogAttrs(ctx, slog.LevelWarn, "the credential goes over the network in clear: the URL begins with http://")
	}
	return relay.Run(ctx, env.stdin, env.stdout, o)
}

// How long the first sync of a folder is waited for: by an answer, and after the client has left.
const (
	firstAnswer = 20 * time.Second
	firstSync   = time.Minute
)

// running returns where the gateway answers that runs on the folder; "": none does. It waits for
// one that only ends its first sync: that one takes no new client.
func (c *stdioCmd) running(ctx context.Context) (string, error) {
	if c.Dir == "" {
		if c.Dir = "."; !hasGateway(c.Dir) { // another folder is taken as it is, as by serve
			return "", fmt.Errorf("stdio: %w, or a gateway that runs with --url", noGateway(c.Dir))
		}
	}
	for {
		s, runs, err := runsOn(c.Dir)
		switch {
		case !runs:
			return "", err
		case !s.Ending:
			return s.Address, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(lookEvery / 10):
		}
	}
}

// A firstSyncs lets requests wait for the first sync of the gateway in this process, for a time.
type firstSyncs struct {
	ended chan struct{} // closed when it has ended
	over  <-chan struct{}
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (f firstSyncs) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-f.ended:
	case <-f.over:
	case <-r.Context().Done():
	}
	return f.next.RoundTrip(r)
}

// own runs the gateway of a folder and passes messages on to it. When the client leaves, a first
// sync that still runs ends first: the next start finds its tools.
func (c stdioCmd) own(ctx context.Context, env *environment, o relay.Options) error {
	gateway := serveCmd{Dir: c.Dir, Actor: c.Actor, Addr: c.Addr, AllowCommands: c.AllowCommands}
	listener, err := gateway.listen(ctx)
	if err != nil {
		return fmt.Errorf("%w; if a gateway runs there, start this command with --url", err)
	}
	o.URL = "http://" + listener.Addr().String() + "/mcp"
	o.Log = slog.New(slog.NewTextHandler(env.stderr, nil))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, synced := make(chan error, 1), make(chan struct{})
	first := sync.OnceFunc(func() { close(synced) })
	if _, err := os.Stat(filepath.Join(c.Dir, filepath.FromSlash(catalog.CurrentKey))); err == nil {
		first() // an earlier one has made the catalog
	}
	go func() {
		defer cancel() // nobody answers any more
		ended <- gateway.on(ctx, listener, &environment{getenv: env.getenv, stdout: env.stderr, stderr: env.stderr, synced: first})
	}()
	over, stop := context.WithTimeout(ctx, firstAnswer)
	defer stop()
	o.Transport = firstSyncs{synced, over.Done(), http.DefaultTransport}
	err = relay.Run(ctx, env.stdin, env.stdout, o)
	select {
	case <-synced:
	default:
		if s, ok := findServe(c.Dir); ok {
			s.Ending = true
			_ = announce(c.Dir, s) // or the next client loses this gateway when its sync has ended
		}
		o.Log.LogAttrs(ctx, slog.LevelInfo, "the client has left; the first sync is ended before the gateway")
		select {
		case <-synced:
		case <-ctx.Done():
		case <-time.After(firstSync):
		}
	}
	cancel()
	return errors.Join(err, <-ended)
}

// endpoint returns the URL of MCP at a gateway, whose path may be left out.
func endpoint(gateway string) (string, error) {
	u, err := url.Parse(gateway)
	switch {
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http":
		return "", errors.New("want a URL such as https://gateway.example.com") // the text may hold a credential
	case u.User != nil:
		return "", errors.New("holds a user or password; a credential is read from " + tokenVariable)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/mcp"
	}
	u.Fragment = ""
	return u.String(), nil
}

// toLoopback reports whether a URL leads to this machine.
func toLoopback(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// headerFlags reads what --header gives.
func headerFlags(lines []string) (http.Header, error) {
	h := http.Header{"User-Agent": {"portcullis/" + cmp.Or(boot.Version, "dev")}}
	for _, line := range lines {
		name, value, found := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found || !tool.IsHeaderName(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, errors.New("--header: want NAME:VALUE") // it may hold a credential
		}
		h.Add(name, value)
	}
	return h, nil
}
