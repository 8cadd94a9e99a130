package config

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
)

// A Command says how to start a server that is a program on the gateway's own machine.
type Command struct {
	Path string   // of the program, or only its name
	Args []string // unchanged; they may contain credentials
	Env  Values   // values may contain ${secretsmanager:…}, ${ssm:…}, ${env:…}; they cannot be printed
	Dir  string   // its working directory; "": the gateway's
	Pass []string // names of the gateway's variables that the program gets too; from [Programs.Env]
}

// identity returns the URL that identifies the command. It does not depend on the environment. In
// the same way, the identity of a server with a URL does not depend on its headers.
func (c *Command) identity() string {
	canonical, err := rawjson.Encode(struct {
		Args    []string `json:"args"`
		Command string   `json:"command"`
		Cwd     string   `json:"cwd"`
	}{append([]string{}, c.Args...), c.Path, c.Dir})
	if err != nil {
		panic("config: identity: " + err.Error()) // strings can always be encoded
	}
	sum := sha256.Sum256(canonical)
	return "cmd:" + hex.EncodeToString(sum[:])
}

// Display returns the command line for people, without arguments that may be credentials.
func (c *Command) Display() string {
	words := append([]string{c.Path}, c.shownArgs()...)
	for i, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n\"'") {
			words[i] = string(rawjson.Quote(word))
		}
	}
	return strings.Join(words, " ")
}

// shownArgs returns the arguments without text that may be a credential: the value of a flag whose
// name suggests one, text in the form of a credential, and parts of URLs.
func (c *Command) shownArgs() []string {
	var out []string
	found := secret.InArgs(c.Args)
	for i, arg := range c.Args {
		for _, text := range found[i] {
			shown := strings.ReplaceAll(arg, text, hidden)
			if shown == arg { // quotes split the text into parts
				shown = hidden
			}
			arg = shown
		}
		if strings.Contains(arg, "://") {
			arg = hideCredentials(arg)
		}
		out = append(out, arg)
	}
	return out
}

// hidden replaces text that people may not see.
const hidden = "[secret]"

// hideCredentials returns a text that contains a URL, without the URL's user, password and query.
func hideCredentials(s string) string {
	scheme, rest, _ := strings.Cut(s, "://")
	host, path := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = hidden + host[i:]
	}
	if i := strings.IndexByte(path, '?'); i >= 0 {
		path = path[:i+1] + hidden
	}
	return scheme + "://" + host + path
}

// command checks how to start a server; nil if it has a URL.
func (c *checker) command(f *fileServer, n *rawjson.Node, path string) *Command {
	at := n.Get("command")
	if at == nil {
		c.unused(n, path, "belongs to a server with a command and is not used", "args", "env", "cwd")
		return nil
	}
	c.unused(n, path, "belongs to a server with a url and is not used", "headers", "behind_proxy")
	out := &Command{Args: f.Args, Env: c.env(n.Get("env"), path+".env")}
	if f.Command != nil {
		out.Path = *f.Command
	}
	if f.Cwd != nil {
		out.Dir = *f.Cwd
	}
	switch where := JoinPath(path, "command"); {
	case n.Get("url") != nil:
		c.fault(at, where, "conflicts with url: a server has either url or command")
	case strings.TrimSpace(out.Path) == "":
		c.fault(at, where, "is empty")
	}
	c.word(at, JoinPath(path, "command"), out.Path)
	c.word(n.Get("cwd"), JoinPath(path, "cwd"), out.Dir)
	shown, args := out.shownArgs(), n.Get("args")
	for i, arg := range out.Args {
		at, where := args.Kids[i], index(path+".args", i)
		if c.word(at, where, arg); shown[i] != arg {
			c.warn(at, where, "seems to hold a credential, and every process on the machine can read a program's arguments; put it into a variable in env")
		}
	}
	return out
}

