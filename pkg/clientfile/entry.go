package clientfile

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/text"
	"github.com/portcullis-mcp/portcullis/pkg/tool"
)

// A reader reads one file.
type reader struct {
	path    string
	format  Format
	project string // folder that the file belongs to
	dollar  bool   // $NAME is a reference, as in Gemini CLI's file
	options Options
	inputs  map[string]string // what VS Code asks a person for: id → what it says
}

// holders are the members of a file that servers stand in, by client.
var holders = [][]string{
	{"mcpServers"}, {"servers"}, {"mcp_servers"}, {"context_servers"}, {"mcp", "servers"}, {"mcp.servers"}, {"mcp", "mcpServers"},
}

// file reads every server of a file.
func (r *reader) file(f *File, root *node) error {
	r.readInputs(root.member("inputs"))
	r.readInputs(root.member("mcp").member("inputs"))
	off := r.switchedOff(root)
	for _, path := range holders {
		n := root
		for _, name := range path {
			n = n.member(name)
		}
		if n == nil {
			continue
		}
		f.Found = true
		if err := r.servers(f, n, strings.Join(path, "."), off); err != nil {
			return err
		}
	}
	projects := root.member("projects") // of Claude Code, each with servers of its own
	if projects == nil || projects.kind != '{' {
		return nil
	}
	for _, p := range projects.members {
		if n := p.value.member("mcpServers"); n != nil {
			f.Found = true
			r.project = p.name
			if err := r.servers(f, n, "mcpServers of the project "+text.Clip(p.name, 100), names(p.value.member("disabledMcpServers"))); err != nil {
				return err
			}
		}
	}
	return nil
}

// servers reads the members of one object.
func (r *reader) servers(f *File, n *node, where string, off map[string]bool) error {
	if n.kind != '{' {
		return &Fault{Place{r.path, n.line}, where + " is no object"}
	}
	for _, m := range n.members {
		if r.format == TOML && m.value.kind != '{' {
			return &Fault{Place{r.path, m.line}, where + "." + text.Clip(m.name, 64) + " is no table"}
		}
		s := r.server(m)
		s.Disabled = s.Disabled || off[m.name]
		f.Servers = append(f.Servers, s)
	}
	return nil
}

// switchedOff returns the names of servers that a file has beside them as off: of Gemini CLI.
func (r *reader) switchedOff(root *node) map[string]bool {
	off := names(root.member("mcp").member("excluded"))
	if allowed := root.member("mcp").member("allowed"); allowed != nil && allowed.kind == '[' {
		on := names(allowed)
		if servers := root.member("mcpServers"); servers != nil {
			for _, m := range servers.members {
				off[m.name] = off[m.name] || !on[m.name]
			}
		}
	}
	return off
}

func names(n *node) map[string]bool {
	out := map[string]bool{}
	if n != nil {
		for _, e := range n.elems {
			out[e.text] = true
		}
	}
	return out
}

