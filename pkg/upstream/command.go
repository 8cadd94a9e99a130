package upstream

import (
	"context"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/upstream/process"
)

// A Command starts a server that is a program. The program speaks MCP on its standard input and
// output, one message per line.
type Command struct {
	Path string            // of the program, or a name to look up in PATH
	Args []string          // passed unchanged
	Env  map[string]string // variables to set; values may hold ${env:…}, ${ssm:…}, ${secretsmanager:…}
	Pass []string          // names of further variables of this process to pass
	Dir  string            // working directory; "": this process's own
}

// programURL is the URL of requests to programs, because an HTTP request needs a URL. Nothing dials
// it.
var programURL = url.URL{Scheme: "stdio", Host: "program"}

// resolveCommand prepares a target whose server is a program.
func (c *Client) resolveCommand(ctx context.Context, t Target, key entryKey) (*endpoint, error) {
	if c.programs == nil {
		return nil, errNeedsCommand
	}
	ep := &endpoint{url: &programURL}
	env := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(t.Command.Env)) {
		value, err := c.expand(ctx, ep, "a variable of env", t.Command.Env[name])
		if err != nil {
			return nil, err
		}
		if strings.ContainsRune(value, 0) {
			return nil, &configError{msg: "a variable of env holds a zero byte"}
		}
		env[name] = value
	}
	all := process.Environment(os.Getenv, t.Command.Pass, env)
	for _, variable := range all {
		name, value, _ := strings.Cut(variable, "=")
		ep.addSecrets(variableSecrets(name, value)...)
	}
	ep.addSecrets(argSecrets(t.Command.Args)...)
	ep.transport = programTransport{c.programs, key, t.Shared, newRedactor(ep.values), process.Program{
		Path: t.Command.Path, Args: t.Command.Args, Dir: t.Command.Dir, Env: all,
	}, t.Command, t.Timeout}
	return ep, nil
}

// addSecrets adds texts that must not appear in an error or a result.
func (ep *endpoint) addSecrets(secrets ...string) {
	ep.values = append(ep.values, secrets...)
	ep.secrets = append(ep.secrets, secrets...)
}

// variableSecrets returns the parts of a variable that look like credentials: its value, the
// password of a URL, and parts of the URL's query. The URL may lack its scheme, as proxy URLs do.
func variableSecrets(name, value string) (secrets []string) {
	if secret.Looks(name, value) {
		secrets = append(secrets, value)
	}
	_, rest, isURL := strings.Cut(value, "://")
	if !isURL {
		rest = value
	}
	authority, _, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		_, password, _ := strings.Cut(authority[:at], ":")
		secrets = append(secrets, password) // the raw text, even if the URL is invalid
	}
	if u, err := url.Parse("http://" + rest); err == nil {
		_, credentials := urlSecrets(u)
		secrets = append(secrets, credentials...)
	}
	return secrets
}

// argSecrets returns the parts of a command line that look like credentials, and passwords in URLs.
func argSecrets(args []string) (secrets []string) {
	secrets = slices.Concat(secret.InArgs(args)...)
	for _, arg := range args {
		if name, value, assigned := strings.Cut(arg, "="); assigned && !strings.Contains(name, "/") {
			arg = value
		}
		if u, err := url.Parse(arg); err == nil && u.Host != "" {
			_, credentials := urlSecrets(u)
			secrets = append(secrets, credentials...)
		}
	}
	return secrets
}
