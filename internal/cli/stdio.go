package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/relay"
)

// A stdioCmd is portcullis stdio.
type stdioCmd struct {
	placeFlags
	ClientID      string   `name:"client-id" placeholder:"ID" help:"Client id for the sign-in, if the gateway's issuer does not register clients automatically."`
	NoBrowser     bool     `help:"Print the address of the sign-in on standard error and open no browser."`
	SignIn        bool     `xor:"sign" help:"Sign in at the gateway of --url, print the result and end."`
	SignOut       bool     `xor:"sign" help:"Delete the sign-in at the gateway of --url, revoke it at the issuer and end."`
	Addr          string   `default:"127.0.0.1:8080" help:"Address for /admin, if a gateway starts for this client."`
	AllowCommands bool     `help:"Start the servers of the config that have a command, if a gateway starts for this client."`
	Actor         string   `default:"${user}" placeholder:"NAME" help:"Name of the person in the audit for decisions made with the admin key, if a gateway starts for this client."`
	Header        []string `placeholder:"NAME:VALUE" sep:"none" help:"Header of every request, such as X-MCP-Toolsets:github; repeatable."`
}

// Validate implements kong's check of flags.
func (c stdioCmd) Validate() error {
	if c.URL != "" && c.Dir != "" {
		return errors.New("--url and --dir name two gateways: leave one of them out")
	}
	if c.URL == "" && (c.SignIn || c.SignOut || c.ClientID != "") {
		return errors.New("--sign-in, --sign-out and --client-id need --url")
	}
	return nil
}

// Run forwards messages until the client closes standard input.
func (c stdioCmd) Run(ctx context.Context, env *environment) error {
	header, err := headerFlags(c.Header)
	if err != nil {
		return err
	}
	o := relay.Options{
		Header: header, Token: secret.New(env.getenv(client.TokenVariable)),
		Version: programVersion(),
	}
	if o.Log, _, err = boot.LoadLog(env.getenv, env.stderr); err != nil {
		return err
	}
	if c.URL == "" {
		return c.passOn(ctx, env, o)
	}
	if o.URL, err = client.Endpoint(c.URL); err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	hasCredential := o.Token.Reveal() != "" || header.Get("Authorization") != ""
	if c.SignIn || c.SignOut || !hasCredential {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		s, err := newGatewaySignIn(ctx, env, c, o.URL, o.Log)
		switch {
		case err != nil:
			return err
		case c.SignIn:
			return c.signInNow(ctx, env, s)
		case c.SignOut:
			return c.signOutNow(ctx, env, s)
		}
		o.SignIn = s
		err = relay.Run(ctx, env.stdin, env.stdout, o)
		cancel()
		s.running.Wait() // a code that was sent to the issuer is not lost
		return err
	}
	warnInClear(ctx, o)
	return relay.Run(ctx, env.stdin, env.stdout, o)
}

// passOn forwards messages to the gateway of a folder.
func (c stdioCmd) passOn(ctx context.Context, env *environment, o relay.Options) error {
	if c.Dir == "" {
		// with --dir, a folder needs no config yet, as for serve
		if c.Dir = "."; !folder.HasGateway(c.Dir) {
			return fmt.Errorf("stdio: %w, or a gateway that runs with --url", folder.NoGateway(c.Dir))
		}
	}
	g := &folderGateway{flags: c, stderr: env.stderr, log: o.Log}
	if err := g.find(ctx, folder.Info{}); err != nil {
		return err
	}
	o.URL, o.Transport = g.at.Address+"/mcp", g
	warnInClear(ctx, o)
	err := relay.Run(ctx, env.stdin, env.stdout, o)
	return errors.Join(err, g.leave(ctx))
}

func warnInClear(ctx context.Context, o relay.Options) {
	if strings.HasPrefix(o.URL, "http://") && o.Token.Reveal() != "" && !client.ToLoopback(o.URL) {
		o.Log.LogAttrs(ctx, slog.LevelWarn, "the credential goes over the network in clear: the URL begins with http://")
	}
}

func programVersion() string { return cmp.Or(boot.Version, "dev") }

// userAgent names this program to gateways and issuers.
func userAgent() string { return "portcullis/" + programVersion() }

// headerFlags reads the values of --header.
func headerFlags(lines []string) (http.Header, error) {
	h := http.Header{"User-Agent": {userAgent()}}
	for _, line := range lines {
		name, value, found := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found || !tool.IsHeaderName(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			// the error does not quote the header, which may contain a credential
			return nil, errors.New("--header: want NAME:VALUE")
		}
		h.Add(name, value)
	}
	return h, nil
}
