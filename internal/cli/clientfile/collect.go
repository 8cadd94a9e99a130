package clientfile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A Choice selects servers, and gives them names.
type Choice struct {
	Only   []string            // names in the file or in the gateway; empty: all
	Skip   []string            // names
	As     map[string]string   // new names
	Accept []string            // members to import even though they can do harm: NAME.MEMBER
	Used   map[string][]string // variables of the gateway's config, with the servers that use them
}

// Collect returns the chosen servers of the files, each once, with their variables named. A chosen
// server that cannot be imported is in the result too, and its Left says why, for example because
// an earlier, different server has the same name. An error names an entry of the choice that no
// file has.
func Collect(files []*File, c Choice) ([]*Server, error) {
	g := collection{choice: c, byName: map[string]*Server{}, used: map[string]bool{}}
	for _, f := range files {
		for _, s := range f.Servers {
			g.add(s)
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
			s.entry = s.replaced(func(v *Variable) string {
				if !slices.Contains(s.Variables, v) {
					s.Variables = append(s.Variables, v)
				}
				return "${env:" + v.Name + "}"
			})
		}
	}
	return g.servers, nil
}

// A collection is the servers so far.
type collection struct {
	choice  Choice
	servers []*Server
	byName  map[string]*Server // ignores the case of names
	used    map[string]bool    // names of the choice that match a server
}

// add adds a server if it is chosen.
func (g *collection) add(s *Server) {
	if !g.choice.takes(s, g.used) {
		return
	}
	name := strings.ToLower(s.Name)
	first := g.byName[name]
	switch {
	case s.Left != "":
	case first == nil:
		g.byName[name] = s
	case first.revealed() == s.revealed():
		first.note("is also in %s", s)
		if len(s.Checks) < len(first.Checks) { // a project's file needs more checks than the user's own
			first.Checks = s.Checks
		}
		return
	default:
		s.Clash(first.Place)
	}
	g.servers = append(g.servers, s)
}

// Clash leaves out the server because another server has the same name.
func (s *Server) Clash(other Place) {
	name := cmp.Or(s.Was, s.Name)
	how := fmt.Sprintf("import its file again with --only %s --as %s=NEW", name, name)
	if s.File == other.File {
		how = "give one of the two another name in that file, or write the entry by hand"
	}
	s.Checks = nil
	s.leave("%s has another server of this name, so this server was left out: %s", other, how)
}

// takes reports whether the choice includes the server, and gives the server its new name.
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

// replaced returns the entry, with the mark of each variable replaced by the result of text.
func (s *Server) replaced(text func(*Variable) string) entry {
	e := s.entry
	put := func(mark string) string { return text(s.byMark(mark)) }
	for _, list := range []*Pairs{&e.Headers, &e.Env} {
		*list = slices.Clone(*list)
		for i, p := range *list {
			(*list)[i].Value = marks.ReplaceAllStringFunc(p.Value, put)
		}
	}
	return e
}

// revealed returns the entry with credentials in clear, to compare two servers with the same name.
// Nothing prints this text.
func (s *Server) revealed() string {
	e := s.replaced(func(v *Variable) string {
		if v.Clear {
			return v.Value.Reveal()
		}
		return "${" + v.Name + "}"
	})
	e.Timeout = ""
	return fmt.Sprint(s.Disabled) + string(encode(e))
}

// nameVariables gives each credential in clear a variable. Equal credentials share a variable, and
// different credentials never do.
func nameVariables(servers []*Server, used map[string][]string) {
	n := naming{values: map[string]*Variable{}, used: used}
	for _, fixed := range []bool{true, false} {
		for _, s := range servers {
			for _, v := range s.marked {
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

// A naming holds the names of variables that are in use.
type naming struct {
	values map[string]*Variable
	used   map[string][]string // variables of the gateway's config; no file has their values
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

// An entry is a server in the gateway's config.
type entry struct {
	URL           string   `json:"url,omitempty"`
	Headers       Pairs    `json:"headers,omitempty"`
	Command       string   `json:"command,omitempty"`
	Args          []string `json:"args,omitempty"`
	Dir           string   `json:"cwd,omitempty"`
	Env           Pairs    `json:"env,omitempty"`
	Enabled       *bool    `json:"enabled,omitempty"`
	Timeout       string   `json:"timeout,omitempty"`
	EnabledTools  []string `json:"enabled_tools,omitempty"`
	DisabledTools []string `json:"disabled_tools,omitempty"`
}

// Pairs are the members of an object whose values are strings.
type Pairs []Pair

// A Pair is a name with its value.
type Pair struct{ Name, Value string }

// MarshalJSON returns the object. If two pairs have the same name, the last one counts.
func (p Pairs) MarshalJSON() ([]byte, error) {
	object := map[string]string{}
	for _, pair := range p {
		object[pair.Name] = pair.Value
	}
	return encode(object), nil
}

// UnmarshalJSON reads an object, in the order of its names.
func (p *Pairs) UnmarshalJSON(data []byte) error {
	var object map[string]string
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		*p = append(*p, Pair{name, object[name]})
	}
	return nil
}

// drop removes a member that needs acceptance.
func (e *entry) drop(member string) {
	kind, name, _ := strings.Cut(member, ".")
	named := func(p Pair) bool { return p.Name == name }
	switch kind {
	case "env":
		e.Env = slices.DeleteFunc(e.Env, named)
	case "headers":
		e.Headers = slices.DeleteFunc(e.Headers, named)
	case "cwd":
		e.Dir = ""
	}
}

// Entry returns the server as a member of mcpServers in the gateway's config.
func (s *Server) Entry() json.RawMessage {
	e := s.entry
	if s.Disabled {
		e.Enabled = new(bool)
	}
	return encode(e)
}

var anyReference = regexp.MustCompile(`\$\{env:[A-Za-z0-9_]+\}`)

// SameAs reports whether an entry of the gateway's config is this server: URL, headers, program,
// arguments, folder and environment are equal. SameAs ignores the names of the variables that the
// values refer to, and members that a person must accept.
func (s *Server) SameAs(raw json.RawMessage) bool {
	plain := func(data []byte) string {
		var e entry
		if json.Unmarshal(anyReference.ReplaceAll(data, []byte("${env:*}")), &e) != nil {
			return ""
		}
		for _, c := range s.Checks {
			e.drop(c.Member)
		}
		return string(encode(entry{
			URL: e.URL, Headers: e.Headers,
			Command: e.Command, Args: e.Args, Dir: e.Dir, Env: e.Env,
		}))
	}
	return plain(raw) == plain(s.Entry())
}
