package clientfile

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// A reader reads one file.
type reader struct {
	path    string
	format  Format
	project string // project folder of the file
	dollar  bool   // $NAME is a reference, as in Gemini CLI's file
	options Options
	lines   lines
	inputs  map[string]string // VS Code's questions: id → description
}

// line returns the line in which a value begins.
func (r *reader) line(n *rawjson.Node) int { return r.lines.lineOf(n.Offset) }

// holders are the paths at which the files of clients contain their servers.
var holders = [][]string{
	{"mcpServers"}, {"servers"}, {"mcp_servers"}, {"context_servers"},
	{"mcp", "servers"}, {"mcp.servers"}, {"mcp", "mcpServers"},
}

// file reads every server of a file.
func (r *reader) file(f *File, root *rawjson.Node) error {
	for _, n := range slices.Concat(root.List("inputs"), root.Get("mcp").List("inputs")) {
		r.inputs[n.TextOf("id")] = n.TextOf("description")
	}
	off := switchedOff(root)
	for _, path := range holders {
		n := root
		for _, name := range path {
			n = n.Get(name)
		}
		if err := r.servers(f, n, strings.Join(path, "."), off); err != nil {
			return err
		}
	}
	for name, value := range root.Get("projects").All() { // Claude Code has these
		r.project = name
		where := "mcpServers of the project " + text.Clip(name, 100)
		off := names(value.List("disabledMcpServers"))
		if err := r.servers(f, value.Get("mcpServers"), where, off); err != nil {
			return err
		}
	}
	return nil
}

// servers reads the members of one object, which may be absent.
func (r *reader) servers(f *File, n *rawjson.Node, where string, off map[string]bool) error {
	if n == nil {
		return nil
	}
	f.Found = true
	if !n.Object() {
		return &fault{Place{r.path, r.line(n)}, where + " is no object"}
	}
	for name, value := range n.All() {
		place := Place{r.path, r.lines.lineOf(value.NameOffset)}
		if r.format == TOML && !value.Object() {
			return &fault{place, where + "." + text.Clip(name, 64) + " is no table"}
		}
		s := &Server{Name: fit(name), Place: place, reader: r}
		if s.Name != name {
			s.Was = name
			s.note("was called %s", text.Quote(name, 64))
		}
		s.read(value)
		s.Disabled = s.Disabled || off[name]
		f.Servers = append(f.Servers, s)
	}
	return nil
}

// switchedOff returns the names of servers that another member of Gemini CLI's file turns off.
func switchedOff(root *rawjson.Node) map[string]bool {
	off := names(root.Get("mcp").List("excluded"))
	if root.Get("mcp").Get("allowed").Array() {
		on := names(root.Get("mcp").List("allowed"))
		for name := range root.Get("mcpServers").All() {
			off[name] = off[name] || !on[name]
		}
	}
	return off
}

func names(list []*rawjson.Node) map[string]bool {
	out := map[string]bool{}
	for _, e := range list {
		out[e.Text] = true
	}
	return out
}

// knownMembers are the members of an entry that the reader reads, or that a gateway does not need.
var knownMembers = strings.Fields(`
	type transport transportType description icon gallery dev version name source required
	trust autoApprove alwaysAllow startup_timeout_sec startup_timeout_ms tool_timeout_sec timeout
	url serverUrl httpUrl headers http_headers env_http_headers bearer_token_env_var headersHelper
	command args env env_vars envFile cwd enabled disabled
	auth oauth authProviderType oauth_resource
	enabled_tools includeTools disabled_tools excludeTools disabledTools`)

// read reads the entry.
func (s *Server) read(n *rawjson.Node) {
	if !n.Object() {
		s.Left = "it is no object"
		return
	}
	s.Disabled = n.Get("disabled").Is(true) || n.Get("enabled").Is(false)
	s.EnabledTools = s.globs(n, "enabled_tools", "includeTools")
	s.DisabledTools = s.globs(n, "disabled_tools", "excludeTools", "disabledTools")
	s.Timeout = timeoutOf(n)
	isKnown := func(name string) bool { return slices.Contains(knownMembers, name) }
	if more := slices.DeleteFunc(slices.Clone(n.Keys), isKnown); len(more) > 0 {
		s.note("not imported: %s", text.List(more, 6))
	}
	s.transport(n)
	s.checks()
	if s.Own = s.Left == "" && s.leadsToGateway(); s.Own {
		s.Left = "it leads to a Portcullis gateway"
	}
	if s.Left != "" {
		s.Checks = nil
	}
}

// transport reads how to reach the server.
func (s *Server) transport(n *rawjson.Node) {
	kind := textOf(n.Get("type"), n.Get("transport"), n.Get("transportType"))
	url, command := n.Get("url"), n.Get("command")
	for _, other := range []string{"httpUrl", "serverUrl"} {
		if o := n.Get(other); o != nil {
			url = o
		}
	}
	if command.Object() { // the old format of Zed
		keys, kids := slices.Concat(n.Keys, command.Keys), slices.Concat(n.Kids, command.Kids)
		n = &rawjson.Node{Kind: '{', Keys: keys, Kids: kids}
		command = textNode(command.Get("path"), command.Get("command"))
	}
	switch {
	case kind == "ws", kind == "websocket", n.Get("tcp") != nil:
		s.Left = "it is reached by WebSocket, which the gateway does not speak"
	case textOf(command) != "":
		s.program(n, command)
	case textOf(url) != "":
		s.How = "URL"
		s.url(url)
		if kind == "sse" || kind == "" && s.dollar && n.Get("httpUrl") == nil {
			s.note(notSSE)
		}
		s.headers(n)
	default:
		s.Left = "it has neither a url nor a command"
	}
}

