package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	"github.com/portcullis-mcp/portcullis/internal/bootadmin"
	"github.com/portcullis-mcp/portcullis/pkg/config"
	"github.com/portcullis-mcp/portcullis/pkg/identity"
	"github.com/portcullis-mcp/portcullis/pkg/lock"
	"github.com/portcullis-mcp/portcullis/pkg/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/policy"
	"github.com/portcullis-mcp/portcullis/pkg/state"
	"github.com/portcullis-mcp/portcullis/pkg/text"
	"github.com/portcullis-mcp/portcullis/pkg/toolset"
)

// maxShown is how many faults, warnings or servers a banner names of each.
const maxShown = 5

// A banner tells whoever started the program where the gateway is and how it is:
// after the first sync, and again when what is wrong with it is not what it was.
type banner struct {
	out  io.Writer
	base string // address of the gateway
	dir  string
	demo bool
	code func() string // makes a code that signs in; nil: nobody signs in with a browser
	shut string        // why nobody is let in at /admin; "": somebody is
	each bool          // agents are told apart, so that rules may treat them apart

	wrong string // what was wrong when it was shown last
	shown bool
}

func newBanner(out io.Writer, p *boot.Program, listens net.Addr, c serveCmd) *banner {
	base := p.Settings.BaseURL
	if base == "" {
		base = "http://" + listens.String()
	}
	b := &banner{out: out, base: base, dir: c.Dir, demo: c.Demo, shut: bootadmin.Closed(p), each: !p.Settings.Access.Open()}
	if p.Login != nil {
		b.code = p.Login.Code
	}
	return b
}

// show writes the banner if there is news. It goes out in one write.
func (b *banner) show(s *state.State) {
	var wrong strings.Builder
	b.problems(&wrong, s.Health)
	if b.shown && wrong.String() == b.wrong {
		return
	}
	b.wrong, b.shown = wrong.String(), true
	var text strings.Builder
	fmt.Fprintln(&text, headline(s.Health))
	b.where(&text, s)
	b.tools(&text, s)
	text.WriteString(b.wrong)
	fmt.Fprint(b.out, text.String())
}

func headline(h state.Health) string {
	switch n := text.Count(len(h.Reasons()), "problem"); h.Condition() {
	case state.Failing:
		return "portcullis is running and cannot serve yet: " + n
	case state.Degraded:
		return "portcullis is running, with " + n
	case state.OK:
	}
	return "portcullis is ready"
}

// row writes one line under the headline; without a name it goes on with the row before.
func row(w io.Writer, name, text string) { fmt.Fprintf(w, "  %-13s %s\n", name, text) }

// where writes what the gateway's addresses are, and what it reads.
func (b *banner) where(w io.Writer, s *state.State) {
	row(w, "MCP endpoint", b.base+"/mcp")
	if b.shut == "" {
		row(w, "approvals", b.base+"/admin")
	} else {
		row(w, "approvals", b.shut+".")
		row(w, "", "Or start it on a loopback address, such as --addr 127.0.0.1:8080: people then sign in with a key.")
	}
	if b.code != nil { // not into the log, which others may read
		row(w, "sign in", b.base+"/admin/login?code="+b.code())
		row(w, "", "The link works once, within 10 minutes. Later, sign in with the key in "+b.path(keyFile)+".")
	}
	row(w, "health", b.base+"/healthz")
	path := b.path(config.Key)
	switch c := s.Health.Config; {
	case !c.InUse:
		row(w, "config", "none in use; it belongs in "+path)
	case c.Stale:
		row(w, "config", fmt.Sprintf("the last good one (version %.12s), not %s as it is now", c.Version, path))
	default:
		row(w, "config", fmt.Sprintf("%s (version %.12s)", path, c.Version))
	}
	if b.demo {
		row(w, "demo", "notes and tickets, two small MCP servers of this program")
	}
}

func (b *banner) path(key string) string { return filepath.Join(b.dir, filepath.FromSlash(key)) }

