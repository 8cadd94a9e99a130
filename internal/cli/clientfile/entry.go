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
	project string // folder that the file belongs to
	dollar  bool   // $NAME is a reference, as in Gemini CLI's file
	options Options
	lines   lines
	inputs  map[string]string // what VS Code asks a person for: id → what it says
}

// holders are the members of a file that servers stand in, by client.
var holders = [][]string{
	{"mcpServers"}, {"servers"}, {"mcp_servers"}, {"context_servers"}, {"mcp", "servers"}, {"mcp.servers"}, {"mcp", "mcpServers"},
}

// file reads every server of a file.
func (r *reader) file(f *File, root *rawjson.Node) error {
	r.readInputs(root)
	r.readInputs(root.Get("mcp"))
	off := r.switchedOff(root)
	for _, path := range holders {
		n := root
		for _, name := range path {
			n = n.Get(name)
		}
		if n == nil {
			continue
		}
		f.Found = true
		if err := r.servers(f, n, strings.Join(path, "."), off); err != nil {
			return err
		}
	}
	projects := root.Get("projects") // of Claude Code, each with servers of its own
	if !projects.Object() {
		return nil
	}
	for name, value := range projects.All() {
		if n := value.Get("mcpServers"); n != nil {
			f.Found = true
			r.project = name
			if err := r.servers(f, n, "mcpServers of the project "+text.Clip(name, 100), names(value.Get("disabledMcpServers"))); err != nil {
				return err
			}
		}
	}
	return nil
}

// servers reads the members of one object.
func (r *reader) servers(f *File, n *rawjson.Node, where string, off map[string]bool) error {
	if !n.Object() {
		return &fault{Place{r.path, r.lines.of(n.Offset)}, where + " is no object"}
	}
	for name, value := range n.All() {
		if r.format == TOML && !value.Object() {
			return &fault{Place{r.path, r.lines.of(value.NameOffset)}, where + "." + text.Clip(name, 64) + " is no table"}
		}
		s := r.server(name, value)
		s.Disabled = s.Disabled || off[name]
		f.Servers = append(f.Servers, s)
	}
	return nil
}

// switchedOff returns the names of servers that a file has beside them as off: of Gemini CLI.
func (r *reader) switchedOff(root *rawjson.Node) map[string]bool {
	off := names(root.Get("mcp").Get("excluded"))
	if allowed := root.Get("mcp").Get("allowed"); allowed.Array() {
		on := names(allowed)
		for name := range root.Get("mcpServers").All() {
			off[name] = off[name] || !on[name]
		}
	}
	return off
}

func names(n *rawjson.Node) map[string]bool {
	out := map[string]bool{}
	if n.Array() {
		for _, e := range n.Kids {
			out[e.Text] = true
		}
	}
	return out
}

// readInputs notes what VS Code asks a person for.
func (r *reader) readInputs(n *rawjson.Node) {
	for _, e := range n.List("inputs") {
		r.inputs[e.TextOf("id")] = e.TextOf("description")
	}
}

// passed are members of an entry that say nothing which a gateway needs to know, or that are read elsewhere.
var passed = map[string]bool{
	"type": true, "transport": true, "transportType": true, "description": true, "icon": true, "gallery": true, "dev": true, "version": true, "name": true,
	"trust": true, "autoApprove": true, "alwaysAllow": true, "startup_timeout_sec": true, "startup_timeout_ms": true, "tool_timeout_sec": true,
	"required": true, "url": true, "serverUrl": true, "httpUrl": true, "headers": true, "http_headers": true, "env_http_headers": true, "bearer_token_env_var": true,
	"command": true, "args": true, "env": true, "env_vars": true, "cwd": true, "enabled": true, "disabled": true, "timeout": true,
	"enabled_tools": true, "includeTools": true, "disabled_tools": true, "excludeTools": true, "disabledTools": true, "source": true,
	"headersHelper": true, "envFile": true, "auth": true, "oauth": true, "authProviderType": true, "oauth_resource": true,
}