func (r *reader) readInputs(n *node) {
	if r.inputs == nil {
		r.inputs = map[string]string{}
	}
	if n != nil && n.kind == '[' {
		for _, e := range n.elems {
			if id := e.member("id"); id != nil {
				r.inputs[id.text] = ""
				if d := e.member("description"); d != nil {
					r.inputs[id.text] = d.text
				}
			}
		}
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
func (r *reader) server(m member) *Server {
	s := &Server{Name: fit(m.name), Place: Place{r.path, m.line}}
	if s.Name != m.name {
		s.Was = m.name
		s.Notes = append(s.Notes, "was called "+text.Quote(m.name, 64))
	}
	n := m.value
	if n.kind != '{' {
		s.Left = "it is no object"
		return s
	}
	s.Disabled = isTrue(n.member("disabled")) || isFalse(n.member("enabled"))
	s.EnabledTools = s.globs(n, "enabled_tools", "includeTools")
	s.DisabledTools = s.globs(n, "disabled_tools", "excludeTools", "disabledTools")
	s.Timeout = timeoutOf(n)
	var more []string
	for _, m := range n.members {
		if !passed[m.name] {
			more = append(more, m.name)
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
func (r *reader) transport(s *Server, n *node) {
	kind := textOf(n.member("type"), n.member("transport"), n.member("transportType"))
	url := n.member("url")
	for _, other := range []string{"httpUrl", "serverUrl"} {
		if o := n.member(other); o != nil {
			url = o
		}
	}
	command := n.member("command")
	if command != nil && command.kind == '{' { // of Zed, as it was
		n = &node{kind: '{', line: command.line, members: append(slices.Clone(command.members), n.members...)}
		command = textNode(command.member("path"), command.member("command"))
	}
	switch {
	case kind == "ws", kind == "websocket", n.member("tcp") != nil:
		s.Left = "it is reached by WebSocket, which the gateway does not speak"
	case command != nil && command.kind == '"' && command.text != "":
		r.program(s, n, command)
	case url != nil && url.kind == '"' && url.text != "":
		s.How = "URL"
		sse := kind == "sse" || kind == "" && r.dollar && n.member("httpUrl") == nil
		r.remote(s, n, url, sse)
	default:
		s.Left = "it has neither a url nor a command"
	}
}

const notSSE = "its transport is sse, which the gateway does not speak: streamable HTTP is tried at the same URL, and many servers have it at another, such as …/mcp"

// remote reads a server with a URL.
func (r *reader) remote(s *Server, n, url *node, sse bool) {
	r.url(s, url)
	if sse {
		s.note(notSSE)
	}
	for _, key := range []string{"headers", "http_headers"} {
		if h := n.member(key); h != nil && h.kind == '{' {
			for _, m := range h.members {
				r.header(s, m.name, m.value)
			}
		}
	}
	if h := n.member("env_http_headers"); h != nil && h.kind == '{' {
		for _, m := range h.members {
			s.setHeader(m.name, r.variable(s, m.value.text, m.value.line))
		}
	}
	if b := n.member("bearer_token_env_var"); b != nil && b.text != "" {
		s.setHeader("Authorization", "Bearer "+r.variable(s, b.text, b.line))
	}
	for _, key := range []string{"auth", "oauth", "authProviderType", "oauth_resource"} {
		if n.member(key) != nil {
			s.note("the client signed in there by OAuth, which the gateway does not do: give it a token in a header")
		}
	}
	if n.member("headersHelper") != nil {
		s.note("a program made its headers, which the gateway does not ask: write the header by hand")
	}
}

// header reads one header.
func (r *reader) header(s *Server, name string, value *node) {
	if value.kind != '"' {
		return
	}
	s.setHeader(name, r.value(s, value.text, value.line, name, headerVariable(s.Name, name)))
}

func (s *Server) setHeader(name, value string) {
	if !tool.IsHeaderName(name) {
		s.note("left out the header " + text.Quote(name, 40) + ", which is not the name of one")
		return
	}
	s.Headers = append(s.Headers, Pair{name, value})
}

// program reads a server that is a program.
func (r *reader) program(s *Server, n, command *node) {
	env := n.member("env")
	var args []*node
	if a := n.member("args"); a != nil && a.kind == '[' {
		args = a.elems
	}
	if r.unwrapped(s, command, args, env) {
		return
	}
	s.How = "program"
	s.Command = r.plain(s, command)
	if dir := n.member("cwd"); dir != nil && dir.kind == '"' {
		s.Dir = r.plain(s, dir)
		if filepath.IsLocal(s.Dir) {
			s.note("its folder " + text.Quote(s.Dir, 60) + " is looked for where the gateway is started")
		}
	}
	if env != nil && env.kind == '{' {
		for _, m := range env.members {
			if m.value.kind == '{' || m.value.kind == '[' || m.value.kind == 'n' {
				s.note("left out the variable " + text.Clip(m.name, 40) + ", which is no text")
				continue
			}
			s.Env = append(s.Env, Pair{m.name, r.value(s, m.value.text, m.value.line, m.name, ownVariable(m.name))})
		}
	}
	if list := n.member("env_vars"); list != nil && list.kind == '[' { // of Codex: passed on from its own
		for _, e := range list.elems {
			if name := textOf(e, e.member("name")); isVariable(name) {
				s.Env = append(s.Env, Pair{name, r.variable(s, name, e.line)})
			}
		}
	}
	if f := n.member("envFile"); f != nil {
		s.note("what stands in its envFile is not read: set it in env")
	}
	if base(s.Command) == "env" { // which sets variables and starts what comes next
		args = r.assigned(s, args)
	}
	r.arguments(s, args)
	if strings.Contains(s.Command, "\x00") || strings.Contains(s.Dir, "\x00") {
		s.Left = "its command refers to what is not known here"
	}
}

// assigned moves what env is told to set into the server's environment, and what it starts into its command.
func (r *reader) assigned(s *Server, args []*node) []*node {
	n := 0
	for n < len(args) && isVariable(before(args[n].text, "=")) && strings.Contains(args[n].text, "=") {
		n++
	}
	if n == len(args) || strings.HasPrefix(args[n].text, "-") {
		return args
	}
	for _, a := range args[:n] {
		name, value, _ := strings.Cut(a.text, "=")
		s.Env = append(s.Env, Pair{name, r.value(s, value, a.line, name, name)})
	}
	s.Command = r.plain(s, args[n])
	return args[n+1:]
}

func before(s, sep string) string {
	out, _, _ := strings.Cut(s, sep)
	return out
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
func (s *Server) globs(n *node, keys ...string) (out []string) {
	for _, key := range keys {
		list := n.member(key)
		if list == nil || list.kind != '[' {
			continue
		}
		for _, e := range list.elems {
			name, _, _ := strings.Cut(e.text, "(") // Gemini CLI's includeTools may hold arguments
			if tool.ValidGlob(name) != nil {
				s.note(fmt.Sprintf("left out of %s: %s", key, text.Quote(e.text, 40)))
				continue
			}
			out = append(out, name)
		}
	}
	return out
}

// timeoutOf returns how long a call may take; "": it is not said.
func timeoutOf(n *node) string {
	for key, unit := range map[string]time.Duration{"tool_timeout_sec": time.Second, "timeout": time.Millisecond} {
		v := n.member(key)
		if v == nil || v.kind != '0' {
			continue
		}
		f, err := strconv.ParseFloat(v.text, 64)
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
func textOf(nodes ...*node) string {
	if n := textNode(nodes...); n != nil {
		return n.text
	}
	return ""
}

func textNode(nodes ...*node) *node {
	for _, n := range nodes {
		if n != nil && n.kind == '"' {
			return n
		}
	}
	return nil
}

func isTrue(n *node) bool  { return n != nil && n.kind == 't' }
func isFalse(n *node) bool { return n != nil && n.kind == 'f' }

// base returns the name of a program without its folder and ending.
func base(command string) string {
	name := strings.ToLower(filepath.Base(strings.ReplaceAll(command, `\`, "/")))
	for _, end := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, end)
	}
	return name
}
