package config

import (
	"cmp"
	"iter"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
)

// maxSize is the largest file that is read, in bytes.
const maxSize = 1 << 20

// Override returns the annotations of the tool with that bare name after the operator's hints have
// replaced some of them: every matching override applies, in the order of the file.
func (s Server) Override(name string, a tool.Annotations) tool.Annotations {
	for _, o := range s.Annotations {
		if tool.MatchGlob(o.Glob, name) {
			a = a.Override(o.Hints)
		}
	}
	return a
}

// Parse reads mcp_config.json, which is JSON without comments. A file with any fault yields no
// config; the error is then [Faults], which lists all of them. A syntax error is always the only
// fault.
func Parse(data []byte) (*Config, error) {
	cfg, faults, warnings := parse(data)
	if len(faults) > 0 {
		return nil, faults
	}
	cfg.Warnings = warnings
	return cfg, nil
}

// Warnings returns the warnings of a file, even if the file has faults.
func Warnings(data []byte) Faults {
	_, _, warnings := parse(data)
	return warnings
}

func parse(data []byte) (cfg *Config, faults, warnings Faults) {
	if len(data) > maxSize {
		return nil, Faults{{Message: "the file is larger than 1 MiB"}}, nil
	}
	root, fault := readTree(data)
	if fault != nil {
		return nil, Faults{*fault}, nil
	}
	c := checker{bad: map[*rawjson.Node]bool{}}
	var f file
	c.decode(root, "", reflect.ValueOf(&f).Elem())
	cfg = c.config(f, root)
	faults = place(data, c.faults)
	if more := c.found - len(faults); more > 0 {
		faults = append(faults, Fault{Message: "and " + text.Count(more, "more fault")})
	}
	return cfg, faults, place(data, c.warnings)
}

// place gives faults their lines and puts them in the order of the file.
func place(data []byte, found []located) Faults {
	byPlace := func(a, b located) int { return cmp.Compare(a.offset, b.offset) }
	if !slices.IsSortedFunc(found, byPlace) {
		slices.SortStableFunc(found, byPlace)
	}
	out := slices.Grow(Faults(nil), len(found))
	r := ruler{data: data}
	for _, f := range found {
		line, col := r.position(f.offset)
		out = append(out, Fault{Path: f.path, Line: line, Col: col, Message: f.message})
	}
	return out
}

// config checks rules that the types cannot express, and sets the defaults.
func (c *checker) config(f file, root *rawjson.Node) *Config {
	cfg := &Config{Toolsets: map[string][]string{}}
	if root.Kind != '{' {
		return cfg
	}
	servers := root.Get("mcpServers")
	if servers == nil {
		c.faultAt(root.Offset, "mcpServers", "is missing")
		servers = &rawjson.Node{}
	}
	cfg.Servers = slices.Grow(cfg.Servers, len(servers.Keys))
	byName := servers.Members()
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if byName[name].Object() {
			cfg.Servers = append(cfg.Servers, c.server(name, f.Servers[name], byName[name], JoinPath("mcpServers", name)))
		}
	}
	names := c.names(servers)
	c.toolsets(cfg, f.Toolsets, root.Get("toolsets"), names)
	c.tools(cfg, f.Tools, root.Get("tools"), names)
	c.review(cfg, f.Review, root.Get("review"))
	c.gateway(cfg, f.Gateway, root.Get("gateway"))
	c.audit(cfg, f.Audit, root.Get("audit"))
	c.stop(cfg, f.Stop, root.Get("stop"), names)
	c.notify(cfg, f.Notify, root.Get("notify"), names)
	c.editURL(cfg, f.Config, root.Get("config"))
	c.words(cfg, f.Words, root.Get("words"), names)
	return cfg
}

// editURL checks the address at which people change the file. No message repeats it, because it may
// contain a credential.
func (c *checker) editURL(cfg *Config, f *fileConfig, n *rawjson.Node) {
	if f == nil || f.EditURL == nil || c.bad[n.Get("edit_url")] {
		return
	}
	u, err := url.Parse(*f.EditURL)
	switch at, path := n.Get("edit_url"), "config.edit_url"; {
	case err != nil || u.Scheme != "https" || u.Hostname() == "":
		c.fault(at, path, "is not an https address, such as the page of the file at its Git host")
	case u.User != nil || secret.IsCredential("", *f.EditURL):
		c.fault(at, path, "holds a credential, which everybody who opens the console could see")
	default:
		cfg.EditURL = *f.EditURL
	}
}

func (c *checker) review(cfg *Config, f *fileReview, n *rawjson.Node) {
	if f == nil {
		f = &fileReview{}
	}
	cfg.Review = Review{
		Remember: c.oneOf(f.Remember, n, "review", "remember", "ask", "auto"),
		Findings: c.oneOf(f.Findings, n, "review", "findings", "show", "wait"),
		FourEyes: c.oneOf(f.FourEyes, n, "review", "four_eyes", "off", "destructive", "all"),
	}
}