const notSSE = "its transport is sse, which the gateway does not support. The gateway tries " +
	"streamable HTTP at the same URL. If that fails, find the server's URL for it, often …/mcp"

// headers reads the headers of a server with a URL, and notes the headers that it cannot read.
func (s *Server) headers(n *rawjson.Node) {
	for _, key := range []string{"headers", "http_headers"} {
		for name, value := range n.Get(key).All() {
			s.header(name, value)
		}
	}
	for name, value := range n.Get("env_http_headers").All() {
		s.setHeader(name, s.variable(value.Text, value))
	}
	if b := n.Get("bearer_token_env_var"); b != nil && b.Text != "" {
		s.setHeader("Authorization", "Bearer "+s.variable(b.Text, b))
	}
	if n.Has("auth", "oauth", "authProviderType", "oauth_resource") {
		s.note("the client signed in there with OAuth: sign the gateway in with " +
			"portcullis servers login, or give the server a token in a header")
	}
	if n.Has("headersHelper") {
		s.note("a program made its headers, and the gateway does not run that program: " +
			"write the header by hand")
	}
}

// header reads one header.
func (s *Server) header(name string, value *rawjson.Node) {
	if value.Kind == '"' {
		s.setHeader(name, s.value(value, name, headerVariable(s.Name, name)))
	}
}

func (s *Server) setHeader(name, value string) {
	if !tool.IsHeaderName(name) {
		s.note("left out the header %s, which is not a valid name", text.Quote(name, 40))
		return
	}
	s.Headers = append(s.Headers, Pair{name, value})
}

// program reads a server that is a program.
func (s *Server) program(n, command *rawjson.Node) {
	args, env := n.List("args"), n.Get("env")
	if s.unwrapped(command, args, env) {
		return
	}
	s.How = "program"
	s.Command, _ = s.resolved(command)
	if dir := n.Get("cwd"); textOf(dir) != "" {
		s.Dir, _ = s.resolved(dir)
		if filepath.IsLocal(s.Dir) {
			s.note("its folder %s is relative to the folder in which the gateway is started",
				text.Quote(s.Dir, 60))
		}
	}
	for name, value := range env.All() {
		if value.Kind == '{' || value.Kind == '[' || value.Kind == 'n' {
			s.note("left out the variable %s, which is not a text", text.Clip(name, 40))
			continue
		}
		s.Env = append(s.Env, Pair{name, s.value(value, name, ownVariable(name))})
	}
	for _, e := range n.List("env_vars") { // Codex passes these on from its own environment
		if name := textOf(e, e.Get("name")); isVariable(name) {
			s.Env = append(s.Env, Pair{name, s.variable(name, e)})
		}
	}
	if n.Has("envFile") {
		s.note("its envFile is not read: set its variables in env")
	}
	s.arguments(args)
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// fit turns a name into a valid name of a gateway's server.
func fit(name string) string {
	out := strings.Trim(unfit.ReplaceAllString(name, "-"), "-")
	if len(out) > 100 {
		out = out[:100]
	}
	lower := strings.ToLower(out)
	if tool.ValidName(out) != nil || lower == "all" || lower == "default" {
		out = strings.Trim("server-"+out, "-.")
	}
	return out
}

// note adds a fact for the person, once.
func (s *Server) note(format string, args ...any) {
	if what := fmt.Sprintf(format, args...); !slices.Contains(s.Notes, what) {
		s.Notes = append(s.Notes, what)
	}
}

// leave leaves the server out, and keeps the first reason.
func (s *Server) leave(format string, args ...any) {
	if s.Left == "" {
		s.Left = fmt.Sprintf(format, args...)
	}
}

// globs reads lists of tools.
func (s *Server) globs(n *rawjson.Node, keys ...string) (out []string) {
	for _, key := range keys {
		for _, e := range n.List(key) {
			out = append(out, s.glob(key, e.Text)...)
		}
	}
	return out
}

// glob reads an element of a list of tools.
func (s *Server) glob(key, value string) []string {
	// Gemini CLI's includeTools may have arguments after the name
	name, _, _ := strings.Cut(value, "(")
	if tool.ValidGlob(name) != nil {
		s.note("left out of %s: %s", key, text.Quote(value, 40))
		return nil
	}
	return []string{name}
}

// timeoutOf returns the time limit of a call, or "" if there is none.
func timeoutOf(n *rawjson.Node) string {
	v, unit := n.Get("tool_timeout_sec"), time.Second
	if v == nil {
		v, unit = n.Get("timeout"), time.Millisecond
	}
	if v == nil || v.Kind != '0' {
		return ""
	}
	f, err := strconv.ParseFloat(v.Text, 64)
	d := time.Duration(f * float64(unit))
	if err != nil || f > float64(24*time.Hour/unit) || d < time.Millisecond {
		return ""
	}
	return min(d, config.MaxTimeout).String()
}

// textOf returns the first value that is a string.
func textOf(nodes ...*rawjson.Node) string {
	if n := textNode(nodes...); n != nil {
		return n.Text
	}
	return ""
}

func textNode(nodes ...*rawjson.Node) *rawjson.Node {
	i := slices.IndexFunc(nodes, func(n *rawjson.Node) bool { return n != nil && n.Kind == '"' })
	if i < 0 {
		return nil
	}
	return nodes[i]
}

// base returns a program's name without its folder and extension.
func base(command string) string {
	name := strings.ToLower(filepath.Base(strings.ReplaceAll(command, `\`, "/")))
	for _, end := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}
