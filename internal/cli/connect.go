package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/internal/cli/client"
	"github.com/portcullis-mcp/portcullis/internal/cli/clientfile"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
)

// A connectCmd is portcullis connect.
type connectCmd struct {
	askFlags
	Client   string       `arg:"" optional:"" placeholder:"CLIENT" help:"claude-desktop, claude-code, cursor, vscode, codex, gemini or windsurf. Without it, print the clients."`
	Toolset  string       `placeholder:"NAME" xor:"path" help:"Use the endpoint of one toolset or server: /mcp/x/NAME."`
	Path     string       `placeholder:"PATH" xor:"path" help:"Path of the endpoint, such as /mcp/readonly; default /mcp."`
	Auth     connect.Auth `placeholder:"HOW" enum:",none,bearer,oauth,signed" default:"" help:"How the client authenticates: none, bearer (a token), oauth, signed; default: the gateway's usual way."`
	Name     string       `default:"portcullis" placeholder:"NAME" help:"Name of the entry in the client."`
	TokenEnv string       `default:"PCT" placeholder:"VARIABLE" help:"Environment variable in which the client finds its token."`
	All      bool         `help:"With --write or --undo: every client that has a file here."`
	Write    bool         `xor:"do" help:"Put the entry into your own file of the client, for every folder, and keep a copy of the file."`
	Undo     bool         `xor:"do" help:"Remove the entry from your own file."`
	Project  bool         `xor:"file" help:"With --write or --undo: the client's file in this folder, for everybody who works on the project, not your own."`
	File     string       `xor:"file" placeholder:"FILE" help:"The client's file, if it is not where the client usually has it."`
	Replace  bool         `help:"With --write: replace another entry of that name."`
}

// Help implements kong's longer help.
func (connectCmd) Help() string {
	return `It prints a link, a command and a file. --write puts the entry into your own file of the client,
--write --project into the client's file in this folder. The rest of the file stays; --undo removes the entry. A token
can only be in your own file of Claude Desktop, and this command never writes one. Examples:

  portcullis connect
  portcullis connect claude-code
  portcullis connect cursor --write
  portcullis connect vscode --toolset github --url https://gate.example.com --write
  portcullis connect cursor --undo
  portcullis connect --all --write`
}

// Run prints the guide, or changes the client's file.
func (c connectCmd) Run(ctx context.Context, env *environment) error {
	err := c.run(ctx, env)
	if err != nil && !strings.HasPrefix(err.Error(), "connect: ") {
		return fmt.Errorf("connect: %w", err)
	}
	return err
}

// Validate implements kong's check of flags.
func (c connectCmd) Validate() error {
	if c.All && (c.Client != "" || c.File != "" || !c.Write && !c.Undo) {
		return errors.New("--all goes with --write or --undo, and with neither a client nor --file")
	}
	return c.gatewayFlags.Validate()
}

// connectAll runs the command for each client that has a file on this machine.
func (c connectCmd) connectAll(ctx context.Context, env *environment) error {
	machine, err := thisMachine(env)
	if err != nil {
		return err
	}
	c.All = false
	done := 0
	var failed []error
	for _, client := range clientfile.Clients() {
		own, project, err := machine.Files(client)
		if c.Project {
			own = project
		}
		if err != nil || !slices.ContainsFunc(own, exists) {
			continue
		}
		one := c
		one.Client = client.ID
		switch err := one.run(ctx, env); {
		case errors.Is(err, errNoEntry):
		case err != nil:
			failed = append(failed, fmt.Errorf("%s: %w", client.ID, err))
		default:
			done++
		}
	}
	if done == 0 && failed == nil {
		failed = append(failed, errors.New("no client here has a file that this changes; "+
			"nothing was changed"))
	}
	return errors.Join(failed...)
}

// exists reports whether a file exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (c connectCmd) run(ctx context.Context, env *environment) error {
	if c.All {
		return c.connectAll(ctx, env)
	}
	if c.Client == "" {
		return c.list(env)
	}
	client, ok := clientfile.Find(c.Client)
	if !ok {
		return fmt.Errorf("no client has the name %q; known clients: %s", c.Client, clientNames())
	}
	machine, err := thisMachine(env)
	if err != nil {
		return err
	}
	w := &connecting{connectCmd: c, env: env, client: client, machine: machine}
	if c.Undo {
		return w.undo()
	}
	guide, err := c.guide(ctx, env, client)
	if err != nil {
		return err
	}
	if c.Write {
		return w.write(ctx, guide)
	}
	if c.json() {
		return printJSON(env.stdout, guide)
	}
	return printWhole(env.stdout, func(out io.Writer) { w.show(out, guide) })
}