// server reads one entry.
func (r *reader) server(name string, n *rawjson.Node) *Server {
	s := &Server{Name: fit(name), Place: Place{r.path, r.lines.of(n.NameOffset)}}
	if s.Name != name {
		s.Was = name
		s.Notes = append(s.Notes, "was called "+text.Quote(name, 64))
	}
	if !n.Object() {
		s.Left = "it is no object"
		return s
	}
	s.Disabled = n.Get("disabled").Is(true) || n.Get("enabled").Is(false)
	s.EnabledTools = s.globs(n, "enabled_tools", "includeTools")
	s.DisabledTools = s.globs(n, "disabled_tools", "excludeTools", "disabledTools")
	s.Timeout = timeoutOf(n)
	var more []string
	for name := range n.All() {
		if !passed[name] {
			more = append(more, name)
		}
	}
	if len(more) > 0 {
		s.note("not taken over: " + text.List(more, 6))
	}
	r.transport(s, n)
	r.checks(s)
	if s.Own = s.Left == "" && r.own(s); s.Own {
		s.Left = "it leads to this kind of gateway"
	}
	if s.Left != "" {
		s.Checks = nil
	}
	return s
}

// transport reads how the server is reached.
func (r *reader) transport(s *Server, n *rawjson.Node) {
	kind := textOf(n.Get("type"), n.Get("transport"), n.Get("transportType"))
	url := n.Get("url")
	for _, other := range []string{"httpUrl", "serverUrl"} {
		if o := n.Get(other); o != nil {
			url = o
		}
	}
	command := n.Get("command")
	if command.Object() { // of Zed, as it was
		n = &rawjson.Node{Kind: '{', Keys: slices.Concat(n.Keys, command.Keys), Kids: slices.Concat(n.Kids, command.Kids)}
		command = textNode(command.Get("path"), command.Get("command"))
	}
	switch {
	case kind == "ws", kind == "websocket", n.Get("tcp") != nil:
		s.Left = "it is reached by WebSocket, which the gateway does not speak"
	case command != nil && command.Kind == '"' && command.Text != "":
		r.program(s, n, command)
	case url != nil && url.Kind == '"' && url.Text != "":
		s.How = "URL"
		sse := kind == "sse" || kind == "" && r.dollar && n.Get("httpUrl") == nil
		r.remote(s, n, url, sse)
	default:
		s.Left = "it has neither a url nor a command"
	}
}

const notSSE = "its transport is sse, which the gateway does not speak: streamable HTTP is tried at the same URL, and many servers have it at another, such as …/mcp"

// remote reads a server with a URL.
func (r *reader) remote(s *Server, n, url *rawjson.Node, sse bool) {
	r.url(s, url)
	if sse {
		s.note(notSSE)
	}
	for _, key := range []string{"headers", "http_headers"} {
		if h := n.Get(key); h.Object() {
			for name, value := range h.All() {
				r.header(s, name, value)
			}
		}
	}
	if h := n.Get("env_http_headers"); h.Object() {
		for name, value := range h.All() {
			s.setHeader(name, r.variable(s, value.Text, r.lines.of(value.Offset)))
		}
	}
	if b := n.Get("bearer_token_env_var"); b != nil && b.Text != "" {
		s.setHeader("Authorization", "Bearer "+r.variable(s, b.Text, r.lines.of(b.Offset)))
	}
	for _, key := range []string{"auth", "oauth", "authProviderType", "oauth_resource"} {
		if n.Get(key) != nil {
			s.note("the client signed in there by OAuth, which the gateway does not do: give it a token in a header")
		}
	}
	if n.Get("headersHelper") != nil {
		s.note("a program made its headers, which the gateway does not ask: write the header by hand")
	}
}

// header reads one header.
func (r *reader) header(s *Server, name string, value *rawjson.Node) {
	if value.Kind != '"' {
		return
	}
	s.setHeader(name, r.value(s, value.Text, r.lines.of(value.Offset), name, headerVariable(s.Name, name)))
}

