package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"

	"github.com/portcullis-mcp/portcullis/internal/boot"
	bootadmin "github.com/portcullis-mcp/portcullis/internal/boot/admin"
	"github.com/portcullis-mcp/portcullis/internal/cli/doctor"
	"github.com/portcullis-mcp/portcullis/internal/cli/folder"
	"github.com/portcullis-mcp/portcullis/pkg/agent/state"
	"github.com/portcullis-mcp/portcullis/pkg/base/text"
	"github.com/portcullis-mcp/portcullis/pkg/people/connect"
	"github.com/portcullis-mcp/portcullis/pkg/people/decide"
	"github.com/portcullis-mcp/portcullis/pkg/people/signin"
	"github.com/portcullis-mcp/portcullis/pkg/rules/config"
	"github.com/portcullis-mcp/portcullis/pkg/rules/identity"
	"github.com/portcullis-mcp/portcullis/pkg/rules/lock"
	"github.com/portcullis-mcp/portcullis/pkg/rules/outcome"
	"github.com/portcullis-mcp/portcullis/pkg/rules/policy"
	"github.com/portcullis-mcp/portcullis/pkg/rules/tool"
	"github.com/portcullis-mcp/portcullis/pkg/rules/toolset"
)

// maxShown is the maximum number of faults, warnings or servers that a banner names.
const maxShown = 5

// A banner prints the address and the state of the gateway for the person who started the program.
// It prints them after the first sync, and when the problems change.
type banner struct {
	serveCmd
	out     io.Writer
	program *boot.Program
	codes   *signin.Codes // of links that sign in at /admin; nil: no links
	base    string        // address of the gateway
	closed  string        // why nobody can use /admin; "": somebody can
	noAdmin bool          // nobody has a credential for /admin

	client   *clientGateway
	shown    bool
	problems string // at the last output
}

func newBanner(out io.Writer, p *boot.Program, addr *net.TCPAddr, c serveCmd, codes *signin.Codes) *banner {
	return &banner{serveCmd: c, out: out, program: p, codes: codes, base: cmp.Or(p.Settings.BaseURL, "http://"+addr.String()), closed: bootadmin.Closed(p)}
}

// show writes the banner in one write, if the problems have changed.
func (b *banner) show(s *state.State) {
	var problems, all strings.Builder
	b.writeProblems(&problems, s.Health)
	if b.shown && problems.String() == b.problems {
		return
	}
	b.problems, b.shown = problems.String(), true
	fmt.Fprintln(&all, b.headline(s.Health))
	b.writeAddresses(&all, s.Health)
	b.writeTools(&all, s)
	fmt.Fprint(b.out, all.String()+b.problems)
}

func (b *banner) headline(h state.Health) string {
	n := len(h.Reasons())
	switch {
	case waitsForServers(h) && b.noAdmin:
		n = 1 // no servers yet is not a problem
	case waitsForServers(h):
		return "portcullis is running, and has no servers yet"
	case b.noAdmin:
		n++
	}
	switch problems := text.Count(n, "problem"); {
	case h.Condition() == state.Failing && !waitsForServers(h):
		return "portcullis is running and cannot serve yet: " + problems
	case h.Condition() != state.OK || b.noAdmin:
		return "portcullis is running, with " + problems
	}
	return "portcullis is ready"
}

// waitsForServers reports whether the only problem is that the config names no server yet, as after
// portcullis init.
func waitsForServers(h state.Health) bool {
	reasons := h.Reasons()
	return len(reasons) == 1 && reasons[0].Code == "no_servers"
}

// row writes one line under the headline. If name is "", the line continues the row above it.
func row(w io.Writer, name, format string, args ...any) {
	fmt.Fprintf(w, "  %-13s "+format+"\n", append([]any{name}, args...)...)
}

// rows writes up to maxShown rows under name. If there are more, it also writes where to find the
// remaining rows.
func rows(w io.Writer, name string, all []string, others string) {
	for i, line := range all {
		if i == maxShown {
			row(w, "", "and %d more: %s", len(all)-maxShown, others)
			return
		}
		row(w, name, "%s", line)
	}
}

// writeAddresses writes the gateway's addresses, and the files that it reads.
func (b *banner) writeAddresses(w io.Writer, h state.Health) {
	row(w, "MCP endpoint", "%s/mcp", b.base)
	if b.closed == "" {
		row(w, "approvals", "%s/admin", b.base)
	} else {
		row(w, "approvals", "%s.", b.closed)
		row(w, "", "Or start it on a loopback address, such as --addr 127.0.0.1:8080: people then sign in with a key.")
	}
	if b.codes != nil { // only a terminal gets the link, because other people may read the log
		row(w, "sign in", "%s/admin/login?code=%s", b.base, b.codes.New())
		row(w, "", "The link works once, within 10 minutes. Later, sign in with the key in %s.", b.path(folder.KeyFile))
	}
	row(w, "health", "%s/healthz", b.base)
	row(w, "commands", "%s open --dir %s, %s status --dir %s; all: %s --help", self(), connect.Shell(b.Dir), self(), connect.Shell(b.Dir), self())
	switch path, c := b.path(config.Key), h.Config; {
	case !c.InUse:
		row(w, "config", "none in use; it belongs in %s", path)
	case c.Stale:
		row(w, "config", "the last good one (version %.12s), not %s as it is now", c.Version, path)
	default:
		row(w, "config", "%s (version %.12s)", path, c.Version)
	}
	if b.Demo {
		row(w, "demo", "notes and tickets, two small MCP servers of this program")
	}
}

