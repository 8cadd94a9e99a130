package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/token"
)

// placeFlags select the gateway of a command.
type placeFlags struct {
	Dir string `place:"" placeholder:"DIR" help:"Folder of the gateway. If a gateway runs on it, the command asks that gateway; otherwise it opens the files. Without --dir and --url: PORTCULLIS_URL, PORTCULLIS_DIR, the current folder if it has a config, or your own folder."`
	URL string `place:"" placeholder:"URL" help:"URL of a running gateway, such as https://gate.example.com. The credential is PORTCULLIS_TOKEN or, with --dir, that folder's admin key."`
}

// gatewayFlags are placeFlags with the name of the person who decides.
type gatewayFlags struct {
	placeFlags
	Actor string `default:"${user}" placeholder:"NAME" help:"Name of the person in the audit, if the command opens the folder."`
}

// Validate implements kong's check of flags.
func (f gatewayFlags) Validate() error {
	if f.Actor == "" {
		return errNobody
	}
	return nil
}

var errNobody = errors.New("--actor is empty: the audit must name somebody")

// folder returns the folder if --url is not set.
func (f placeFlags) folder() string { return cmp.Or(f.Dir, ".") }

// local returns the folder whose config a command changes.
func (f placeFlags) local() (string, error) {
	if f.URL != "" {
		return "", fmt.Errorf("the command changes a file of this machine, and the config of the "+
			"gateway at %s is elsewhere: %s in the folder of its portcullis serve, on AWS in its "+
			"bucket; nothing was changed. Run the command there with --dir, or on AWS change a "+
			"copy and run portcullis aws push", inLine(f.URL), config.Key)
	}
	return f.folder(), nil
}

// gatewayArgs returns the flags that select the same gateway in another command.
func (f placeFlags) gatewayArgs() (flags string) {
	if f.Dir != "" {
		flags = " --dir " + connect.Shell(f.Dir)
	}
	if f.URL != "" {
		flags += " --url " + connect.Shell(f.URL)
	}
	return flags
}

// A gateway is the gateway whose API a command calls: a running one, or one in this process on the
// files of a folder.
type gateway struct {
	*client.Client
	close func() // closes everything that was opened
}

// openFor returns the gateway of a command that has the tag "reads" or "changes" in the grammar.
// The tag's value is the command's name for errors. A command without such a tag gets an empty
// gateway.
func openFor(ctx context.Context, env *environment, command *kong.Node) (*gateway, error) {
	reads := command.Tag.Get("reads")
	name := cmp.Or(reads, command.Tag.Get("changes"))
	flags, ok := command.Target.Interface().(interface{ gateway() gatewayFlags })
	if !ok || name == "" {
		return &gateway{close: func() {}}, nil
	}
	return flags.gateway().openTo(ctx, env, name, folder.Options{ReadOnly: reads != ""})
}

func (f gatewayFlags) gateway() gatewayFlags { return f }

// open returns the gateway that the flags select. The caller closes it.
func (f gatewayFlags) open(ctx context.Context, env *environment, command string) (*gateway, error) {
	return f.openTo(ctx, env, command, folder.Options{})
}

// view opens the gateway for a command that only reads. It writes nothing into the folder.
func (f gatewayFlags) view(ctx context.Context, env *environment, command string) (*gateway, error) {
	return f.openTo(ctx, env, command, folder.Options{ReadOnly: true})
}

// openTo opens the gateway that the flags select. The options apply if this process opens the
// folder itself.
func (f gatewayFlags) openTo(
	ctx context.Context, env *environment, command string, how folder.Options,
) (*gateway, error) {
	at := func(base, keyFolder string) *gateway {
		key := func() (secret.Text, error) { return credential(env, keyFolder) }
		return &gateway{&client.Client{Command: command, Base: base, Credential: key}, func() {}}
	}
	if f.URL != "" {
		if strings.HasPrefix(f.URL, "http://") && !client.ToLoopback(f.URL) {
			fmt.Fprintln(env.stderr, "warning: --url begins with http://: "+
				"the credential goes over the network in clear")
		}
		return at(f.URL, f.Dir), nil
	}
	dir := f.folder()
	if !folder.HasGateway(dir) {
		return nil, fmt.Errorf("%s: %w, or a gateway that runs with --url", command, folder.NoGateway(dir))
	}
	s, here, err := folder.OpenGateway(ctx, dir, f.Actor, how, env.getenv, env.stderr)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", command, err)
	case here == nil: // a gateway runs
		if f.Actor != osUser() {
			fmt.Fprintln(env.stderr, "warning: a gateway runs on the folder, "+
				"and its audit names the holder of the credential, not --actor")
		}
		if !s.Key {
			dir = ""
		}
		return at(s.Address, dir), nil
	}
	end := func() { here.Close(context.WithoutCancel(ctx)) }
	return &gateway{&client.Client{Command: command, Base: s.Address, Transport: here}, end}, nil
}

// credential returns the credential of a folder, or of the environment.
func credential(env *environment, dir string) (secret.Text, error) {
	if dir == "" {
		return secret.New(env.getenv(client.TokenVariable)), nil
	}
	data, err := os.ReadFile(filepath.Join(dir, folder.KeyFile))
	if err != nil {
		return secret.Text{}, fmt.Errorf("the admin key: %w; only a gateway on one machine without authentication "+
			"has one: elsewhere leave --dir out, and set %s", err, client.TokenVariable)
	}
	key, ok := token.ReadAdmin(strings.TrimSpace(string(data)))
	if !ok {
		return secret.Text{}, fmt.Errorf("%s in %q holds no admin key", folder.KeyFile, dir)
	}
	return key, nil
}