// unused warns about keys that have no effect for this server.
func (c *checker) unused(n *rawjson.Node, path, why string, keys ...string) {
	for _, key := range keys {
		if at := n.Get(key); at != nil && !isEmpty(at) {
			c.warn(at, JoinPath(path, key), why)
		}
	}
}

// isEmpty reports whether n is an empty object, array or string.
func isEmpty(n *rawjson.Node) bool {
	return len(n.Kids) == 0 && n.Text == "" && (n.Object() || n.Array() || n.Kind == '"')
}

// word checks a part of a command line.
func (c *checker) word(n *rawjson.Node, path, s string) {
	if n == nil || c.bad[n] {
		return
	}
	if strings.ContainsRune(s, 0) {
		c.fault(n, path, "holds a zero byte")
	} else if strings.Contains(s, "${") {
		c.warn(n, path, "contains ${…}, which is replaced only in env and headers: the program gets it unchanged")
	}
}

// env checks the environment of a program. No message repeats a value.
func (c *checker) env(n *rawjson.Node, path string) Values {
	if n == nil || len(n.Keys) == 0 {
		return nil
	}
	out := Values{}
	for name, value := range n.All() {
		at, path := &rawjson.Node{Offset: value.NameOffset}, JoinPath(path, name)
		switch {
		case c.bad[value]:
		case name == "" || strings.ContainsAny(name, "=\x00"):
			c.fault(at, path, "is not the name of a variable")
		case strings.ContainsRune(value.Text, 0):
			c.fault(value, path, "holds a zero byte")
		default:
			c.value(value, path, name)
		}
		out[name] = secret.New(value.Text)
	}
	return out
}

// transport checks that the named transport fits the kind of server. Other programs write the name
// under several keys and in several spellings.
func (c *checker) transport(f *fileServer, n *rawjson.Node, path string) {
	command := n.Get("command") != nil
	for _, said := range [...]struct {
		key  string
		kind *string
	}{{"type", f.Type}, {"transport", f.Transport}, {"transportType", f.TransportType}} {
		if said.kind == nil || c.bad[n.Get(said.key)] {
			continue
		}
		at, where, kind := n.Get(said.key), JoinPath(path, said.key), *said.kind
		switch {
		case command && (kind == "stdio" || kind == "local"):
		case command:
			c.fault(at, where, "%q does not work with a command, which uses stdio", clip(kind))
		case slices.Contains([]string{"http", "streamable-http", "streamable_http", "streamableHttp", "streamableHTTP"}, kind):
		case kind == "sse":
			c.warn(at, where, "the gateway does not support the sse transport and tries streamable HTTP at this url; if that fails, find the server's url for streamable HTTP, often …/mcp")
		case kind == "stdio":
			c.fault(at, where, `a stdio server has a command and no url`)
		default:
			c.fault(at, where, "%q is not a transport; want http, streamable-http or stdio", clip(kind))
		}
	}
}

// enabled reads the key enabled, and the key disabled of other programs.
func (c *checker) enabled(f *fileServer, n *rawjson.Node, path string) bool {
	enabled := f.Enabled == nil || *f.Enabled
	if f.Disabled == nil {
		return enabled
	}
	if f.Enabled != nil && *f.Enabled == *f.Disabled {
		c.fault(n.Get("disabled"), JoinPath(path, "disabled"), "contradicts enabled; remove one of these keys")
	}
	return !*f.Disabled
}

// othersKey reports whether other programs read this key of a server and the gateway ignores it.
// note is a warning for the operator; "": none.
func othersKey(key string) (note string, known bool) {
	switch key {
	case "autoApprove", "alwaysAllow", "trust":
		return "key of another program, without effect here: approval, lists and policy decide which tools may be called", true
	case "envFile":
		return "key of another program, without effect here: the gateway does not read this file; put the variables into env", true
	case "description", "icon", "gallery", "dev", "watchPaths":
		return "", true
	}
	return "", false
}