// tools writes how the servers are, and what an agent that may see all of them finds.
func (b *banner) tools(w io.Writer, s *state.State) {
	if !s.Ready() {
		return
	}
	agent, _ := identity.None{}.Authenticate(nil) // it never fails
	view := s.View(agent)
	var failing []string
	n := map[string]int{}
	for _, srv := range view.Servers() {
		switch {
		case !srv.Config.Enabled:
			n["off"]++
		case srv.Outcome.Status == outcome.Available:
			n["ok"]++
		default:
			n["failing"]++
			message := srv.Outcome.Message(srv.Config.Name)
			if message == "" {
				message = "MCP server '" + srv.Config.Name + "' has not been asked yet."
			}
			failing = append(failing, message)
		}
	}
	row(w, "servers", counted(n, "ok", "failing", "off"))
	list(w, "", failing, ": "+b.base+"/admin/servers")
	sel, err := view.Select(toolset.Request{})
	if err != nil {
		return // one of the problems
	}
	n = map[string]int{}
	for i := range sel.Tools.All() {
		n[word(view.Status(i))]++
	}
	tools := counted(n, append([]string{callable}, statuses()...)...)
	if b.each {
		tools += "; for an agent that no rule names"
	}
	row(w, "tools", tools)
	if waiting := n[string(lock.PendingApproval)]; waiting > 0 {
		b.next(w, waiting)
	}
}

// next writes what is to be done about tools that wait for a person.
func (b *banner) next(w io.Writer, waiting int) {
	if b.shut != "" {
		row(w, "next", "open /admin: nobody can decide about "+text.Count(waiting, "tool")+" pending approval while it is shut")
		return
	}
	row(w, "next", "decide about "+text.Count(waiting, "tool")+" pending approval: "+b.base+"/admin")
}

const callable = "callable"

func word(s lock.Status) string {
	if s == lock.None {
		return callable
	}
	return string(s)
}

func statuses() []string {
	var out []string
	for _, s := range lock.Statuses() {
		out = append(out, string(s))
	}
	return out
}

// counted writes "2 ok, 1 off". The first count is always there.
func counted(n map[string]int, names ...string) string {
	var parts []string
	for i, name := range names {
		if i == 0 || n[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[name], name))
		}
	}
	return strings.Join(parts, ", ")
}

// problems writes what is wrong, with file and line where it is a file, and what to do;
// then what only looks wrong.
func (b *banner) problems(w io.Writer, h state.Health) {
	for _, r := range h.Reasons() {
		row(w, "problem", r.Message)
		switch r.Code {
		case "config_refused":
			list(w, "", b.located(config.Key, h.Config.Err), b.all())
		case "policy_refused":
			list(w, "", b.located(policy.Key, h.Policy.Err), b.all())
		}
		if r.Code == "config_missing" {
			b.firstSteps(w)
			continue
		}
		row(w, "what to do", r.Action)
	}
	var warnings []string
	for _, text := range h.Warnings {
		warnings = append(warnings, b.dir+"/"+text)
	}
	list(w, "warning", warnings, b.all())
}

// firstSteps says what somebody does who starts the program for the first time.
func (b *banner) firstSteps(w io.Writer) {
	row(w, "what to do", "Write "+b.path(config.Key)+", such as")
	row(w, "", `{"mcpServers": {"NAME": {"url": "https://HOST/mcp"}}}`)
	row(w, "", "It is taken within seconds. Or stop this, and start with --demo and another --dir to see the gateway at work.")
}

// located returns the faults of a file, each with the path of the file.
func (b *banner) located(key string, err error) []string {
	faults, _ := errors.AsType[config.Faults](err)
	out := make([]string, len(faults))
	for i, f := range faults {
		out[i] = b.path(key) + ":" + f.String()
	}
	return out
}

// all says where everything that is wrong with the files is printed.
func (b *banner) all() string { return ": " + self() + " check " + b.dir }

// list writes one row each under name, up to maxShown, and then where the others are.
func list(w io.Writer, name string, rows []string, others string) {
	for i, text := range rows {
		if i == maxShown {
			row(w, "", fmt.Sprintf("and %d more%s", len(rows)-maxShown, others))
			return
		}
		row(w, name, text)
	}
}