func (s *Server) setHeader(name, value string) {
	if !tool.IsHeaderName(name) {
		s.note("left out the header " + text.Quote(name, 40) + ", which is not the name of one")
		return
	}
	s.Headers = append(s.Headers, Pair{name, value})
}

// program reads a server that is a program.
func (r *reader) program(s *Server, n, command *rawjson.Node) {
	env := n.Get("env")
	var args []*rawjson.Node
	if a := n.Get("args"); a.Array() {
		args = a.Kids
	}
	if r.unwrapped(s, command, args, env) {
		return
	}
	s.How = "program"
	s.Command = r.plain(s, command)
	if dir := n.Get("cwd"); dir != nil && dir.Kind == '"' {
		s.Dir = r.plain(s, dir)
		if filepath.IsLocal(s.Dir) {
			s.note("its folder " + text.Quote(s.Dir, 60) + " is looked for where the gateway is started")
		}
	}
	if env.Object() {
		for name, value := range env.All() {
			if value.Kind == '{' || value.Kind == '[' || value.Kind == 'n' {
				s.note("left out the variable " + text.Clip(name, 40) + ", which is no text")
				continue
			}
			s.Env = append(s.Env, Pair{name, r.value(s, value.Text, r.lines.of(value.Offset), name, ownVariable(name))})
		}
	}
	if list := n.Get("env_vars"); list.Array() { // of Codex: passed on from its own
		for _, e := range list.Kids {
			if name := textOf(e, e.Get("name")); isVariable(name) {
				s.Env = append(s.Env, Pair{name, r.variable(s, name, r.lines.of(e.Offset))})
			}
		}
	}
	if f := n.Get("envFile"); f != nil {
		s.note("what stands in its envFile is not read: set it in env")
	}
	r.arguments(s, args)
	if strings.Contains(s.Command, "\x00") || strings.Contains(s.Dir, "\x00") {
		s.Left = "its command refers to what is not known here"
	}
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// fit returns a name that a server of the gateway can have.
func fit(name string) string {
	out := strings.Trim(unfit.ReplaceAllString(name, "-"), "-")
	if len(out) > 100 {
		out = out[:100]
	}
	if tool.ValidName(out) != nil || strings.EqualFold(out, "all") || strings.EqualFold(out, "default") {
		out = strings.Trim("server-"+out, "-.")
	}
	return out
}

func (s *Server) note(what string) {
	if !slices.Contains(s.Notes, what) {
		s.Notes = append(s.Notes, what)
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
	name, _, _ := strings.Cut(value, "(") // Gemini CLI's includeTools may hold arguments
	if tool.ValidGlob(name) != nil {
		s.note(fmt.Sprintf("left out of %s: %s", key, text.Quote(value, 40)))
		return nil
	}
	return []string{name}
}

// timeoutOf returns how long a call may take; "": it is not said.
func timeoutOf(n *rawjson.Node) string {
	for key, unit := range map[string]time.Duration{"tool_timeout_sec": time.Second, "timeout": time.Millisecond} {
		v := n.Get(key)
		if v == nil || v.Kind != '0' {
			continue
		}
		f, err := strconv.ParseFloat(v.Text, 64)
		if err != nil || f <= 0 || f > float64(24*time.Hour/unit) {
			continue
		}
		if d := time.Duration(f * float64(unit)); d >= time.Millisecond {
			return min(d, config.MaxTimeout).String()
		}
	}
	return ""
}

// textOf returns the first of the values that is a text.
func textOf(nodes ...*rawjson.Node) string {
	if n := textNode(nodes...); n != nil {
		return n.Text
	}
	return ""
}

func textNode(nodes ...*rawjson.Node) *rawjson.Node {
	for _, n := range nodes {
		if n != nil && n.Kind == '"' {
			return n
		}
	}
	return nil
}

// base returns the name of a program without its folder and ending.
func base(command string) string {
	name := strings.ToLower(filepath.Base(strings.ReplaceAll(command, `\`, "/")))
	for _, end := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}
