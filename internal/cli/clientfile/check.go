package clientfile

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/portcullis-mcp/portcullis/pkg/base/hostname"
	"github.com/portcullis-mcp/portcullis/pkg/base/rawjson"
	"github.com/portcullis-mcp/portcullis/pkg/base/secret"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
)

// A Check is a member of an entry that can do harm. [Collect] omits it unless a person accepts it.
type Check struct {
	ID       string // NAME.MEMBER
	Member   string // env.NAME, headers.NAME, cwd or url
	Why      string
	Accepted bool
}

// check adds a member that a person must accept.
func (s *Server) check(member, format string, args ...any) {
	if !slices.ContainsFunc(s.Checks, func(c Check) bool { return c.Member == member }) {
		s.Checks = append(s.Checks, Check{Member: member, Why: fmt.Sprintf(format, args...)})
	}
}

// checks adds all members of the server that a person has to accept.
func (s *Server) checks() {
	for _, p := range s.Env {
		if why := harm(p.Name); why != "" && !s.isPassedOn(p) {
			s.check("env."+p.Name, "%s%s", why, visibleValue(p))
		}
	}
	if s.Dir != "" && s.leaves(s.Dir) {
		s.check("cwd", "the folder %s is outside the folder of the file, "+
			"and a program may read its settings there", text.Quote(s.Dir, 60))
	}
	// Another person may have written the file so that the program sends a variable's value to an
	// address in the file.
	host := s.elsewhere()
	if host == "" || !s.options.Foreign {
		return
	}
	for _, p := range s.Headers {
		if names := s.references(p.Value); len(names) > 0 {
			s.check("headers."+p.Name, "sends %s to %s", text.List(names, 3), host)
		}
	}
	for _, p := range s.Env {
		if names := s.references(p.Value); len(names) > 0 {
			const why = "gives %s to a program that connects to %s"
			s.check("env."+p.Name, why, text.List(names, 3), host)
		}
	}
}

// references returns the variables in a text that may be set for a purpose other than this server.
func (s *Server) references(value string) (names []string) {
	for _, m := range marks.FindAllString(value, -1) {
		if v := s.byMark(m); v.existing {
			names = append(names, v.Name)
		}
	}
	for _, m := range reference.FindAllStringSubmatch(value, -1) { // a reference of the gateway
		names = append(names, m[1])
	}
	return names
}

// isPassedOn reports whether a variable of the entry only gets the value of the gateway's variable
// with the same name.
func (s *Server) isPassedOn(p Pair) bool {
	m := marks.FindString(p.Value)
	return m != "" && m == p.Value && s.byMark(m).existing && s.byMark(m).Name == p.Name
}

// leaves reports whether a folder is outside the project of the file. A user's own file has no
// project, and may name any folder by its full path.
func (r *reader) leaves(dir string) bool {
	if !filepath.IsAbs(dir) {
		return !filepath.IsLocal(dir)
	}
	if !r.options.Foreign {
		return false
	}
	within, err := filepath.Rel(r.project, dir)
	return err != nil || !filepath.IsLocal(within)
}

var address = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]*`)

// elsewhere returns the host of an address in the entry that is not this machine, or "".
func (e *entry) elsewhere() string {
	texts := append([]string{e.URL}, e.Args...)
	for _, p := range e.Env {
		texts = append(texts, p.Value)
	}
	all := marks.ReplaceAllString(strings.Join(texts, "\n"), "VARIABLE")
	for _, found := range address.FindAllString(all, -1) {
		u, err := url.Parse(found)
		if err != nil {
			return "an address that cannot be read"
		}
		if host := u.Hostname(); host != "" && !hostname.IsLoopback(host) {
			return text.Clip(text.Line(host), 80)
		}
	}
	return ""
}

// visibleValue returns the value of a variable for people, or "" if it is a secret.
func visibleValue(p Pair) string {
	if secret.IsCredential(p.Name, p.Value) || marks.MatchString(p.Value) {
		return ""
	}
	return ": " + text.Quote(p.Value, 60)
}

// accept marks the checks that a person accepts, and omits the members of all other checks.
func (g *collection) accept(ids []string) error {
	var known []string
	for _, s := range g.servers {
		for i := range s.Checks {
			s.Checks[i].ID = s.Name + "." + s.Checks[i].Member
			known = append(known, s.Checks[i].ID)
		}
	}
	now, before := func(s *Server) string { return s.Name }, func(s *Server) string { return s.Was }
	for _, id := range ids {
		if !g.acceptID(id, now) && !g.acceptID(id, before) {
			there := "there is nothing to accept"
			if len(known) > 0 {
				there = "there are " + text.List(known, 20)
			}
			return fmt.Errorf("--accept %s matches nothing: %s", text.Quote(id, 80), there)
		}
	}
	for _, s := range g.servers {
		for _, c := range s.Checks {
			if c.Member == "url" && !c.Accepted { // a server needs its URL
				s.leave("it takes --accept %s", c.ID)
			} else if !c.Accepted {
				s.drop(c.Member)
			}
		}
	}
	return nil
}

// acceptID marks the checks with the id as accepted. name returns the server's name that the id
// uses.
func (g *collection) acceptID(id string, name func(*Server) string) (found bool) {
	for _, s := range g.servers {
		for i := range s.Checks {
			if c := &s.Checks[i]; name(s) != "" && id == name(s)+"."+c.Member {
				c.Accepted, found = true, true
			}
		}
	}
	return found
}

// A Member is one member of an entry, by its path there.
type Member struct {
	Path  []string
	Value json.RawMessage
}

// Reconcile compares the checks with a server of the gateway's config, as it was read. It marks the
// members that the server already has as accepted. It returns the accepted members that the server
// lacks.
func (s *Server) Reconcile(raw json.RawMessage) (lacks []Member) {
	want, err := rawjson.Parse(s.Entry())
	have, e := rawjson.Parse(raw)
	if err != nil || e != nil {
		return nil
	}
	for i := range s.Checks {
		c := &s.Checks[i]
		path := strings.SplitN(c.Member, ".", 2)
		there, value := have, want
		for _, name := range path {
			there, value = there.Get(name), value.Get(name)
		}
		if c.Accepted && there == nil {
			lacks = append(lacks, Member{path, value.Raw})
		}
		c.Accepted = c.Accepted || there != nil
	}
	return lacks
}