func (c *checker) gateway(cfg *Config, f *fileGateway, n *rawjson.Node) {
	if f == nil {
		f = &fileGateway{}
	}
	cfg.Gateway = Gateway{
		Mode:    c.oneOf(f.Mode, n, "gateway", "mode", "search", "direct"),
		Notice:  c.oneOf(f.Notice, n, "gateway", "notice", "best", "zero"),
		Locked:  c.oneOf(f.Locked, n, "gateway", "locked", "error", "result"),
		Ranking: c.oneOf(f.Ranking, n, "gateway", "ranking", "fused", "lexical"),
		Answers: c.oneOf(f.Answers, n, "gateway", "answers", "json", "lines"),
		Apps:    c.oneOf(f.Apps, n, "gateway", "apps", "on", "off"),

		Requests: f.Requests,
		Programs: c.programs(f.Programs, n.Get("programs")),
	}
	for i := range cfg.Servers {
		if command := cfg.Servers[i].Command; command != nil {
			command.Pass = cfg.Gateway.Programs.Env
		}
	}
	if f.Prefix == nil || *f.Prefix {
		return
	}
	cfg.Gateway.Bare = true
	switch at, path := n.Get("prefix"), "gateway.prefix"; {
	case cfg.Gateway.Mode != "direct":
		c.fault(at, path, "only direct mode has a prefix to leave out")
	case len(cfg.Servers) > 1:
		c.fault(at, path, "with %d servers two tools could have one name without the prefix; only a single server needs no prefix", len(cfg.Servers))
	}
}

// DefaultPrograms is the maximum number of programs for one agent if the config sets no number.
const DefaultPrograms = 24

// maxPrograms is the largest allowed number of programs.
const maxPrograms = 64

func (c *checker) programs(f *filePrograms, n *rawjson.Node) Programs {
	out := Programs{MaxPerAgent: DefaultPrograms}
	if f == nil {
		return out
	}
	out.Env = f.Env
	env := n.Get("env")
	for i, name := range f.Env {
		if at := env.Kids[i]; !c.bad[at] && !variableName.MatchString(name) {
			c.fault(at, index("gateway.programs.env", i), "is not the name of a variable, such as HTTP_PROXY")
		}
	}
	if f.MaxPerAgent == nil || c.bad[n.Get("max_per_agent")] {
		return out
	}
	if out.MaxPerAgent = *f.MaxPerAgent; out.MaxPerAgent < 1 || out.MaxPerAgent > maxPrograms {
		c.fault(n.Get("max_per_agent"), "gateway.programs.max_per_agent", "is not a number of processes from 1 to %d", maxPrograms)
	}
	return out
}

// variableName matches the names of variables.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// names are the servers of a file.
type names struct {
	exact  map[string]bool
	folded map[string]string // lower-case name → name in the file
}

func (n names) has(name string) bool { return n.exact[name] }

func (n names) fold(name string) (server string, ok bool) {
	server, ok = n.folded[strings.ToLower(name)]
	return server, ok
}

// names checks the servers' names and returns them.
func (c *checker) names(servers *rawjson.Node) names {
	out := names{exact: make(map[string]bool, len(servers.Keys)), folded: make(map[string]string, len(servers.Keys))}
	begun := map[string]string{} // prefix → a server whose tool names in direct mode begin with it and "__"
	for name, value := range servers.All() {
		at, path := &rawjson.Node{Offset: value.NameOffset}, JoinPath("mcpServers", name)
		c.name(at, path, "server", name)
		out.exact[name] = true
		if c.bad[at] {
			continue // one fault is enough, and a name of any length costs too much to check
		}
		folded := strings.ToLower(name)
		if other, ok := out.folded[folded]; ok {
			c.fault(at, path, "clashes with the server %q: two names must differ in more than case", clip(other))
		}
		out.folded[folded] = name
		// A tool x of one server and a tool y of the other could both be a__b__c.
		const clash = "clashes with the server %q: in direct mode tools are named server__tool"
		if other, ok := begun[name]; ok {
			c.fault(at, path, clash, clip(other))
		}
		for begin := range beginnings(name) {
			if out.exact[begin] {
				c.fault(at, path, clash, clip(begin))
			}
			begun[begin] = name
		}
	}
	return out
}

// beginnings yields every shorter s such that name + "__" starts with s + "__".
func beginnings(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range len(name) {
			if (name[i:] == "_" || strings.HasPrefix(name[i:], "__")) && !yield(name[:i]) {
				return
			}
		}
	}
}

// name checks the name of a server or a toolset.
func (c *checker) name(at *rawjson.Node, path, what, name string) {
	switch {
	case name == "." || name == "..":
		c.fault(at, path, "%q cannot be the name of a %s: it would not survive in a URL's path", name, what)
	case tool.ValidName(name) != nil:
		c.fault(at, path, "the name of a %s is 1 to 128 of A-Z a-z 0-9 _ . -", what)
	case strings.EqualFold(name, "all"), strings.EqualFold(name, "default"):
		c.fault(at, path, "%q cannot be the name of a %s: it means something else in lists of toolsets", name, what)
	}
}
