package clientfile

import (
	"net/url"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// url reads a server's URL. The gateway keeps credentials only in headers. So url removes a
// credential from the URL, and imports the server as disabled, so that a person checks the server.
func (s *Server) url(n *rawjson.Node) {
	address, used := s.resolved(n)
	address = strings.TrimSpace(address)
	u, err := url.Parse(address)
	switch {
	case s.Left != "":
		return
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		s.leave("line %d has no http or https URL", s.line(n))
		return
	}
	host := (&entry{URL: address}).elsewhere()
	if len(used) > 0 && host != "" && s.options.Foreign {
		s.check("url", "sends %s to %s", text.List(used, 3), host)
	}
	if u.Fragment != "" {
		u.Fragment, u.RawFragment = "", ""
		s.note("without the part after # in its URL, which is never sent")
	}
	shorn := func(what string) {
		s.Disabled = true
		s.note("disabled, without %s of its URL in line %d: the gateway keeps credentials only in "+
			`headers. Add the header that its provider names, and take "enabled": false out`,
			what, s.line(n))
	}
	if u.User != nil {
		u.User = nil
		shorn("the user and password")
	}
	query, gone := u.Query(), []string{}
	for name, values := range query {
		isSecret := func(v string) bool { return secret.IsCredential(name, v) }
		if slices.ContainsFunc(values, isSecret) {
			query.Del(name)
			gone = append(gone, name)
		}
	}
	if slices.Sort(gone); len(gone) > 0 {
		u.RawQuery = query.Encode()
		shorn("the credential ?" + text.List(gone, 3) + "=")
	}
	if s.URL = u.String(); secret.IsCredential("", s.URL) {
		s.leave("a part of the path of its URL in line %d looks like a credential, which the "+
			"config would hold in clear: write the entry by hand if it is none", s.line(n))
	}
}

// leadsToGateway reports whether the entry leads to a Portcullis gateway.
func (s *Server) leadsToGateway() bool {
	if s.Command != "" {
		return base(s.Command) == "portcullis" && len(s.Args) > 0 && s.Args[0] == "stdio"
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return false
	}
	path := strings.TrimSuffix(u.Path, "/")
	return s.options.Own != nil && s.options.Own(s.URL) ||
		strings.Contains(path, "/mcp/x/") || strings.HasSuffix(path, "/mcp/readonly") ||
		strings.EqualFold(s.Name, "portcullis") && strings.HasSuffix(path, "/mcp") ||
		slices.ContainsFunc(s.marked, (*Variable).isGatewayToken)
}

// isGatewayToken reports whether the variable contains a token of a Portcullis gateway.
func (v *Variable) isGatewayToken() bool {
	isNamed := v.Name == "PCT" || strings.HasPrefix(v.Name+"_", "PORTCULLIS_TOKEN_")
	return strings.HasPrefix(v.Value.Reveal(), "pct_") || v.fixed && isNamed
}

// runners are the programs that start a package, with the subcommands that do so; "": none needed.
var runners = map[string][]string{
	"npx": {""}, "bunx": {""}, "pnpx": {""}, "pnpm": {"dlx", "exec"}, "yarn": {"dlx"},
	"npm": {"exec", "x"}, "bun": {"x"},
}

// words returns the program of a command and its arguments, without launchers: NAME … for the
// command cmd /c npx -y NAME …
func words(command string, args []*rawjson.Node) (name string, rest []*rawjson.Node) {
	name = base(command)
	if name == "cmd" && len(args) > 1 && strings.EqualFold(args[0].Text, "/c") {
		name, args = base(args[1].Text), args[2:]
	}
	subs, ok := runners[name]
	if !ok {
		return name, args
	}
	if subs[0] != "" {
		if len(args) == 0 || !slices.Contains(subs, args[0].Text) {
			return name, args
		}
		args = args[1:]
	}
	for len(args) > 0 && strings.HasPrefix(args[0].Text, "-") {
		args = args[1:]
	}
	if len(args) == 0 {
		return name, nil
	}
	return args[0].Text, args[1:]
}

// flagsWithValue are the flags of mcp-remote that take a value.
var flagsWithValue = map[string]bool{
	"--header": true, "--transport": true, "--host": true, "--ignore-tool": true,
	"--auth-timeout": true, "--resource": true,
	"--static-oauth-client-metadata": true, "--static-oauth-client-info": true,
}

// unwrapped reports whether the command is mcp-remote. If it is, unwrapped reads the server at the
// URL in its arguments, instead of the program.
func (s *Server) unwrapped(command *rawjson.Node, args []*rawjson.Node, env *rawjson.Node) bool {
	name, rest := words(command.Text, args)
	if name = base(name); name != "mcp-remote" && !strings.HasPrefix(name, "mcp-remote@") {
		return false
	}
	at := slices.IndexFunc(rest, func(n *rawjson.Node) bool {
		return !strings.HasPrefix(n.Text, "-")
	})
	if at < 0 {
		return false
	}
	s.How = "URL, instead of mcp-remote"
	s.url(rest[at])
	if !s.flags(slices.Concat(rest[:at], rest[at+1:]), env) {
		s.note("if mcp-remote signed in there in a browser, sign the gateway in with " +
			"portcullis servers login, or give the server a token in a header")
	}
	return true
}

// flags reads the flags of mcp-remote, and reports whether they include a header.
func (s *Server) flags(rest []*rawjson.Node, env *rawjson.Node) (hasHeader bool) {
	for i := 0; i < len(rest); i++ {
		at := rest[i]
		flag, value, assigned := strings.Cut(at.Text, "=")
		if flagsWithValue[flag] && !assigned && i+1 < len(rest) {
			i++
			at, value = rest[i], rest[i].Text
		}
		switch flag {
		case "--header":
			name, content, ok := strings.Cut(value, ":")
			if !ok {
				s.leave("the header in line %d is not NAME:VALUE", s.line(at))
				continue
			}
			hasHeader = true
			header := &rawjson.Node{Kind: '"', Text: strings.TrimSpace(content), Offset: at.Offset}
			s.header(strings.TrimSpace(name), fromEnv(header, env))
		case "--transport":
			if strings.HasPrefix(value, "sse") {
				s.note(notSSE)
			}
		case "--ignore-tool":
			s.DisabledTools = append(s.DisabledTools, s.glob("--ignore-tool", value)...)
		case "--allow-http", "--debug", "--silent", "--enable-proxy", "--host", "--auth-timeout":
		default:
			if strings.HasPrefix(flag, "-") {
				s.note("not imported: %s", text.Clip(text.Line(flag), 40))
			}
		}
	}
	return hasHeader
}

// fromEnv returns a value with its references to the entry's own environment resolved.
func fromEnv(value, env *rawjson.Node) *rawjson.Node {
	out := *value
	out.Text = reference.ReplaceAllStringFunc(value.Text, func(whole string) string {
		if v := textNode(env.Get(whole[2 : len(whole)-1])); v != nil {
			out.Offset = v.Offset
			return v.Text
		}
		return whole
	})
	return &out
}

// arguments reads the arguments of a program. It moves variables that docker passes on into the
// environment. A gateway replaces no variables in other arguments, so arguments leaves the server
// out if one of them has a credential or a reference.
func (s *Server) arguments(args []*rawjson.Node) {
	texts := make([]string, len(args))
	for i, a := range args {
		texts[i] = a.Text
	}
	secrets := secret.InArgs(texts)
	isSecret := func(part string) bool { return secret.IsCredential("", part) }
	program := base(s.Command)
	for i, a := range args {
		word, refers := s.refer(a)
		name, value, assigned := strings.Cut(a.Text, "=")
		isSet := assigned && isVariable(name)
		isPassed := i > 0 && (texts[i-1] == "-e" || texts[i-1] == "--env")
		parts := append(address.FindAllString(word, -1), word)
		switch {
		case a.Kind == '{' || a.Kind == '[':
			s.leave("the argument in line %d is no text", s.line(a))
			return
		case isSet && program == "env":
			s.leave("the command env sets a variable in line %d: in the client's file move it "+
				"to the member env, take the command env out, and import again", s.line(a))
			return
		case isSet && isPassed && (program == "docker" || program == "podman"):
			set := s.value(&rawjson.Node{Text: value, Offset: a.Offset}, name, name)
			if strings.Contains(set, "\x00") {
				s.Env, word = append(s.Env, Pair{name, set}), name
			}
		case refers, len(secrets[i]) > 0, slices.ContainsFunc(parts, isSecret):
			s.leave("the argument in line %d holds a credential or a variable, and a gateway "+
				"replaces none there: set it in env if the program reads it there, or write the "+
				`entry by hand, with sh -c 'exec … "$NAME"'`, s.line(a))
			return
		}
		s.Args = append(s.Args, word)
	}
}