// list prints the clients.
func (c connectCmd) list(env *environment) error {
	if c.Write || c.Undo {
		return errors.New("name the client: " + clientNames())
	}
	known := connect.Clients()
	if c.json() {
		return printJSON(env.stdout, known)
	}
	return printWhole(env.stdout, func(w io.Writer) {
		t := newTable(w, "CLIENT", "WHAT IT IS", "FORM CHECKED", "RUN WITH")
		for _, client := range clientfile.Clients() {
			for _, k := range known {
				if k.ID == client.Guide {
					t.row(client.ID, k.Name, k.Checked, k.Run)
				}
			}
		}
		t.end()
	})
}

// guide returns the gateway's guide for the client. If there is --url without --dir and without an
// admin token, the gateway would not answer, and guide returns a guide that uses only the address.
func (c connectCmd) guide(ctx context.Context, env *environment, of clientfile.Client) (decide.Guide, error) {
	path := c.Path
	if c.Toolset != "" {
		path = "/mcp/x/" + url.PathEscape(c.Toolset)
	}
	var out decide.Guide
	var err error
	if c.URL != "" && c.Dir == "" && env.getenv(client.TokenVariable) == "" {
		out, err = c.guess(ctx, env, path)
	} else {
		out, err = c.ask(ctx, env, of, path)
	}
	if err != nil {
		return out, err
	}
	out.Guide, err = connect.For(of.Guide, connect.Endpoint{URL: out.URL, Auth: out.Auth, Name: c.Name, Variable: c.TokenEnv})
	return out, err
}

// ask reads the guide from the gateway.
func (c connectCmd) ask(ctx context.Context, env *environment, client clientfile.Client, path string) (out decide.Guide, err error) {
	g, err := c.view(ctx, env, "connect")
	if err != nil {
		return out, err
	}
	defer g.close()
	if out, err = g.Guide(ctx, client.Guide, path, c.Auth); err != nil {
		return out, err
	}
	if g.IsEmbedded() {
		fmt.Fprintf(env.stderr, "no gateway runs on %s now. Start portcullis serve, and the client finds it at %s\n", inLine(c.folder()), inLine(out.URL))
	}
	return out, nil
}

// guess returns a guide for a person who has no credentials for the gateway's admin API. It sends a
// request without credentials to the endpoint, and the answer shows how callers authenticate.
func (c connectCmd) guess(ctx context.Context, env *environment, path string) (out decide.Guide, err error) {
	address, err := client.Endpoint(c.URL)
	if err != nil {
		return out, fmt.Errorf("--url: %w", err)
	}
	if path != "" {
		if address, err = client.Address(c.URL, path); err != nil {
			return out, fmt.Errorf("--url: %w", err)
		}
	}
	out = decide.Guide{URL: address, Auth: c.Auth}
	if u, err := url.Parse(address); err == nil {
		out.Path = u.Path
	}
	if c.Auth == "" {
		out.Auth, err = seenAuth(ctx, address)
		if err != nil {
			return out, fmt.Errorf("%w; give --auth none, bearer, oauth or signed", err)
		}
	}
	fmt.Fprintf(env.stderr, "without %s the guide uses only the address. It does not check that agents find a tool there\n", client.TokenVariable)
	return out, nil
}

// seenAuth returns how callers of an endpoint authenticate. It sends a request without credentials,
// and reads the answer.
func seenAuth(ctx context.Context, address string) (connect.Auth, error) {
	status, header, err := askWithoutCredential(ctx, address)
	switch challenge := header.Get("WWW-Authenticate"); {
	case err != nil:
		return "", err
	case status == http.StatusUnauthorized && strings.Contains(challenge, "resource_metadata"):
		return connect.OAuth, nil
	case status == http.StatusUnauthorized:
		return connect.Bearer, nil
	case status == http.StatusForbidden:
		return connect.Signed, nil
	case status == http.StatusNotFound, status/100 == 3, status/100 == 5:
		return "", fmt.Errorf("%s answers %d: is there a gateway?", address, status)
	}
	return connect.None, nil
}

// askWithoutCredential sends an endpoint a request without a credential, and returns the status and
// the header of the answer.
func askWithoutCredential(ctx context.Context, address string) (int, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		return 0, nil, errors.New("--url: want a URL such as https://gateway.example.com")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := client.Send(10*time.Second, req)
	if err != nil {
		return 0, nil, fmt.Errorf("the gateway at %s does not answer", address)
	}
	return res.StatusCode, res.Header, res.Body.Close()
}
