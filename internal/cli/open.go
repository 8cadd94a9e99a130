package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
)

// An openCmd is portcullis open.
type openCmd struct {
	placeFlags
	Page string `placeholder:"PAGE" help:"Page of the console, such as requests, tools?status=pending_approval or servers/github."`
}

// Run opens the console.
func (c openCmd) Run(ctx context.Context, env *environment) error {
	at, keyDir, err := c.console()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if err := client.Reach(ctx, at); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if _, err := fmt.Fprintln(env.stdout, at); err != nil {
		return err
	}
	if keyDir != "" {
		fmt.Fprintf(env.stderr, "if the page asks for a key: the key is in %s\n", filepath.Join(keyDir, folder.KeyFile))
	}
	if env.browse == nil {
		fmt.Fprintln(env.stderr, "no browser can be started here: open the address yourself")
		return nil
	}
	startBrowser(ctx, env, at)
	return nil
}

// console returns the address of the page, and the folder that has the key for the page. keyDir is
// "" if there is no such folder, so that the page needs another credential.
func (c openCmd) console() (at, keyDir string, err error) {
	page, err := url.Parse(strings.TrimPrefix(strings.TrimPrefix(c.Page, "/"), "admin/"))
	if err != nil || page.IsAbs() || page.Host != "" || path.Clean("/"+page.Path) != strings.TrimSuffix("/"+page.Path, "/") && page.Path != "" {
		return "", "", fmt.Errorf("--page %q: want a page of the console, such as requests", c.Page)
	}
	base := c.URL
	if c.URL == "" {
		dir := c.folder()
		if !folder.HasGateway(dir) {
			return "", "", folder.NoGateway(dir)
		}
		s, runs, err := folder.Running(dir)
		if err != nil {
			return "", "", err
		}
		if !runs {
			return "", "", fmt.Errorf("no gateway runs on %q: start it with portcullis serve --dir %s", dir, connect.Shell(dir))
		}
		if base = s.Address; s.Key {
			keyDir = dir
		}
	}
	at, err = client.Address(base, "/admin")
	if err != nil {
		return "", "", fmt.Errorf("--url: %w", err)
	}
	if page.Path != "" {
		at += "/" + page.EscapedPath()
	}
	if page.RawQuery != "" {
		at += "?" + page.RawQuery
	}
	return at, keyDir, nil
}

// browser returns the function that starts a browser, or nil if none can be started here.
func browser(getenv func(string) string) func(context.Context, string) error {
	var words []string
	switch {
	case runtime.GOOS == "darwin":
		words = []string{"open"}
	case runtime.GOOS == "windows":
		words = []string{"rundll32", "url.dll,FileProtocolHandler"}
	case getenv("DISPLAY")+getenv("WAYLAND_DISPLAY") == "":
		return nil
	default:
		words = []string{"xdg-open"}
	}
	return func(ctx context.Context, at string) error {
		err := exec.CommandContext(ctx, words[0], append(words[1:], at)...).Run() //nolint:gosec // the address belongs to the gateway, and no shell interprets it
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("%s is not installed", words[0])
		}
		return err
	}
}