func (b *banner) path(key string) string { return filepath.Join(b.Dir, filepath.FromSlash(key)) }

// writeTools writes the state of the servers, and the tools of an agent that may see all servers.
func (b *banner) writeTools(w io.Writer, s *state.State) {
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
			failing = append(failing, cmp.Or(decide.OutcomeOf(srv.Config.Name,
				srv.Outcome).Message, "MCP server '"+srv.Config.Name+"' has not been loaded yet."))
		}
	}
	row(w, "servers", "%s", counted(n, "ok", "failing", "off"))
	rows(w, "", failing, b.base+"/admin/servers")
	sel, err := view.Select(toolset.Request{})
	if err != nil {
		return // the banner lists it as a problem
	}
	restriction := ""
	if !b.program.Settings.Access.Open() {
		restriction = "; for an agent that no rule names"
	}
	var waiting []string
	for _, kind := range []struct {
		name, one string
		of        tool.Set
	}{{"tools", "tool", sel.Tools}, {"prompts", "prompt", sel.Prompts}, {"resources", "resource", sel.Resources}} {
		words, n := []string{"callable"}, map[string]int{}
		if kind.name != "tools" {
			words[0] = "open"
		}
		for _, s := range lock.Statuses() {
			words = append(words, string(s))
		}
		for i := range kind.of.All() {
			n[cmp.Or(string(view.Status(i)), words[0])]++
		}
		if len(n) > 0 || kind.name == "tools" {
			row(w, kind.name, "%s%s", counted(n, words...), restriction)
		}
		if n := n[string(lock.PendingApproval)]; n > 0 {
			waiting = append(waiting, text.Count(n, kind.one))
		}
	}
	b.writeNext(w, strings.Join(waiting, ", "))
}

// writeNext writes the next step for items that wait for a person.
func (b *banner) writeNext(w io.Writer, waiting string) {
	switch {
	case waiting == "", b.noAdmin:
	case b.closed != "":
		row(w, "next", "open /admin: nobody can decide about %s pending approval while it is closed", waiting)
	default:
		row(w, "next", "decide about %s pending approval: %s/admin", waiting, b.base)
	}
}

// counted returns "2 ok, 1 off". It always includes the first count.
func counted(n map[string]int, names ...string) string {
	var parts []string
	for i, name := range names {
		if i == 0 || n[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[name], name))
		}
	}
	return strings.Join(parts, ", ")
}

// writeProblems writes the problems with file and line and with the remedy, and then the warnings.
func (b *banner) writeProblems(w io.Writer, h state.Health) {
	check := self() + " check " + b.Dir // prints all problems
	if b.noAdmin {
		row(w, "problem", "%s", noAdmin)
		row(w, "what to do", "%s", doctor.Find(noAdminCode, "", "").Do)
		row(w, "", "%s", firstToken(b.program.Settings.Access, b.Dir))
	}
	for _, r := range h.Reasons() {
		if waitsForServers(h) {
			row(w, "next", "write your servers into %s, or import a client's servers: "+
				"portcullis import", b.path(config.Key))
			row(w, "", "The gateway reads a change of the file within seconds.")
			break
		}
		row(w, "problem", "%s", r.Message)
		switch r.Code {
		case "config_refused":
			rows(w, "", b.located(config.Key, h.Config.Err), check)
		case "policy_refused":
			rows(w, "", b.located(policy.Key, h.Policy.Err), check)
		case "config_missing": // at the first start
			row(w, "what to do", "Write %s, such as", b.path(config.Key))
			row(w, "", `{"mcpServers": {"NAME": {"url": "https://HOST/mcp"}}}`)
			row(w, "", "The gateway reads it within seconds. Or stop it, and start it with "+
				"--demo and another --dir to see the gateway at work.")
			continue
		}
		row(w, "what to do", "%s", r.Action)
	}
	var warnings []string
	for _, warning := range h.Warnings {
		warnings = append(warnings, b.Dir+"/"+warning)
	}
	rows(w, "warning", warnings, check)
}

// located returns the faults of a file, each with the file's path.
func (b *banner) located(key string, err error) []string {
	faults, _ := errors.AsType[config.Faults](err)
	out := make([]string, len(faults))
	for i, f := range faults {
		out[i] = f.In(b.path(key))
	}
	return out
}
