package clientfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
)

// A Choice says which servers are gathered, and under which names.
type Choice struct {
	Only   []string            // names, as the file or the gateway has them; empty: all
	Skip   []string            // names
	As     map[string]string   // new names
	Rename bool                // of servers that clash, the later gets a number
	Accept []string            // members that are taken over although they can do harm: NAME.MEMBER
	Used   map[string][]string // variables that the gateway's config refers to already, with the servers that do
}

// A clash is two servers that have one name and differ.
type clash struct{ First, Second *Server }

func (c *clash) Error() string {
	return fmt.Sprintf("the server %q of %s is another one in %s: choose one with --only or --skip, give one another name with --as, or let --rename do so", c.First.Name, c.First.Place, c.Second.Place)
}

// Collect returns the servers of the files that were chosen, each once, with their variables named.
// Those that are left out are among them. An error is a [*clash], or says which name no file has.
func Collect(files []*File, c Choice, noShell bool) ([]*Server, error) {
	g := collection{choice: c, byName: map[string]*Server{}, used: map[string]bool{}}
	for _, f := range files {
		for _, s := range f.Servers {
			if err := g.add(s); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range slices.Concat(c.Only, c.Skip, slices.Sorted(maps.Keys(c.As))) {
		if !g.used[name] {
			return nil, fmt.Errorf("no file has a server %q", name)
		}
	}
	if err := g.accept(c.Accept); err != nil {
		return nil, err
	}
	nameVariables(g.servers, c.Used)
	for _, s := range g.servers {
		if s.Left == "" {
			s.finish(noShell)
		}
	}
	return g.servers, nil
}

// What is gathered so far.
type collection struct {
	choice  Choice
	servers []*Server
	byName  map[string]*Server // names fold case
	used    map[string]bool    // names of the choice that some server has
}

// add adds a server if it is chosen.
func (g *collection) add(s *Server) error {
	if !g.choice.takes(s, g.used) {
		return nil
	}
	if s.Left != "" {
		g.servers = append(g.servers, s)
		return nil
	}
	first := g.byName[strings.ToLower(s.Name)]
	for n := 2; first != nil && !first.same(s) && g.choice.Rename; n++ {
		s.Was = cmp.Or(s.Was, s.Name)
		s.Name = fmt.Sprintf("%s-%d", fit(s.Was), n)
		first = g.byName[strings.ToLower(s.Name)]
	}
	switch {
	case first == nil:
		g.byName[strings.ToLower(s.Name)] = s
		g.servers = append(g.servers, s)
	case !first.same(s):
		return &clash{first, s}
	default:
		first.note("stands in " + s.String() + " as well")
		if len(s.Checks) < len(first.Checks) { // that file is the user's own
			first.Checks = s.Checks
		}
	}
	return nil
}

// takes reports whether the server is chosen, and gives it its new name.
func (c Choice) takes(s *Server, used map[string]bool) bool {
	is := func(list []string) bool {
		found := false
		for _, name := range []string{s.Name, s.Was} {
			if name != "" && slices.Contains(list, name) {
				used[name], found = true, true
			}
		}
		return found
	}
	only := is(c.Only)
	if is(c.Skip) || len(c.Only) > 0 && !only {
		return false
	}
	for _, old := range []string{s.Name, s.Was} {
		if name, ok := c.As[old]; ok && old != "" {
			used[old] = true
			s.Was, s.Name = old, fit(name)
			break
		}
	}
	return true
}

// same reports whether two servers of one name are the same one.
func (s *Server) same(other *Server) bool {
	return s.Disabled == other.Disabled && reflect.DeepEqual(s.revealed(), other.revealed())
}

// revealed returns what is compared of a server, with its credentials in clear. It is never printed.
func (s *Server) revealed() []any {
	reveal := func(text string) string {
		return marks.ReplaceAllStringFunc(text, func(m string) string {
			v := s.variables[index(m)]
			if v.Clear {
				return v.Value.Reveal()
			}
			return "${" + v.Name + "}"
		})
	}
	pairs := func(list []Pair) map[string]string {
		out := map[string]string{}
		for _, p := range list {
			out[p.Name] = reveal(p.Value)
		}
		return out
	}
	args := []string{}
	for _, a := range s.Args {
		args = append(args, reveal(a))
	}
	return []any{s.URL, pairs(s.Headers), s.Command, args, s.Dir, pairs(s.Env), len(s.EnabledTools), len(s.DisabledTools)}
}

func index(mark string) (i int) {
	for _, r := range strings.Trim(mark, "\x00") {
		i = 10*i + int(r-'0')
	}
	return i
}

// nameVariables gives each credential in clear a variable of its own: of two that are alike one is enough,
// and of two that differ none is taken for the other.
func nameVariables(servers []*Server, used map[string][]string) {
	n := naming{values: map[string]*Variable{}, used: used}
	for _, fixed := range []bool{true, false} {
		for _, s := range servers {
			for _, v := range s.variables {
				switch {
				case s.Left != "" || v.fixed != fixed:
				case fixed:
					n.values[v.Name] = v
				default:
					n.name(s, v)
				}
			}
		}
	}
}

// A naming knows which names of variables are taken.
type naming struct {
	values map[string]*Variable
	used   map[string][]string // by the gateway's config, whose values are in no file
}

func (n naming) free(s *Server, v *Variable, name string) bool {
	if other, taken := n.values[name]; taken {
		return other.Clear && other.Value.Equal(v.Value)
	}
	return len(n.used[name]) == 0 || slices.Equal(n.used[name], []string{s.Name})
}

func (n naming) name(s *Server, v *Variable) {
	want := v.Name
	if own := variableOf(s.Name); !n.free(s, v, want) && !strings.HasPrefix(want, own+"_") {
		want = own + "_" + want
	}
	v.Name = want
	for i := 2; !n.free(s, v, v.Name); i++ {
		v.Name = fmt.Sprintf("%s_%d", want, i)
	}
	n.values[v.Name] = v
}

// finish puts references in the places of the marks. A gateway replaces none in arguments: a shell does.
func (s *Server) finish(noShell bool) {
	refer := func(text string) string {
		return marks.ReplaceAllStringFunc(text, func(m string) string { return "${env:" + s.variables[index(m)].Name + "}" })
	}
	for _, list := range [][]Pair{s.Headers, s.Env} {
		for i := range list {
			list[i].Value = refer(list[i].Value)
		}
	}
	if !slices.ContainsFunc(s.Args, marks.MatchString) {
		return
	}
	if noShell {
		s.Left = "an argument holds a credential or a variable, and there is no sh here that could put it in: set it in env if the program reads it there"
		return
	}
	script := "exec " + connect.Shell(s.Command)
	for _, a := range s.Args {
		script += " " + s.word(a)
	}
	s.Command, s.Args = "sh", []string{"-c", script}
	s.note("started by sh, which puts variables into its arguments: a gateway replaces none there")
}

// word returns an argument for a shell, and sets the variables that it refers to.
func (s *Server) word(arg string) string {
	var out strings.Builder
	last := 0
	for _, at := range marks.FindAllStringIndex(arg, -1) {
		if at[0] > last {
			out.WriteString(connect.Shell(arg[last:at[0]]))
		}
		out.WriteString(`"$` + s.inEnv(s.variables[index(arg[at[0]:at[1]])]) + `"`)
		last = at[1]
	}
	if last < len(arg) || arg == "" {
		out.WriteString(connect.Shell(arg[last:]))
	}
	return out.String()
}

// inEnv returns the name by which a program's own environment has a variable. What the client's file sets
// there itself is what its reference means; a credential of ours takes no other's name.
func (s *Server) inEnv(v *Variable) string {
	name, refers := v.Name, "${env:"+v.Name+"}"
	for {
		i := slices.IndexFunc(s.Env, func(p Pair) bool { return p.Name == name })
		switch {
		case i < 0:
			s.Env = append(s.Env, Pair{name, refers})
			return name
		case v.fixed || s.Env[i].Value == refers:
			return name
		}
		name += "_ARG"
	}
}

// An entry is a server in the gateway's config.
type entry struct {
	URL           string            `json:"url,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	Command       string            `json:"command,omitempty"`
	Args          []string          `json:"args,omitempty"`
	Dir           string            `json:"cwd,omitempty"`
	Env           map[string]string `json:"env,omitempty"`
	Enabled       *bool             `json:"enabled,omitempty"`
	Timeout       string            `json:"timeout,omitempty"`
	EnabledTools  []string          `json:"enabled_tools,omitempty"`
	DisabledTools []string          `json:"disabled_tools,omitempty"`
}

// Entry returns the server as a member of mcpServers in the gateway's config.
func (s *Server) Entry() json.RawMessage { return encode(s.entry()) }

func (s *Server) entry() entry {
	e := entry{
		URL: s.URL, Headers: pairs(s.Headers), Command: s.Command, Args: s.Args, Dir: s.Dir, Env: pairs(s.Env), Timeout: s.Timeout,
		EnabledTools: s.EnabledTools, DisabledTools: s.DisabledTools,
	}
	if s.Disabled {
		e.Enabled = new(bool)
	}
	return e
}

func pairs(list []Pair) map[string]string {
	if len(list) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, p := range list {
		out[p.Name] = p.Value
	}
	return out
}

var (
	anyReference = regexp.MustCompile(`\$\{env:[A-Za-z0-9_]+\}`)
	anyVariable  = regexp.MustCompile(`"\$[A-Za-z0-9_]+"`)
)

// SameAs reports whether a server of the gateway's config, as it was read, is this one: at the same URL, or
// the same program, and given the same, whatever the variables are called. Members that a person has
// to accept do not count.
func (s *Server) SameAs(raw json.RawMessage) bool {
	plain := func(data []byte) (e entry) {
		text := anyReference.ReplaceAllString(string(data), "${env:*}")
		if json.Unmarshal([]byte(text), &e) != nil {
			return entry{}
		}
		if e.Command == "sh" && len(e.Args) == 2 {
			e.Args[1] = anyVariable.ReplaceAllString(e.Args[1], `"$*"`)
			e.Env = nil // whose names are those of the variables
		}
		e = entry{URL: e.URL, Headers: e.Headers, Command: e.Command, Args: e.Args, Dir: e.Dir, Env: e.Env}
		return e.without(s.Checks)
	}
	a, b := plain(raw), plain(s.Entry())
	return cmp.Or(a.URL, a.Command) != "" && fmt.Sprint(a) == fmt.Sprint(b)
}
